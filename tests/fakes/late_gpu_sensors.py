"""Sensors whose GPU sleeps until a process is watched, and is told with a newer `facts` then."""

from __future__ import annotations

import sys
import time

from dlmon.host import host_name
from dlmon.records import Facts, GpuFacts, Machine, MachineFacts, encode

GPU = GpuFacts(0, "NVIDIA Late", uuid="GPU-late")


def main() -> None:
    def tell(record):
        sys.stdout.buffer.write(encode(record))
        sys.stdout.buffer.flush()

    def tell_facts(machine):
        tell(Facts(time.monotonic_ns(), time.time(), host_name(), machine))

    tell_facts(MachineFacts(cores=2, why={"gpus": "asleep"}))
    sys.stdin.readline()
    tell_facts(MachineFacts(cores=2, gpus=(GPU,)))
    while True:
        tell(Machine(time.monotonic_ns(), time.time()))
        time.sleep(0.02)


if __name__ == "__main__":
    main()
