"""What an entry holds, read as what a forged file may hold: each value is checked. Pure."""

from __future__ import annotations

import math
import sys
from dataclasses import astuple
from typing import Any

from dlmon.records import (
    AccountPart,
    Output,
    decode,
    encode,
)
from dlmon.records.sanitize import clean
from dlmon.session.account import AccountState
from dlmon.session.energy import EnergyPoint
from dlmon.session.epoch_use import OpenEpoch, Reading
from dlmon.session.gaps import Gap, GapKind, Meanwhile
from dlmon.session.marks import Mark, MarkKind
from dlmon.session.training_readings import OnGpu, ReadingsState
from dlmon.statistics.series import (
    CELL_NS,
)

METRIC = "metric"
"""What the names of the series of metrics begin with."""
MOST_SERIES = 4096
MOST = 1e18
# A loss that grows without bound may be any number; a sum of it over time has to be one too.
MOST_OF_METRIC = 1e280


class NoKeyframe(ValueError):
    """What an index says can't be; the message says what."""


# What a forged line runs into.
MALFORMED = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError),
    *(RecursionError, AssertionError),
)


def read_mark(t: Any, kind: Any, number: Any, text: Any) -> Mark:
    """Return a mark; its text is cleaned as every other of a file."""
    known = None if number is None else real(number)
    return Mark(whole(t), MarkKind(kind), known, clean(str(text)))


def gap_values(gap: Gap) -> list[Any]:
    """Return what `read_gap` reads."""
    values = [gap.start, gap.end, gap.kind.value, gap.epoch, gap.step, gap.steps, gap.before]
    means = None if gap.meanwhile is None else list(astuple(gap.meanwhile))
    return [*values, means, gap.number, gap.loop]


def read_gap(
    start: Any,
    end: Any,
    kind: Any,
    epoch: Any,
    step: Any,
    steps: Any,
    before: Any,
    means: Any,
    number: Any,
    loop: Any,
) -> Gap:
    """Return a gap."""
    meanwhile = None
    if means is not None:
        meanwhile = Meanwhile(*(None if mean is None else real(mean) for mean in means))
    where = (None if epoch is None else whole(epoch), None if step is None else whole(step))
    before = clean(str(before))
    of_all = None if number is None else whole(number)
    kinds = (whole(start), whole(end), GapKind(kind))
    return Gap(*kinds, *where, whole(steps), before, meanwhile, of_all, loop=whole(loop))


def read_account(
    until: Any,
    part: Any,
    closing: Any,
    epoch: Any,
    spent: Any,
    waiting: Any = (),
    paused: Any = (),
) -> AccountState:
    """Return the account of the time as far as it had come."""
    spent_ns = tuple(map(whole, spent))
    if len(spent_ns) != len(AccountPart) or min(spent_ns) < 0:
        raise NoKeyframe("an account of other parts")
    known = None if epoch is None else whole(epoch)
    if len(waiting) + len(paused) > MOST_SERIES:
        raise NoKeyframe("too many pauses")
    return AccountState(
        *(whole(until), AccountPart(part), closing is True, known, spent_ns),
        [(whole(begin), whole(end), AccountPart(part)) for begin, end, part in waiting],
        [(AccountPart(source), AccountPart(part), whole(ns)) for source, part, ns in paused],
    )


def read_readings(sums: Any, counts: Any, most: Any, slowed: Any, on_gpu: Any) -> ReadingsState:
    """Return the readings of steady training."""
    if len(sums) + len(counts) + len(most) + len(slowed) > MOST_SERIES:
        raise NoKeyframe("too many readings")
    others = None
    if on_gpu is not None:
        memory_mib, pid, name = on_gpu
        others = OnGpu(real(memory_mib), whole(pid), clean(str(name)))
    return ReadingsState(
        {str(name): real(value) for name, value in sums.items()},
        {str(name): whole(count) for name, count in counts.items()},
        {str(name): real(value) for name, value in most.items()},
        {clean(str(cause)): whole(count) for cause, count in slowed.items()},
        others,
    )


def read_use_values(values: Any) -> dict[str, float]:
    """Return the sums or means of an epoch by their names."""
    if len(values) > MOST_SERIES:
        raise NoKeyframe("too many readings")
    return {sys.intern(str(name)): real(value) for name, value in values.items()}


def read_open_epoch(
    sums: Any, counts: Any, readings: Any, batches: Any, limit_us: Any, pending: Any
) -> OpenEpoch:
    """Return what was known of the epoch that was not over."""
    counted = {name: whole(count) for name, count in counts.items()}
    limit = None if limit_us is None else real(limit_us)
    newest = [Reading(whole(start), whole(end), read_use_values(v)) for start, end, v in pending]
    return OpenEpoch(
        read_use_values(sums),
        counted,
        whole(readings),
        read_use_values(batches),
        limit,
        newest,
    )


def read_output(t: Any, stream: Any, text: Any) -> Output:
    """Return a line of output, cleaned as from a log."""
    line = decode(encode(Output(whole(t), str(stream), str(text))))
    assert isinstance(line, Output)
    return line


def read_rest(series: str, start: Any, end: Any, value: Any) -> tuple[int, int, float]:
    """Return (start, end, value) of what lies behind the last whole cell of a series."""
    # What lies behind a series' last whole cell is no longer than a cell.
    if not 0 <= whole(end) - whole(start) <= CELL_NS:
        raise NoKeyframe("a rest of another length")
    return start, end, real(value, most_of(series))


def read_point(t: Any, joules: Any, segment: Any) -> EnergyPoint:
    """Return a point of an energy counter."""
    return EnergyPoint(whole(t), real(joules), whole(segment))


def whole(value: Any) -> int:
    """Return a whole number; NoKeyframe where it is none."""
    if type(value) is not int or not -(2**63) < value < 2**63:
        raise NoKeyframe("a whole number was expected")
    return value


def most_of(series: str) -> float:
    """Return what every value of a series is below, whatever its sign."""
    return MOST_OF_METRIC if series.startswith(f"{METRIC}.") else MOST


def check_numbers(values: list[Any], most: float) -> None:
    """Raise NoKeyframe unless all that are known are numbers below a limit; one may be None."""
    known = [value for value in values if value is not None]
    if not {*map(type, known)} <= {int, float}:
        raise NoKeyframe("numbers were expected")
    # NaN is not less than anything.
    if not all(-most < value < most for value in known):
        raise NoKeyframe("a number that is not finite")


def real(value: Any, most: float = MOST) -> float:
    """Return a finite number; NoKeyframe where it is none."""
    if type(value) not in (int, float) or not (math.isfinite(value) and -most < value < most):
        raise NoKeyframe("a number was expected")
    number: float = value
    return number
