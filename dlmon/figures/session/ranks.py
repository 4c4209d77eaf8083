"""The ranks of a run as a table, and the one that the others wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median, median_low
from typing import TYPE_CHECKING

from dlmon.figures import units
from dlmon.figures.columns import Column, measured_column, table_of
from dlmon.figures.sections import Table
from dlmon.figures.session.time_breakdown import STEP_NAMES, step_rows
from dlmon.figures.session.tokens import UNIT
from dlmon.figures.units import gpus_text
from dlmon.records.record import record
from dlmon.records.training import WAITS
from dlmon.session.limits.ranks import (
    LEAST_APART,
    RankStep,
    rank_holds_up,
    rank_steps,
    step_together,
    straggler_of,
)
from dlmon.statistics.totals import total

if TYPE_CHECKING:
    from dlmon.records import StepParts
    from dlmon.session.machine_history import MachineHistory
    from dlmon.session.session import Session
    from dlmon.session.snapshot import Snapshot

MOST_RANKS = 64
"""The most ranks in a report."""
_SLOWEST_SHARE = 0.95
"""The slowest rank is named below this share of the median throughput."""


@record(frozen=True)
class RankRow:
    """A row of the table of ranks.

    Attributes:
        name: its rank, else its task or its number.
        order: the key to sort by.
        host: its host.
        gpus: the indices of its GPUs.
        per_second: its throughput in the unit of `rank_unit`.
        step_ms: the time of a step.
        wait_ms: the mean time that its newest steps waited for data.
        memory_mib: the memory in use on its GPUs.
        busy_pct: the mean utilisation of its GPUs, as last read.
        pid: its process id.
        share: its share of the throughput of all ranks.
        holds_up: the other ranks wait for it.
        split: its step, split in its own time and waiting; None if unknown.
        apart_ms: its own time less the median of all ranks.
    """

    name: str
    order: int
    host: str
    gpus: tuple[int, ...]
    per_second: float | None
    step_ms: float | None
    wait_ms: float | None
    memory_mib: float | None
    share: float | None
    holds_up: bool
    split: RankStep | None = None
    apart_ms: float | None = None
    busy_pct: float | None = None
    pid: int | None = None

    @property
    def own_ms(self) -> float | None:
        return None if self.split is None else self.split.own_ms

    @property
    def waits_ms(self) -> float | None:
        """The time in a step that it waits for other ranks."""
        return None if self.split is None else self.split.waits_ms


PART_TITLES = STEP_NAMES | {"wait_us": "data", "copy_us": "copy", WAITS: "waits"}
"""The names of the parts of a rank's step, in their order."""


@record(frozen=True)
class StepSplit:
    """A step and its parts.

    Attributes:
        title: what it is called; with ranks it says whose step it is.
        step_ms: its mean time.
        rows: the field of each part or `WAITS`, its milliseconds, and its share, 0 to 1.
        waits_for: the rank that it waits for; empty if unknown.
    """

    title: str
    step_ms: float
    rows: tuple[tuple[str, float, float], ...]
    waits_for: str = ""

    def name_of(self, part: str) -> str:
        """Return the name of a part: data, or "for rank 5"."""
        return f"for {self.waits_for}" if part == WAITS and self.waits_for else PART_TITLES[part]


def step_split(snapshot: Snapshot, parts: StepParts | None) -> StepSplit | None:
    """Return what a step is made of; of ranks, the first one's with its waiting for others."""
    ranks = snapshot.trainers
    if parts is None:
        return None
    title = f"A step of {ranks[0].name}" if len(ranks) > 1 else "A step"
    if len(ranks) < 2 or not (steps := rank_steps(ranks)):
        return StepSplit(title, parts.step_us / parts.steps / 1000, step_rows(parts))
    all_ms = steps[0].all_ms
    step_ms = sum(all_ms.values())
    times = ((name, all_ms.get(name, 0.0)) for name in PART_TITLES)
    rows = tuple((name, ms, ms / step_ms) for name, ms in times if ms)
    straggler = straggler_of(ranks)
    waits_for = "" if straggler is None else straggler.rank.name
    return StepSplit(title, step_ms, rows, waits_for * (waits_for != ranks[0].name))


