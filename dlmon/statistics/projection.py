"""What a whole epoch takes: measured, or projected from its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from dlmon.records import SecondsPerEpoch, Validation
from dlmon.statistics.intervals import mean_half_width, student_95
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
    t-interval over epochs. Two that are apart have that of three, as if one more lay between them:
    else one that does would make it wider.

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


class ValidationPasses:
    """Folds validation passes, and says what a whole one takes.

    Of the first pass only its later batches count, for the first compiles; once there is another
    pass, nothing of the first counts.
    """

    def __init__(self) -> None:
        self.compile_s = 0.0
        self._passes = 0
        self._first: tuple[float, float] | None = None
        """The fixed part of the first pass, and its time per batch."""
        self._timed_s = 0.0
        self._sums = [0.0] * 5

    def add(self, validation: Validation) -> None:
        if validation.steps < 1:
            return
        self._passes += 1
        first_s = (validation.first_end - validation.begin) / 1e9
        between_s = (validation.last_end - validation.first_end) / 1e9
        between_s -= (validation.between_us or 0) / 1e6
        closing_s = max(0.0, (validation.end - validation.last_end) / 1e9)
        first_steps = max(1, validation.first_steps or 1)
        timed = max(0, validation.steps - first_steps)
        step_s = max(0.0, between_s / timed if timed else first_s / first_steps)
        opening_s = max(0.0, first_s - step_s * first_steps)
        if self._passes == 1:
            self.compile_s = opening_s if timed else max(0.0, first_s)
            # One batch alone, which compiled, says nothing of another.
            self._first = (closing_s, step_s) if timed else None
            self._timed_s = step_s * timed
            return
        if self._passes == 2:
            self._timed_s = 0.0
        fixed_s = opening_s + closing_s
        self._timed_s += fixed_s + step_s * validation.steps
        terms = (fixed_s, step_s, fixed_s**2, fixed_s * step_s, step_s**2)
        self._sums = [total + term for total, term in zip(self._sums, terms, strict=True)]

    def seconds(self, steps: int) -> float | None:
        """Return the mean time of a pass of `steps` batches; None before that is known."""
        if steps < 1:
            return 0.0
        if self._passes > 1:
            fixed_s, step_s = (total / (self._passes - 1) for total in self._sums[:2])
        elif self._first is not None:
            fixed_s, step_s = self._first
        else:
            return None
        return fixed_s + step_s * steps

    def half_s(self, steps: int, steady: SteadyState) -> float:
        """Return the half-width of that mean's 95 % interval.

        It goes by how much passes differed where there are three or more besides the first,
        else validation counts as just as uneven as the run's steady training.
        """
        mean_s, count = self.seconds(steps), self._passes - 1
        if not mean_s:
            return 0.0
        if count >= MIN_PASSES:
            squares = self._sums[2] + 2 * steps * self._sums[3] + steps**2 * self._sums[4]
            variance = max(0.0, squares - count * mean_s**2) / (count - 1)
            return student_95(count - 1) * math.sqrt(variance / count)
        band_s = steady.band_of_span_s(self._timed_s)
        if band_s is None or not self._timed_s:
            return mean_s
        return band_s / self._timed_s * mean_s


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
