"""Windows of one run: in some of them what is measured is at work, in others not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# A round of windows in which other processes take more is measured once more, if there is time.
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


Round = dict[str, Window]
"""A window of each side."""


def window_between(before: Moment, after: Moment) -> Window:
    """Return the window from one moment to another."""
    percent = 100 / ((after.t - before.t) / 1e9)
    others_s = (after.machine_s - before.machine_s) - (after.ours_s - before.ours_s)
    own_pct = (after.own_s - before.own_s) * percent
    return Window(before.t, after.t, own_pct, max(0.0, others_s * percent))


def measure_rounds(
    measure: Callable[[str], Window], sides: Sequence[str], count: int, seed: int
) -> list[Round]:
    """Return rounds of windows, each in random order, until so many of them were quiet.

    Args:
        measure: measures a window of one side.
        sides: what there is to compare.
        count: how many quiet rounds are wanted; a few more may be tried.
        seed: of the order.
    """
    order = random.Random(seed)
    rounds: list[Round] = []
    for _ in range(math.ceil(count * MAX_TRIES)):
        rounds.append({side: measure(side) for side in order.sample(sides, len(sides))})
        if sum(map(_is_quiet, rounds)) == count:
            break
    return rounds


def quiet_rounds(rounds: Sequence[Round], least: int, name: str) -> list[Round]:
    """Return the rounds that nothing disturbed, or all where that are fewer; print which."""
    quiet = [one for one in rounds if _is_quiet(one)]
    disturbed = len(rounds) - len(quiet)
    if disturbed:
        what = "left out" if len(quiet) >= least else "disturbed, and not left out"
        words = f"other processes took over {QUIET_PCT:g} % of a core"
        print(f"{f'{name}: {what}':<44} {disturbed} of {len(rounds)} rounds: {words}")
    return quiet if len(quiet) >= least else list(rounds)


def _is_quiet(one: Round) -> bool:
    return all(window.others_pct <= QUIET_PCT for window in one.values())
