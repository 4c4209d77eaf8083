"""Sensors that report one thing that a test is about; the argument names what."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from dlmon.records import Cpu, Facts, Gpu, GpuFacts, Machine, MachineFacts, Memory, Record, encode
from dlmon.system.this_host import host_name

EARLY_MEMORY = Memory(used_mib=4_096)
LATE_GPU = GpuFacts(0, "NVIDIA Late", uuid="GPU-late")
WATTS = 40.0
# Longer than a sample may take, shorter than a start.
REOPENING_S = 3.0


def send(*records: Record) -> None:
    sys.stdout.buffer.write(b"".join(map(encode, records)))
    sys.stdout.buffer.flush()


def facts(machine: MachineFacts) -> Facts:
    return Facts(time.monotonic_ns(), time.time(), host_name(), machine)


def machine(**readings: object) -> Machine:
    return Machine(time.monotonic_ns(), time.time(), **readings)  # type: ignore[arg-type]


def send_for_ever(reading: Callable[[], Machine]) -> None:
    while True:
        send(reading())
        time.sleep(0.02)


def metered() -> None:
    """Send a sample with the facts, find a GPU later, and count a steady `WATTS` of energy.

    The GPU sleeps until a process is watched; later samples leave out what is as it was.
    """
    began = time.monotonic_ns()
    asleep = MachineFacts(cores=2, why={"gpus": "asleep"})
    send(facts(asleep), machine(cpu=Cpu(pct=7.0), memory=EARLY_MEMORY))
    sys.stdin.readline()
    send(facts(MachineFacts(cores=2, gpus=(LATE_GPU,))))

    def reading() -> Machine:
        joules = 1000 + WATTS * (time.monotonic_ns() - began) / 1e9
        return machine(cpu=Cpu(pct=50.0, energy_j=joules))

    send_for_ever(reading)


def slow_driver() -> None:
    """Lose the GPU, and reach it again only after `REOPENING_S`."""
    known = GpuFacts(0, "NVIDIA Slow", uuid="GPU-slow")
    send(facts(MachineFacts(cores=2, gpus=(known,))))
    send(machine(gpus=(Gpu(0, utilization_pct=50),)))
    send(machine(gpus=(Gpu(0, why={"utilization_pct": "lost"}),)))
    time.sleep(REOPENING_S)
    send_for_ever(lambda: machine(gpus=(Gpu(0, utilization_pct=60),)))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
