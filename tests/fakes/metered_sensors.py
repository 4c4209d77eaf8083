"""Sensors with nothing but an energy counter, which takes a steady `WATTS` from the machine."""

from __future__ import annotations

import sys
import time

from dlmon.host import host_name
from dlmon.records import Cpu, Facts, Machine, MachineFacts, encode

WATTS = 40.0
INTERVAL_S = 0.02


def main() -> None:
    def send(record):
        sys.stdout.buffer.write(encode(record))
        sys.stdout.buffer.flush()

    began = time.monotonic_ns()
    send(Facts(began, time.time(), host_name(), MachineFacts()))
    while True:
        now = time.monotonic_ns()
        send(Machine(now, time.time(), cpu=Cpu(energy_j=1000 + WATTS * (now - began) / 1e9)))
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main()