def rank_parts(row: RankRow, rows: Sequence[RankRow]) -> list[tuple[str, float, float]]:
    """Return the parts of a rank's step: the name, its time, and that of the median rank."""
    splits = sorted((other.split for other in rows if other.split), key=lambda split: split.own_ms)
    if row.split is None:
        return []
    median_ms = splits[(len(splits) - 1) // 2].all_ms
    return [
        (name, row.split.all_ms.get(name, 0.0), median_ms.get(name, 0.0))
        for name in PART_TITLES
        if any(split.all_ms.get(name) for split in splits)
    ]


def rank_unit(snapshot: Snapshot) -> str:
    """Return the unit that ranks are compared in: tokens if all ranks count them."""
    in_tokens = all(rank.tokens_per_second is not None for rank in snapshot.trainers)
    return UNIT if in_tokens else snapshot.throughput_unit


def rank_rows(session: Session, snapshot: Snapshot) -> tuple[RankRow, ...]:
    """Return the ranks of a session in their order; nothing for a single one."""
    ranks = snapshot.trainers
    if len(ranks) < 2:
        return ()
    in_tokens = rank_unit(snapshot) == UNIT
    rates = [rank.tokens_per_second if in_tokens else rank.samples_per_second for rank in ranks]
    rate_of_all = total(rates)
    steps = rank_steps(ranks)
    median_ms = median_low([step.own_ms for step in steps]) if steps else 0.0
    straggler, own_host = straggler_of(ranks), session.header.node or session.header.host
    machines: dict[str | None, MachineHistory] = {None: session.machine}
    machines |= {host: node.history for host, node in session.nodes.items()}
    rows = [
        RankRow(
            name=rank.name,
            order=rank.trainer.number if rank.trainer.rank is None else rank.trainer.rank,
            host=rank.trainer.host or own_host,
            gpus=rank.gpus,
            per_second=rate,
            step_ms=rank.step_ms,
            wait_ms=None if rank.wait is None else rank.wait.mean_ms,
            memory_mib=_of_gpus(machines.get(rank.trainer.host), rank.gpus, "memory_used_mib"),
            share=rate / rate_of_all if rate is not None and rate_of_all else None,
            holds_up=straggler is not None and straggler.rank is rank,
            split=step,
            apart_ms=None if step is None else step.own_ms - median_ms,
            busy_pct=_busy_pct(machines.get(rank.trainer.host), rank.gpus),
            pid=rank.trainer.pid,
        )
        for rank, rate, step in zip(ranks, rates, steps or [None] * len(ranks), strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (row.order, row.host)))


def ranks_in_words(snapshot: Snapshot) -> tuple[str, tuple[str, ...]]:
    """Say how the ranks of a session work together: a title, and sentences."""
    ranks, was = snapshot.trainers, snapshot.result is not None
    held = rank_holds_up(ranks, was)
    if held is not None:
        return held.title, (held.reason, f"→ {held.advice}")
    about, own_ms = trainers_text(snapshot), [step.own_ms for step in rank_steps(ranks)]
    steps_ms = [rank.step_ms for rank in ranks if rank.step_ms is not None]
    if not steps_ms:
        return "NOT MEASURED YET", ("no step of these processes is measured", about)
    if not step_together(ranks):
        return "NOT TOGETHER", (f"each steps alone: a step takes {_range(steps_ms)}", about)
    if not own_ms:
        is_measured = all(rank.trainer.framework == "torch" for rank in ranks)
        why = "too few steps are measured" if is_measured else "only PyTorch's steps have parts"
        return "OWN TIME NOT KNOWN", (snapshot.why_no_parts or why, about)
    works = f"a step without waiting for others takes {_range(own_ms)}"
    if max(own_ms) - min(own_ms) <= LEAST_APART * min(steps_ms):
        return "ALL ALIKE", (works, about)
    return "NO RANK STANDS OUT", (works, about)


def _range(times_ms: Sequence[float]) -> str:
    least, most = units.step_time(min(times_ms)), units.step_time(max(times_ms))
    return most if least == most else f"{least} to {most}"


def why_no_ranks(session: Session, running: bool) -> str:
    """Say why the ranks of a session are not listed, and when they may be."""
    ranks = session.trainers.known.values()
    world_size = max((rank.world_size or 1 for rank in ranks), default=1)
    if not session.header.is_script:
        return "a workload trains in one process: it has no ranks"
    if running and not ranks:
        return "ranks are known once their processes have trained a first batch: none has yet"
    if running and world_size > 1:
        return f"1 of {world_size} processes trains so far: ranks are shown once another does"
    if not ranks:
        return "no process was seen to train: there are no ranks to show"
    return "one process trains: only a run of several has ranks to show"


def _of_gpus(
    machine: MachineHistory | None, numbers: tuple[int, ...], reading: str
) -> float | None:
    """Return the sum of a reading over GPUs of a host; None if it is unknown of one."""
    gpus = machine.latest.gpus if machine is not None and machine.latest is not None else None
    values = {gpu.index: getattr(gpu, reading) for gpu in gpus or ()}
    return total(values.get(number) for number in numbers)


def _busy_pct(machine: MachineHistory | None, numbers: tuple[int, ...]) -> float | None:
    sum_pct = _of_gpus(machine, numbers, "utilization_pct")
    return None if sum_pct is None else sum_pct / len(numbers)


def _signed(value_ms: float) -> str:
    """Write a deviation from the median."""
    sign = "+" if value_ms > 0 else "−"
    return f"{sign}{units.step_time(abs(value_ms))}" if value_ms else "±0"


COLUMNS: tuple[Column[RankRow], ...] = (
    Column("rank", lambda row: row.name.removeprefix("rank "), lambda row: row.order, cells=18),
    Column("host", lambda row: row.host, lambda row: row.host, cells=14),
    Column(
        "GPU", lambda row: gpus_text(row.gpus), lambda row: row.gpus or None, cells=7, dropped=4
    ),
    measured_column("own time", units.step_time, "own_ms", cells=8),
    measured_column("vs median", _signed, "apart_ms", cells=9, dropped=7),
    measured_column("waits", units.step_time, "waits_ms", cells=8, dropped=8, largest_first=False),
    measured_column("step", units.step_time, "step_ms", cells=8, dropped=2),
    measured_column("data wait", units.step_time, "wait_ms", cells=9, dropped=3),
    measured_column("rate", units.rate, "per_second", cells=11, dropped=6, largest_first=False),
    measured_column("GPU busy", units.percent, "busy_pct", cells=8, dropped=6, largest_first=False),
    measured_column("GPU memory", units.gibibytes, "memory_mib", cells=10, dropped=5),
    measured_column("share", units.share, "share", cells=7, dropped=1, largest_first=False),
    measured_column("process", str, "pid", cells=8, dropped=1, largest_first=False),
)
# Ranks that step together have the same throughput.
_USUALLY_EQUAL = ("host", "step", "rate", "share")
BY_NAME = {column.name: column for column in COLUMNS}


def columns_of(rows: Sequence[RankRow], unit: str) -> tuple[Column[RankRow], ...]:
    """Return the columns that tell something of these ranks, the throughput under its unit.

    The wait for data is a part of the own time where that is known.
    """
    is_split = any(row.split is not None for row in rows)
    return tuple(
        replace(column, title=unit) if column.name == "rate" else column
        for column in COLUMNS
        if any(column.order(row) is not None for row in rows)
        and not (is_split and column.name == "data wait")
        and (column.name not in _USUALLY_EQUAL or len({column.text(row) for row in rows}) > 1)
    )


def rank_table(session: Session, snapshot: Snapshot) -> Table | None:
    """Return the table of ranks of a report; None for a single rank."""
    rows = rank_rows(session, snapshot)
    if not rows:
        return None
    # Always show the rank that the others wait for.
    listed = [*rows[:MOST_RANKS], *(row for row in rows[MOST_RANKS:] if row.holds_up)]
    return table_of(
        columns_of(rows, rank_unit(snapshot)),
        listed,
        heading="Ranks",
        left_out=len(rows) - len(listed),
        levels=tuple("bad" if row.holds_up else "" for row in listed),
    )


def trainers_text(snapshot: Snapshot) -> str:
    """Write the number of ranks and the range of their rates; empty for one rank."""
    rates = [process.samples_per_second for process in snapshot.trainers]
    known_rates = [rate for rate in rates if rate is not None]
    if len(rates) < 2:
        return ""
    machines = {process.trainer.host for process in snapshot.trainers}
    on = f" on {len(machines)} machines" if len(machines) > 1 else ""
    count = f"{len(rates)} processes{on}"
    if len(known_rates) < 2:
        return count
    ends = dict.fromkeys(map(units.rate, (min(known_rates), max(known_rates))))
    return f"{count}, {' to '.join(ends)} each{_slowest_text(snapshot)}"


def _slowest_text(snapshot: Snapshot) -> str:
    """Name the slowest rank and its host, if one is much slower than the median."""
    by_rate = [(p.samples_per_second, p) for p in snapshot.trainers if p.samples_per_second]
    rates = sorted(rate for rate, _ in by_rate)
    if len(rates) < 3 or rates[0] > _SLOWEST_SHARE * median(rates):
        return ""
    _, slowest = min(by_rate, key=lambda pair: pair[0])
    return f", the slowest {slowest.name_and_host}"
