"""Measure the floating-point rate of this machine's devices: `python -P -m workloads.calibrate`.

For each device and precision, square matrices of growing size are multiplied until the rate stops
growing. The rate of a size is the median of its repetitions. Two n × n matrices take 2 n³
operations: a multiply-add counts as 2. The products are those of the first installed one of
TensorFlow, JAX and PyTorch, and are done once the host can read a number of the last.

The results are lines of JSON on stdout: {"type": "device"}, then {"type": "rate"} for each size,
and {"type": "peak"} or {"type": "skipped"} for each precision; {"type": "failed"} if nothing can be
measured.
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
# Long enough that the start and end of a repetition don't count.
REPETITION_S = 0.05
# Measuring ends after two sizes that gain less than this on the best size before.
GAIN = 1.03
PRECISION_S = 6.0


Multiply = Callable[[int], None]
"""Multiplies two random matrices this many times, and waits for the last product.

Zeros would take less power, and so run faster.
"""


@dataclass(frozen=True)
class CalibratedDevice:
    """A device of a framework.

    Attributes:
        kind: "cpu" or "gpu".
        name: None if the framework has none for it; several GPUs may share one.
        products: returns a `Multiply` for a precision and a size.
        float32_note: the precision in which a GPU computes float32 products.
    """

    kind: str
    name: str | None
    products: Callable[[str, int], Multiply]
    float32_note: str | None = None


def _tensor_cores(are_used: bool) -> str:
    return "TF32 where the GPU has it" if are_used else "without TF32"


def _devices_of_tensorflow(tensorflow: Any) -> Iterator[CalibratedDevice]:
    """Yield TensorFlow's devices, whose products run eagerly."""

    def products(device: str, precision: str, size: int) -> Multiply:
        with tensorflow.device(device):
            normal = tensorflow.random.normal
            a, b = (tensorflow.cast(normal((size, size)), precision) for _ in range(2))

        def multiply(times: int) -> None:
            with tensorflow.device(device):
                for _ in range(times):
                    product = tensorflow.linalg.matmul(a, b)
                # A device computes its products in order: the last one ends all.
                product[0, 0].numpy()

        return multiply

    config = tensorflow.config
    note = _tensor_cores(config.experimental.tensor_float_32_execution_enabled())
    yield CalibratedDevice("cpu", None, partial(products, "/CPU:0"))
    for number, gpu in enumerate(config.list_physical_devices("GPU")):
        name = config.experimental.get_device_details(gpu).get("device_name")
        yield CalibratedDevice("gpu", name, partial(products, f"/GPU:{number}"), note)


def _devices_of_jax(jax: Any) -> Iterator[CalibratedDevice]:
    """Yield JAX's devices, whose products are compiled."""

    def products(device: Any, precision: str, size: int) -> Multiply:
        a, b = (
            jax.device_put(jax.random.normal(key, (size, size), dtype=precision), device)
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
    """Yield PyTorch's devices, whose products run eagerly."""

    def products(device: str, precision: str, size: int) -> Multiply:
        dtype = getattr(torch, precision)
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))

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
"""Generators of a framework's devices, by the name of its module."""


def first_installed() -> Any:
    """Import and return the first installed framework; None if there is none.

    Raises:
        ImportError: a framework is installed but broken.
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
    """The floating-point operations per second of products of one size."""

    size: int
    flop_s: float


def measure_sizes(
    multiply: Callable[[int], Multiply],
    largest_size: int,
    clock: Callable[[], float] = time.perf_counter,
    budget_s: float = PRECISION_S,
) -> Iterator[Rate]:
    """Yield the rate of each size until it stops growing, or the time is spent.

    Args:
        multiply: returns a `Multiply` for a size.
        largest_size: the last size to measure.
        clock: returns seconds.
        budget_s: time for all sizes; one that would exceed it is not begun, except the first.
    """
    begin_s = clock()
    best, without_gain, size = 0.0, 0, SMALLEST_SIZE
    while size <= largest_size and without_gain < 2:
        expected_s = 2 * size**3 / best if best else 0.0
        # One warm-up and at least three repetitions.
        if best and clock() - begin_s + 4 * expected_s > budget_s:
            return
        flop_s = measure_size(multiply(size), size, clock, begin_s + budget_s)
        yield Rate(size, flop_s)
        without_gain = 0 if flop_s > GAIN * best else without_gain + 1
        best = max(best, flop_s)
        size *= 2


def measure_size(
    multiply: Multiply, size: int, clock: Callable[[], float], deadline_s: float
) -> float:
    """Return the median rate of at least three repetitions of one size."""

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
        if repetition >= 3 and clock() > deadline_s:
            break
        rates.append(times * 2 * size**3 / seconds(times))
    return median(rates)


def calibrate(
    devices: Iterable[CalibratedDevice], report: Callable[[dict[str, Any]], None]
) -> None:
    """Measure the first device of each name in every precision, and report the results."""
    by_name: dict[str | None, CalibratedDevice] = {}
    for device in devices:
        by_name.setdefault(device.name, device)
    for device in by_name.values():
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
    """Measure all devices, and return the exit code: 0 done, 1 failed."""
    # The framework's own output goes to stderr, apart from the lines of JSON.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # Python may have printed a line without its end on startup.
    print(file=lines, flush=True)

    def report(result: dict[str, Any]) -> None:
        print(json.dumps(result, allow_nan=False), file=lines, flush=True)

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
