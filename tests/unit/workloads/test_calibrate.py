"""How matrix products are timed, on a made-up device with a clock of its own."""

from __future__ import annotations

import sys
import types
from types import SimpleNamespace

import pytest

import workloads.calibrate
from workloads.calibrate import (
    REPETITION_S,
    SMALLEST_SIZE,
    calibrate,
    measure_size,
    measure_sizes,
)


class Device:
    """Computes at `flop_s(size)`; each call costs `overhead_s`, the first one `warm_up_s` too."""

    def __init__(self, flop_s, overhead_s=1e-5, warm_up_s=0.0):
        self.now = 0.0
        self.flop_s, self.overhead_s, self.warm_up_s = flop_s, overhead_s, warm_up_s
        self.calls: list[tuple[int, int]] = []

    def clock(self):
        return self.now

    def __call__(self, size):
        first = True

        def multiply(times):
            nonlocal first
            self.calls.append((size, times))
            self.now += self.overhead_s + times * 2 * size**3 / self.flop_s(size)
            self.now += self.warm_up_s if first else 0.0
            first = False

        return multiply


def sizes(device, largest=32768, budget_s=6.0):
    return list(measure_sizes(device, largest, device.clock, budget_s))


def test_the_rate_is_that_of_the_products_and_not_of_the_calls():
    device = Device(lambda size: 1e11, overhead_s=1e-3, warm_up_s=3.0)
    assert measure_size(device(512), 512, device.clock, 100.0) == pytest.approx(1e11, rel=0.05)
    assert device.calls[0] == (512, 1)
    assert all(times * 2 * 512**3 / 1e11 >= REPETITION_S / 2 for _, times in device.calls[-5:])


def test_a_single_slow_repetition_does_not_count():
    device = Device(lambda size: 1e12 if len(device.calls) != 6 else 1e8)
    assert measure_size(device(1024), 1024, device.clock, 1e9) == pytest.approx(1e12, rel=0.05)


def test_sizes_grow_until_the_rate_has_stopped_growing_twice_or_to_the_largest():
    found = sizes(Device(lambda size: min(size, 2048) * 1e9))
    assert [rate.size for rate in found] == [256, 512, 1024, 2048, 4096, 8192]
    assert max(rate.flop_s for rate in found) == pytest.approx(2048e9, rel=0.01)
    assert [rate.size for rate in sizes(Device(lambda size: size * 1e12), 512)] == [256, 512]


@pytest.mark.parametrize("flop_s", [1e7, 1e9, 1e11, 1e14])
def test_a_slow_device_is_measured_in_about_the_time_it_is_given(flop_s):
    device = Device(lambda size: flop_s * size / 256)
    found = sizes(device, budget_s=6.0)
    assert found
    # The smallest size is measured however long it takes.
    smallest_s = 5 * 2 * SMALLEST_SIZE**3 / flop_s
    assert device.now <= 6.0 + smallest_s + 1.0


def reported_of_cpu(monkeypatch, fails_at, error):
    """Return what is reported of float32 products that fail from one size on."""
    monkeypatch.setattr(workloads.calibrate, "PRECISIONS", ("float32",))
    device = Device(lambda size: size * 1e9)

    def measured(multiply, largest_size):
        return measure_sizes(multiply, largest_size, device.clock)

    monkeypatch.setattr(workloads.calibrate, "measure_sizes", measured)
    reported = []

    def products(precision, size):
        if size >= fails_at:
            raise error
        return device(size)

    calibrate([workloads.calibrate.CalibratedDevice("cpu", None, products)], reported.append)
    return reported


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("cuBLAS failed\nand more"), "ValueError: cuBLAS failed"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes."), "memory ran out"),
    ],
)
def test_a_size_that_fails_leaves_the_peak_so_far_and_where_there_is_none_the_reason(
    monkeypatch, error, text
):
    *_, last = reported_of_cpu(monkeypatch, 1024, error)
    assert (last["type"], last["size"]) == ("peak", 512)
    assert last["flop_s"] == pytest.approx(512e9, rel=0.05)
    *_, last = reported_of_cpu(monkeypatch, SMALLEST_SIZE, error)
    assert (last["type"], last["text"]) == ("skipped", text)


@pytest.mark.parametrize("installed", [["jax"], ["torch"], ["jax", "torch"]])
def test_without_tensorflow_the_next_framework_that_is_installed_serves(monkeypatch, installed):
    cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False))
    for name in workloads.calibrate.FRAMEWORKS:
        module = None
        if name in installed:
            module = types.ModuleType(name)
            module.__version__, module.backends = "2.0", SimpleNamespace(cuda=cuda)
        monkeypatch.setitem(sys.modules, name, module)
    found = workloads.calibrate.first_installed()
    assert (found.__name__, found.__version__) == (installed[0], "2.0")
