"""Pairs of windows of one run: in one of a pair what is measured is at work, in the other not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# A pair of windows in which other processes take more is measured once more, if there is time.
QUIET_PCT = 15.0
MAX_TRIES = 1.4


class Moment(NamedTuple):
    """The time in monotonic ns, and the CPU seconds spent until then.

    Attributes:
        own_s: by what is measured.
        ours_s: by that, by the run, and by the bench.
        machine_s: by everything.
    """

    t: int
    own_s: float
    ours_s: float
    machine_s: float


@dataclass(frozen=True)
class Window:
    """A part of a run in monotonic ns; CPU of what is measured, and of others, in % of a core."""

    begin: int
    end: int
    own_pct: float
    others_pct: float


Pair = tuple[Window, Window]
"""With what is measured at work, and without."""


def window_between(before: Moment, after: Moment) -> Window:
    """Return the window from one moment to another."""
    percent = 100 / ((after.t - before.t) / 1e9)
    others_s = (after.machine_s - before.machine_s) - (after.ours_s - before.ours_s)
    own_pct = (after.own_s - before.own_s) * percent
    return Window(before.t, after.t, own_pct, max(0.0, others_s * percent))


def measure_pairs(measure: Callable[[bool], Window], count: int, seed: int) -> list[Pair]:
    """Return pairs of windows, measured in random order, until so many of them were quiet.

    Args:
        measure: measures a window, with what is measured at work or without.
        count: how many quiet pairs are wanted; a few more may be tried.
        seed: of the order.
    """
    order = random.Random(seed)
    pairs: list[Pair] = []
    for _ in range(math.ceil(count * MAX_TRIES)):
        windows = {on: measure(on) for on in order.sample((True, False), 2)}
        pairs.append((windows[True], windows[False]))
        if sum(map(_is_quiet, pairs)) == count:
            break
    return pairs


def quiet_pairs(pairs: Sequence[Pair], least: int, name: str) -> list[Pair]:
    """Return the pairs that nothing disturbed, or all where that are fewer; print which."""
    quiet = [pair for pair in pairs if _is_quiet(pair)]
    disturbed = len(pairs) - len(quiet)
    if disturbed:
        what = "left out" if len(quiet) >= least else "disturbed, and not left out"
        words = f"other processes took over {QUIET_PCT:g} % of a core"
        print(f"{f'{name}: {what}':<44} {disturbed} of {len(pairs)} pairs: {words}")
    return quiet if len(quiet) >= least else list(pairs)


def _is_quiet(pair: Pair) -> bool:
    return all(window.others_pct <= QUIET_PCT for window in pair)
