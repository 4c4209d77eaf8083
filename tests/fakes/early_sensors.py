"""Sensors whose first sample comes with the facts; later ones leave out what is as it was."""

from __future__ import annotations

import sys
import time

from dlmon.host import host_name
from dlmon.records import Cpu, Facts, Machine, MachineFacts, Memory, encode

MEMORY = Memory(used_mib=4_096)


def main() -> None:
    def send(*records):
        sys.stdout.buffer.write(b"".join(map(encode, records)))
        sys.stdout.buffer.flush()

    def machine(**readings):
        return Machine(time.monotonic_ns(), time.time(), **readings)

    facts = Facts(time.monotonic_ns(), time.time(), host_name(), MachineFacts(cores=2))
    send(facts, machine(cpu=Cpu(pct=7.0), memory=MEMORY))
    sys.stdin.readline()
    while True:
        send(machine(cpu=Cpu(pct=50.0)))
        time.sleep(0.02)


if __name__ == "__main__":
    main()
