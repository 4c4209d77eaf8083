"""The time of a whole epoch: measured, or projected from its parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from dlmon.records import SecondsPerEpoch, Validation
from dlmon.statistics.intervals import mean_half_width
from dlmon.statistics.steady_state import SteadyState

SLOW = 1.5
"""An epoch is slow from this many times the median on."""
MIN_PASSES = 3
"""The number of validation passes, besides the first, that shows how much passes differ."""


def epoch_interval(
    compiled_s: Sequence[float],
    others_s: Sequence[float],
    steady: SteadyState,
    compile_s: float = 0.0,
) -> SecondsPerEpoch | None:
    """Return the mean wall time of whole epochs and its 95 % interval.

    Epochs that compile are left out as soon as there is one that doesn't. The interval of one or
    two epochs follows from how much the windows of the run differ; that of three or more is the
    t-interval over epochs. Two epochs that differ much get the t-interval as if a third lay
    between them: otherwise a third epoch would widen the interval.

    Args:
        compiled_s: the wall times of epochs that compile, such as the first.
        others_s: the wall times of the other epochs.
        steady: the run's batches.
        compile_s: how much of `compiled_s` was compilation.
    """
    wall_s = others_s or compiled_s
    if not wall_s:
        return None
    value = math.fsum(wall_s) / len(wall_s)
    compiling_s = 0.0 if others_s else compile_s
    half = steady.band_of_span_s(max(0.0, math.fsum(wall_s) - compiling_s))
    if len(wall_s) > 2 or (len(wall_s) == 2 and half is None):
        half = mean_half_width(wall_s)
    elif len(wall_s) == 2 and half is not None:
        half = max(half / 2, mean_half_width([*wall_s, value]))
    return SecondsPerEpoch(
        value=value,
        low=None if half is None else max(0.0, value - half),
        high=None if half is None else value + half,
        epochs=len(wall_s),
        projected=False,
        first_left_out=bool(compiled_s and others_s),
        left_out=len(compiled_s) if others_s and len(compiled_s) > 1 else None,
        **_usual(wall_s),
    )


def _usual(wall_s: Sequence[float]) -> dict[str, Any]:
    """Return the median, the number of slow epochs and the longest; nothing below three epochs."""
    if len(wall_s) < 3:
        return {}
    usual_s = median(wall_s)
    slow = sum(epoch_s > SLOW * usual_s for epoch_s in wall_s)
    return {"median": usual_s, "slow": slow, "longest": max(wall_s)}


class _Times(NamedTuple):
    """The times of one validation pass: to open it, to close it, and per batch.

    `timed` is the number of batches behind `step_s`, without the first.
    """

    opening_s: float
    closing_s: float
    step_s: float
    timed: int


def _times_of(validation: Validation) -> _Times:
    first_s = (validation.first_end - validation.begin) / 1e9
    between_s = (validation.last_end - validation.first_end) / 1e9
    between_s -= (validation.between_us or 0) / 1e6
    closing_s = max(0.0, (validation.end - validation.last_end) / 1e9)
    first_steps = max(1, validation.first_steps or 1)
    timed = max(0, validation.steps - first_steps)
    step_s = max(0.0, between_s / timed if timed else first_s / first_steps)
    return _Times(max(0.0, first_s - step_s * first_steps), closing_s, step_s, timed)


class ValidationPasses:
    """Validation passes in their order, and the time of a whole one.

    The first batch of the first pass doesn't count, because it compiles; once there is another
    pass, nothing of the first counts.
    """

    def __init__(self, validations: Iterable[Validation | None]) -> None:
        self._passes = [v for v in validations if v is not None and v.steps > 0]
        self._times = [_times_of(validation) for validation in self._passes]

    @property
    def compile_s(self) -> float:
        """The time of the first batch of the first pass beyond a later batch."""
        if not self._passes:
            return 0.0
        first = self._passes[0]
        times = self._times[0]
        return times.opening_s if times.timed else max(0.0, (first.first_end - first.begin) / 1e9)

    def _took_s(self, steps: int | None) -> list[float]:
        """Return the time of each pass that counts, if it had `steps` batches; None: its own."""
        if len(self._passes) == 1:
            _, closing_s, step_s, timed = self._times[0]
            # A single batch compiled, so it tells nothing about others.
            return [closing_s + step_s * steps if steps else step_s * timed] if timed else []
        pairs = zip(self._times[1:], self._passes[1:], strict=True)
        return [
            times.opening_s + times.closing_s + times.step_s * (steps or validation.steps)
            for times, validation in pairs
        ]

    def seconds(self, steps: int) -> float | None:
        """Return the mean time of a pass of `steps` batches; None before that is known."""
        took_s = self._took_s(steps) if steps > 0 else [0.0]
        return math.fsum(took_s) / len(took_s) if took_s else None

    def half_s(self, steps: int, steady: SteadyState) -> float:
        """Return the half-width of the 95 % interval of `seconds(steps)`.

        It follows from how much passes differ if there are three or more besides the first;
        otherwise validation counts as just as uneven as the run's steady training.
        """
        mean_s = self.seconds(steps)
        if not mean_s:
            return 0.0
        if len(self._passes) > MIN_PASSES:
            return mean_half_width(self._took_s(steps))
        timed_s = math.fsum(self._took_s(None))
        band_s = steady.band_of_span_s(timed_s)
        return mean_s if band_s is None or not timed_s else band_s / timed_s * mean_s


def project_epoch(
    steady: SteadyState,
    samples: int,
    validation_s: float,
    validation_half_s: float = 0.0,
) -> SecondsPerEpoch | None:
    """Project the mean wall time of a whole epoch: its opening, its batches, its validation.

    The band is the 95 % interval of that mean; a single epoch may lie further off. There is no
    projection before the throughput has a band. The opening counts from three openings on.

    Args:
        steady: the run's batches.
        samples: in a whole epoch.
        validation_s: the mean time of its validation.
        validation_half_s: the half-width of the 95 % interval of `validation_s`.
    """
    steps_s = steady.seconds_of(samples)
    band = steady.relative_band()
    if steps_s is None or band is None or samples < 1:
        return None
    opening_us, opening_half_us = steady.opening_us
    opening_s = (opening_us or 0.0) / 1e6
    opening_half_s = min(opening_half_us / 1e6, opening_s)
    half = math.hypot(steps_s * min(band, 1.0), validation_half_s, opening_half_s)
    value = steps_s + opening_s + validation_s
    return SecondsPerEpoch(
        value=value, low=max(0.0, value - half), high=value + half, epochs=0, projected=True
    )
