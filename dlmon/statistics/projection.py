"""What a whole epoch takes: measured, or projected from its parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from dlmon.records import SecondsPerEpoch, Validation
from dlmon.statistics.intervals import mean_half_width
from dlmon.statistics.steady_state import SteadyState

SLOW = 1.5
"""An epoch that takes so often the median is none of the usual ones."""
MIN_PASSES = 3
"""So many validation passes besides the first show how much passes differ."""


def epoch_interval(
    compiled_s: Sequence[float],
    others_s: Sequence[float],
    steady: SteadyState,
    compile_s: float = 0.0,
) -> SecondsPerEpoch | None:
    """Return the mean of the wall times of whole epochs, with the 95 % interval of that mean.

    Epochs that compile are left out as soon as there is another. How far the mean of one or two
    can be off is known from how the windows of the run differ. That of three or more is the
    t-interval over epochs. Two that lie apart have that of three, as if a third lay between them:
    otherwise a third one there would widen it.

    Args:
        compiled_s: the wall times of those that compile, such as the first.
        others_s: the wall times of the others.
        steady: the run's batches.
        compile_s: how much of `compiled_s` went into compilation.
    """
    counted = others_s or compiled_s
    if not counted:
        return None
    value = math.fsum(counted) / len(counted)
    compiling_s = 0.0 if others_s else compile_s
    half = steady.band_of_span_s(max(0.0, math.fsum(counted) - compiling_s))
    if len(counted) > 2 or (len(counted) == 2 and half is None):
        half = mean_half_width(counted)
    elif len(counted) == 2 and half is not None:
        half = max(half / 2, mean_half_width([*counted, value]))
    return SecondsPerEpoch(
        value=value,
        low=None if half is None else max(0.0, value - half),
        high=None if half is None else value + half,
        epochs=len(counted),
        projected=False,
        first_left_out=bool(compiled_s and others_s),
        left_out=len(compiled_s) if others_s and len(compiled_s) > 1 else None,
        **_usual(counted),
    )


def _usual(took_s: Sequence[float]) -> dict[str, Any]:
    """Return what of three epochs or more is usual, and what isn't; nothing of fewer."""
    if len(took_s) < 3:
        return {}
    usual_s = median(took_s)
    slow = sum(one_s > SLOW * usual_s for one_s in took_s)
    return {"median": usual_s, "slow": slow, "longest": max(took_s)}


class _Times(NamedTuple):
    """What one validation pass took: to open and to close it, and each of its batches.

    `timed` says how many batches that is known of, beside the first.
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
    """Validation passes in their order, and what a whole one takes.

    Of the first pass only its later batches count, for the first compiles; once there is another
    pass, nothing of the first counts.
    """

    def __init__(self, passes: Iterable[Validation | None]) -> None:
        self._passes = [each for each in passes if each is not None and each.steps > 0]
        self._times = [_times_of(each) for each in self._passes]

    @property
    def compile_s(self) -> float:
        """What the first batch of the first pass took beyond another."""
        if not self._passes:
            return 0.0
        first = self._passes[0]
        times = self._times[0]
        return times.opening_s if times.timed else max(0.0, (first.first_end - first.begin) / 1e9)

    def _took_s(self, steps: int | None) -> list[float]:
        """Return what each pass that counts takes with so many batches; None for its own."""
        if len(self._passes) == 1:
            _, closing_s, step_s, timed = self._times[0]
            # One batch alone, which compiled, says nothing of another.
            return [closing_s + step_s * steps if steps else step_s * timed] if timed else []
        pairs = zip(self._times[1:], self._passes[1:], strict=True)
        return [
            times.opening_s + times.closing_s + times.step_s * (steps or each.steps)
            for times, each in pairs
        ]

    def seconds(self, steps: int) -> float | None:
        """Return the mean time of a pass of `steps` batches; None before that is known."""
        took_s = self._took_s(steps) if steps > 0 else [0.0]
        return math.fsum(took_s) / len(took_s) if took_s else None

    def half_s(self, steps: int, steady: SteadyState) -> float:
        """Return the half-width of that mean's 95 % interval.

        It goes by how much passes differed where there are three or more besides the first,
        else validation counts as just as uneven as the run's steady training.
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
    """Project the wall time of the mean whole epoch: its opening, its batches, its validation.

    The band is the 95 % interval of that mean, from what is known of each part; a single epoch
    may lie further off. There is no projection before the throughput has a band. What it takes
    to open the epoch is in value and band from three openings on.

    Args:
        steady: the run's batches.
        samples: of a whole epoch.
        validation_s: the mean time of its validation.
        validation_half_s: the half-width of that mean's 95 % interval.
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
