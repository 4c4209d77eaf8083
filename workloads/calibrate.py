"""Measure what matrix products this machine computes a second: `python -P -m workloads.calibrate`.

For each device and precision, square matrices of growing size are multiplied
until the rate stops growing. A size counts by the median of its repetitions,
and a repetition ends when its result is there. Two n × n matrices take 2 n³
operations, a multiply-add counted as 2. TensorFlow, JAX or PyTorch serves, whichever is
installed first in that order. A product counts as done when a number of it can be read on the
host.

What is found comes as lines of JSON on stdout: {"type": "device"}, then for
each size {"type": "rate"}, for each precision {"type": "peak"} or {"type":
"skipped"}; {"type": "failed"} when nothing can be measured.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from workloads.failure import one_line, ran_out_of_memory

PRECISIONS = ("float32", "bfloat16", "float16")
SMALLEST_SIZE = 256
# Beyond these, a CPU gains nothing, and a GPU's memory ends.
LARGEST_SIZE = {"cpu": 8192, "gpu": 32768}
# A repetition multiplies so often that its start and its end don't count.
REPETITION_S = 0.05
# A size must gain so much on the best one before it; two that don't are the end.
GAIN = 1.03
PRECISION_S = 6.0


Multiply = Callable[[int], None]
"""Multiplies two random matrices so many times and waits for the last.

Zeros would cost less power, and so run faster.
"""


@dataclass(frozen=True)
class CalibratedDevice:
    """A device of a framework; some GPUs may have the same name.

    Attributes:
        kind: "cpu" or "gpu".
        name: its own name, None where the framework has none for it.
        products: returns what multiplies matrices of a precision and a size on it.
        float32_note: what float32 products are computed in, of a GPU.
    """

    kind: str
    name: str | None
    products: Callable[[str, int], Multiply]
    float32_note: str | None = None


def _tensor_cores(are_used: bool) -> str:
    return "TF32 where the GPU has it" if are_used else "without TF32"


def _devices_of_tensorflow(tensorflow: Any) -> Iterator[CalibratedDevice]:
    """Yield its devices, of which products run eagerly."""

    def products(place: str, precision: str, size: int) -> Multiply:
        with tensorflow.device(place):
            normal = tensorflow.random.normal
            a, b = (tensorflow.cast(normal((size, size)), precision) for _ in range(2))

        def multiply(times: int) -> None:
            with tensorflow.device(place):
                for _ in range(times):
                    product = tensorflow.linalg.matmul(a, b)
                # The products of a device come in order, so one number of the last ends all.
                product[0, 0].numpy()

        return multiply

    config = tensorflow.config
    note = _tensor_cores(config.experimental.tensor_float_32_execution_enabled())
    yield CalibratedDevice("cpu", None, partial(products, "/CPU:0"))
    for number, gpu in enumerate(config.list_physical_devices("GPU")):
        name = config.experimental.get_device_details(gpu).get("device_name")
        yield CalibratedDevice("gpu", name, partial(products, f"/GPU:{number}"), note)


def _devices_of_jax(jax: Any) -> Iterator[CalibratedDevice]:
    """Yield its devices, of which products are compiled."""

    def products(place: Any, precision: str, size: int) -> Multiply:
        a, b = (
            jax.device_put(jax.random.normal(key, (size, size), dtype=precision), place)
            for key in jax.random.split(jax.random.key(0))
        )
        product_of = jax.jit(jax.numpy.matmul)

        def multiply(times: int) -> None:
            for _ in range(times):
                product = product_of(a, b)
            product.block_until_ready()

        return multiply

    note = "in JAX's default precision, TF32 where the GPU has it"
    yield CalibratedDevice("cpu", None, partial(products, jax.devices("cpu")[0]))
    for device in jax.devices():
        if device.platform in ("gpu", "cuda", "rocm"):
            yield CalibratedDevice("gpu", str(device.device_kind), partial(products, device), note)


def _devices_of_torch(torch: Any) -> Iterator[CalibratedDevice]:
    """Yield its devices, of which products run eagerly."""

    def products(place: str, precision: str, size: int) -> Multiply:
        dtype = getattr(torch, precision)
        a, b = (torch.randn(size, size, device=place).to(dtype) for _ in range(2))

        def multiply(times: int) -> None:
            with torch.inference_mode():
                for _ in range(times):
                    product = torch.matmul(a, b)
                product[0, 0].item()

        return multiply

    note = _tensor_cores(torch.backends.cuda.matmul.allow_tf32)
    yield CalibratedDevice("cpu", None, partial(products, "cpu"))
    for number in range(torch.cuda.device_count()):
        name = str(torch.cuda.get_device_name(number))
        yield CalibratedDevice("gpu", name, partial(products, f"cuda:{number}"), note)


FRAMEWORKS: dict[str, Callable[[Any], Iterator[CalibratedDevice]]] = {
    "tensorflow": _devices_of_tensorflow,
    "jax": _devices_of_jax,
    "torch": _devices_of_torch,
}
"""Yield the devices of an imported framework, by the name that it is imported as."""


def first_installed() -> Any:
    """Return the first framework that is installed, imported; None where there is none.

    Raises:
        ImportError: it is installed, and broken.
    """
    for name in FRAMEWORKS:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    return None


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
    for repetition in range(5):
        if repetition >= 3 and clock() > deadline:
            break
        rates.append(times * 2 * size**3 / seconds(times))
    return median(rates)


def calibrate(found: Iterable[CalibratedDevice], report: Callable[[dict[str, Any]], None]) -> None:
    """Measure every device in every precision, and report what was found as it comes.

    Of devices with the same name, the first stands for all.
    """
    devices: dict[str | None, CalibratedDevice] = {}
    for device in found:
        devices.setdefault(device.name, device)
    for device in devices.values():
        about: dict[str, Any] = {"device": device.kind, "device_name": device.name}
        report({"type": "device", **about})
        for precision in PRECISIONS:
            measured = {**about, "precision": precision}
            if device.float32_note is not None and precision == "float32":
                measured["note"] = device.float32_note
            best, why = None, ""
            try:
                for rate in measure_sizes(
                    partial(device.products, precision), LARGEST_SIZE[device.kind]
                ):
                    report({"type": "rate", **measured, "size": rate.size, "flop_s": rate.flop_s})
                    best = rate if best is None or rate.flop_s > best.flop_s else best
            except Exception as error:  # noqa: BLE001 - what the framework raises ends the sizes
                why = "memory ran out" if ran_out_of_memory(error) else one_line(error)
            if best is None:
                report({"type": "skipped", **measured, "text": why})
            else:
                report({"type": "peak", **measured, "size": best.size, "flop_s": best.flop_s})


def main() -> int:
    """Measure all there is, and return the exit code: 0 done, 1 failed."""
    # Whatever the backend prints must not come between the lines of JSON.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # What Python printed as it started may have no end of its line.
    print(file=lines, flush=True)

    def report(found: dict[str, Any]) -> None:
        print(json.dumps(found, allow_nan=False), file=lines, flush=True)

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    framework = first_installed()
    if framework is None:
        names = "neither TensorFlow nor JAX nor PyTorch, one of which calibration uses,"
        report({"type": "failed", "text": f"{names} is installed in {sys.executable}"})
        return 1
    python = ".".join(map(str, sys.version_info[:3]))
    versions = {"python": python, framework.__name__: str(framework.__version__)}
    report({"type": "versions", "versions": versions})
    calibrate(FRAMEWORKS[framework.__name__](framework), report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
