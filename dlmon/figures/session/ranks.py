"""The processes that train together, a row each, and the one that the others wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from dlmon.figures import units
from dlmon.figures.machine.processes import gpus_text
from dlmon.figures.report.columns import Column, table_of
from dlmon.figures.report.sections import Table
from dlmon.figures.session.tokens import UNIT
from dlmon.quantities import rate_unit
from dlmon.records.record import record
from dlmon.session.limits.ranks import straggler_of

if TYPE_CHECKING:
    from dlmon.session.machine_history import MachineHistory
    from dlmon.session.session import Session
    from dlmon.session.snapshot import Snapshot

MOST_RANKS = 64
"""A report lists at most this many."""


@record(frozen=True)
class RankRow:
    """One process that trains.

    Attributes:
        name: its rank, else its task or its number.
        order: what ranks are in order by.
        host: the machine that it is on.
        per_second: tokens, samples, or steps, as `rank_unit` says.
        wait_ms: how long the newest of its steps waited for data.
        memory_mib: what is in use of the memory of its GPUs.
        share: its part of the throughput of all.
        holds_up: whether the others wait for it.
        work_ms: how long its steps took outside of backward and the optimiser.
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
    work_ms: float | None = None


def rank_unit(snapshot: Snapshot) -> str:
    """Return what ranks are compared by: tokens where samples of all hold any."""
    in_tokens = all(one.tokens_per_second is not None for one in snapshot.trainers)
    return UNIT if in_tokens else rate_unit(snapshot)


def rank_rows(session: Session, snapshot: Snapshot) -> tuple[RankRow, ...]:
    """Return the processes of a session that train, by rank; none where only one does."""
    ranks = snapshot.trainers
    if len(ranks) < 2:
        return ()
    in_tokens = rank_unit(snapshot) == UNIT
    rates = [one.tokens_per_second if in_tokens else one.samples_per_second for one in ranks]
    total = sum(rate for rate in rates if rate is not None) if None not in rates else None
    straggler, own_host = straggler_of(ranks), session.header.node or session.header.host
    machines: dict[str | None, MachineHistory] = {None: session.machine}
    machines |= {host: node.history for host, node in session.nodes.items()}
    rows = [
        RankRow(
            name=one.name,
            order=one.trainer.number if one.trainer.rank is None else one.trainer.rank,
            host=one.trainer.host or own_host,
            gpus=one.gpus,
            per_second=rate,
            step_ms=one.step_ms,
            wait_ms=None if one.wait is None else one.wait.mean_ms,
            work_ms=None if one.work is None else one.work.mean_ms,
            memory_mib=_memory_mib(machines.get(one.trainer.host), one.gpus),
            share=rate / total if rate is not None and total else None,
            holds_up=straggler is not None and straggler.rank is one,
        )
        for one, rate in zip(ranks, rates, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (row.order, row.host)))


def why_no_ranks(session: Session, running: bool) -> str:
    """Say why the processes of a session that train are not listed, and when they may be."""
    ranks = session.trainers.known.values()
    world_size = max((one.world_size or 1 for one in ranks), default=1)
    if not session.header.is_script:
        return "a workload trains in one process: it has no ranks"
    if running and not ranks:
        return "ranks are known once their processes have trained a first batch: none has yet"
    if running and world_size > 1:
        return f"1 of {world_size} processes trains so far: ranks are shown once another does"
    if not ranks:
        return "no process was seen to train: there are no ranks to show"
    return "one process trains: only a run of several has ranks to show"


def _memory_mib(machine: MachineHistory | None, numbers: tuple[int, ...]) -> float | None:
    """Return what is in use of the memory of some GPUs of a machine."""
    gpus = machine.latest.gpus if machine is not None and machine.latest is not None else None
    used = {gpu.index: gpu.memory_used_mib for gpu in gpus or ()}
    known = [used.get(number) for number in numbers]
    return sum(each or 0 for each in known) if known and None not in known else None


def _measured(
    name: str,
    field: str,
    write: Callable[[float], str],
    cells: int,
    dropped: int = 0,
    largest_first: bool = True,
) -> Column[RankRow]:
    """Return the column of a number that may be unknown."""
    order: Callable[[RankRow], float | None] = attrgetter(field)

    def text(row: RankRow) -> str:
        value = order(row)
        return "–" if value is None else write(value)

    return Column(name, text, order, largest_first, True, dropped, cells=cells)


COLUMNS: tuple[Column[RankRow], ...] = (
    Column("rank", lambda row: row.name.removeprefix("rank "), lambda row: row.order, cells=18),
    Column("machine", lambda row: row.host, lambda row: row.host, cells=14),
    Column(
        "GPU",
        lambda row: gpus_text(row.gpus) or "–",
        lambda row: row.gpus or None,
        cells=7,
        dropped=2,
    ),
    _measured("rate", "per_second", units.rate, 11, dropped=3, largest_first=False),
    _measured("step", "step_ms", units.step_time, 8),
    _measured("data wait", "wait_ms", units.step_time, 9),
    _measured("own work", "work_ms", units.step_time, 9),
    _measured("GPU memory", "memory_mib", units.gibibytes, 10, dropped=4),
    _measured("share", "share", units.share, 7, dropped=1, largest_first=False),
)


def columns_in(unit: str) -> tuple[Column[RankRow], ...]:
    """Return the columns of ranks, the rates under their unit."""
    return tuple(replace(one, title=unit) if one.name == "rate" else one for one in COLUMNS)


def rank_table(session: Session, snapshot: Snapshot) -> Table | None:
    """Return the table of a report; None where only one process trains."""
    rows = rank_rows(session, snapshot)
    if not rows:
        return None
    # The one that the others wait for is always among them.
    shown = [*rows[:MOST_RANKS], *(row for row in rows[MOST_RANKS:] if row.holds_up)]
    return table_of(
        columns_in(rank_unit(snapshot)),
        shown,
        heading="Ranks",
        left_out=len(rows) - len(shown),
        levels=tuple("bad" if row.holds_up else "" for row in shown),
    )
