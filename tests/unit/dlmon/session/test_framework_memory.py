"""Whether what is held grows, and what is known of memory that ran out."""

from __future__ import annotations

from itertools import accumulate

import pytest

from dlmon.records import Epoch, FrameworkMemory, OutOfMemory
from dlmon.session.framework_memory import MemoryHistory

SECOND = 10**9


def history(peaks: list[float], *, epoch_s: int = 3) -> MemoryHistory:
    """Return what is known after epochs with these peaks; what is held differs each second."""
    found = MemoryHistory()
    t = 0
    for epoch, peak in enumerate(peaks):
        for second in range(epoch_s):
            t += SECOND
            held = round(peak) - (900, 20, 500, 380, 640)[(epoch + second) % 5]
            found.add(FrameworkMemory(t, "torch", 0, held, round(peak), None, 40_000))
        found.end_epoch(Epoch(epoch, t - SECOND, t, t, True, 10, {}))
    return found


def test_what_grows_in_each_epoch_is_full_after_so_many_more() -> None:
    growth = history([1000 + 120 * epoch for epoch in range(9)]).use().growth
    assert growth is not None
    assert growth.epoch_mib == 120
    assert growth.epochs == 8
    assert growth.full_in == pytest.approx((40_000 - 1000 - 8 * 120) / 120)


@pytest.mark.parametrize(
    "peaks",
    [
        [1000.0] * 12,
        # Few epochs
        [1000.0 + 120 * epoch for epoch in range(6)],
        # The optimiser's state comes in the first epoch, a layer is thawed later.
        [1000, *[3000.0] * 10],
        [1000.0] * 6 + [1400.0] * 6,
        # It settles.
        list(accumulate([1000.0, *(1000 / 2**epoch for epoch in range(10))])),
        # It comes and goes.
        [1000.0 + 100 * (epoch % 3) + 20 * epoch for epoch in range(12)],
        # Hardly anything
        [1000.0 + epoch for epoch in range(10)],
        [3000.0 - 120 * epoch for epoch in range(12)],
    ],
)
def test_what_does_not_grow_steadily_is_no_leak(peaks: list[float]) -> None:
    assert history(peaks).use().growth is None


def test_of_short_epochs_those_count_that_are_apart_enough_to_be_read() -> None:
    growth = history([1000 + 30 * epoch for epoch in range(15)], epoch_s=1).use().growth
    assert growth is not None
    assert (growth.epoch_mib, growth.epochs) == (30, 7)


def test_of_several_gpus_the_one_where_most_was_held_counts() -> None:
    found = MemoryHistory()
    first = FrameworkMemory(1, "torch", 0, 100, 200)
    second = FrameworkMemory(1, "torch", 1, 90, 900)
    other = FrameworkMemory(1, "torch", 1, 5000, 9000, trainer=2)
    for each in (first, second, other):
        found.add(each)
    assert found.use().newest == second
    assert found.latest[2, "torch", 1] == other


def test_a_log_with_any_number_of_gpus_or_errors_stays_small_and_all_errors_count() -> None:
    found = MemoryHistory()
    for number in range(3000):
        found.add(FrameworkMemory(1, "torch", number, 100, 200))
        found.add(OutOfMemory(number, 2048.0))
    assert len(found.latest) < 2000
    use = found.use()
    assert (use.errors, use.error) == (3000, OutOfMemory(2999, 2048.0))


def test_retries_are_those_of_a_time() -> None:
    found = MemoryHistory()
    for second, retries in enumerate((0, 2, 2, 5, None)):
        found.add(FrameworkMemory(second, "torch", 0, 100, 200, retries=retries))
    assert [found.retries_between(begin, 4) for begin in (-1, 1, 3)] == [5, 3, 0]
