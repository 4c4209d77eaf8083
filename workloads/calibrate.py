"""Measure what matrix products this machine computes a second: `python -P -m workloads.calibrate`.

For each device and precision, square matrices of growing size are multiplied
until the rate stops growing. A size counts by the median of its repetitions,
and a repetition ends when its result is there. Two n × n matrices take 2 n³
operations, a multiply-add counted as 2.

What is found comes as lines of JSON on stdout: {"type": "device"}, then for
each size {"type": "rate"}, for each precision {"type": "peak"} or {"type":
"skipped"}; {"type": "failed"} when nothing can be measured.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from workloads.failure import one_line, ran_out_of_memory
from workloads.matrix_products import Backend, first_installed, first_of_each_name

PRECISIONS = ("float32", "bfloat16", "float16")
SMALLEST_SIZE = 256
# Beyond these, a CPU gains nothing, and a GPU's memory ends.
LARGEST_SIZE = {"cpu": 8192, "gpu": 32768}
# A repetition multiplies so often that its start and its end don't count.
REPETITION_S = 0.05
REPETITIONS = 5
# A size must gain so much on the best one before it; two that don't are the end.
GAIN = 1.03
PRECISION_S = 6.0


@dataclass(frozen=True)
class Rate:
    """How many floating-point operations per second products of one size reached."""

    size: int
    flop_s: float


def measure_sizes(
    multiply: Callable[[int], Callable[[int], None]],
    largest_size: int,
    clock: Callable[[], float] = time.perf_counter,
    budget_s: float = PRECISION_S,
) -> Iterator[Rate]:
    """Yield the rate of each size until it stops growing, or the time is spent.

    Args:
        multiply: makes ready for a size; returns what multiplies so many times
            and comes back when the last product is there.
        largest_size: where to end at the latest.
        clock: returns seconds.
        budget_s: no size is begun that would go beyond it; the first always is.
    """
    began = clock()
    best, without_gain, size = 0.0, 0, SMALLEST_SIZE
    while size <= largest_size and without_gain < 2:
        expected_s = 2 * size**3 / best if best else 0.0
        # Once to warm up, and then at least three times.
        if best and clock() - began + 4 * expected_s > budget_s:
            return
        flop_s = measure_size(multiply(size), size, clock, began + budget_s)
        yield Rate(size, flop_s)
        without_gain = 0 if flop_s > GAIN * best else without_gain + 1
        best = max(best, flop_s)
        size *= 2


def measure_size(
    multiply: Callable[[int], None], size: int, clock: Callable[[], float], deadline: float
) -> float:
    """Return the median rate of the repetitions of one size; three at least."""

    def seconds(times: int) -> float:
        start = clock()
        multiply(times)
        return max(clock() - start, 1e-9)

    seconds(1)  # the first one chooses a kernel and takes memory
    times = 1
    while (took_s := seconds(times)) < REPETITION_S:
        times *= max(2, min(1000, int(REPETITION_S / took_s)))
    rates = []
    for repetition in range(REPETITIONS):
        if repetition >= 3 and clock() > deadline:
            break
        rates.append(times * 2 * size**3 / seconds(times))
    return median(rates)


def calibrate(backend: Backend, report: Callable[[dict[str, Any]], None]) -> None:
    """Measure every device in every precision, and report what was found as it comes."""
    for device in first_of_each_name(backend.devices()):
        about: dict[str, Any] = {"device": device.kind, "device_name": device.name}
        report({"type": "device", **about})
        for precision in PRECISIONS:
            found = {**about, "precision": precision}
            if device.kind == "gpu" and precision == "float32":
                found["note"] = backend.float32_note
            best, why = None, ""
            products = partial(backend.products, device, precision)
            try:
                for rate in measure_sizes(products, LARGEST_SIZE[device.kind]):
                    report({"type": "rate", **found, "size": rate.size, "flop_s": rate.flop_s})
                    best = rate if best is None or rate.flop_s > best.flop_s else best
            except Exception as error:  # noqa: BLE001 - what the framework raises ends the sizes
                why = "memory ran out" if ran_out_of_memory(error) else one_line(error)
            if best is None:
                report({"type": "skipped", **found, "text": why})
            else:
                report({"type": "peak", **found, "size": best.size, "flop_s": best.flop_s})


def main() -> int:
    """Measure all there is, and return the exit code: 0 done, 1 failed."""
    # Whatever the backend prints must not come between the lines of JSON.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def report(found: dict[str, Any]) -> None:
        print(json.dumps(found, allow_nan=False), file=lines, flush=True)

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    backend = first_installed()
    if backend is None:
        names = "neither TensorFlow nor JAX nor PyTorch, one of which calibration uses,"
        report({"type": "failed", "text": f"{names} is installed in {sys.executable}"})
        return 1
    python = ".".join(map(str, sys.version_info[:3]))
    versions = {"python": python, backend.name: backend.version}
    report({"type": "versions", "versions": versions})
    calibrate(backend, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
