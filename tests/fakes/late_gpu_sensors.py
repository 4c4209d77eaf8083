"""Sensors whose GPU sleeps until a process is watched; newer `facts` report it then."""

from __future__ import annotations

import sys
import time

from dlmon.host import host_name
from dlmon.records import Facts, GpuFacts, Machine, MachineFacts, encode

GPU = GpuFacts(0, "NVIDIA Late", uuid="GPU-late")


def main() -> None:
    def send(record):
        sys.stdout.buffer.write(encode(record))
        sys.stdout.buffer.flush()

    def send_facts(machine):
        send(Facts(time.monotonic_ns(), time.time(), host_name(), machine))

    send_facts(MachineFacts(cores=2, why={"gpus": "asleep"}))
    sys.stdin.readline()
    send_facts(MachineFacts(cores=2, gpus=(GPU,)))
    while True:
        send(Machine(time.monotonic_ns(), time.time()))
        time.sleep(0.02)


if __name__ == "__main__":
    main()
