"""Sensors that lose their GPU, and reach it again only after `REOPENING_S`."""

from __future__ import annotations

import sys
import time

from dlmon.host import host_name
from dlmon.records import Facts, Gpu, GpuFacts, Machine, MachineFacts, encode

# Longer than a sample may take, shorter than a start.
REOPENING_S = 3.0


def main() -> None:
    def tell(record):
        sys.stdout.buffer.write(encode(record))
        sys.stdout.buffer.flush()

    def tell_gpu(gpu):
        tell(Machine(time.monotonic_ns(), time.time(), gpus=(gpu,)))

    facts = MachineFacts(cores=2, gpus=(GpuFacts(0, "NVIDIA Slow", uuid="GPU-slow"),))
    tell(Facts(time.monotonic_ns(), time.time(), host_name(), facts))
    tell_gpu(Gpu(0, utilization_pct=50))
    tell_gpu(Gpu(0, why={"utilization_pct": "lost"}))
    time.sleep(REOPENING_S)
    while True:
        tell_gpu(Gpu(0, utilization_pct=60))
        time.sleep(0.02)


if __name__ == "__main__":
    main()
