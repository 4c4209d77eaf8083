"""Sensors that lose their GPU, and reach it again only after `REOPENING_S`."""

from __future__ import annotations

import sys
import time

from dlmon.host import host_name
from dlmon.records import Facts, Gpu, GpuFacts, Machine, MachineFacts, encode

# Longer than a sample may take, shorter than a start.
REOPENING_S = 3.0


def main() -> None:
    def send(record):
        sys.stdout.buffer.write(encode(record))
        sys.stdout.buffer.flush()

    def send_gpu(gpu):
        send(Machine(time.monotonic_ns(), time.time(), gpus=(gpu,)))

    facts = MachineFacts(cores=2, gpus=(GpuFacts(0, "NVIDIA Slow", uuid="GPU-slow"),))
    send(Facts(time.monotonic_ns(), time.time(), host_name(), facts))
    send_gpu(Gpu(0, utilization_pct=50))
    send_gpu(Gpu(0, why={"utilization_pct": "lost"}))
    time.sleep(REOPENING_S)
    while True:
        send_gpu(Gpu(0, utilization_pct=60))
        time.sleep(0.02)


if __name__ == "__main__":
    main()
