"""The ranks of a run as a table, and the one that the others wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from dlmon.figures import units
from dlmon.figures.columns import Column, table_of
from dlmon.figures.machine.processes import gpus_text
from dlmon.figures.sections import Table
from dlmon.figures.session.tokens import UNIT
from dlmon.quantities import rate_unit
from dlmon.records.record import record
from dlmon.session.limits.ranks import straggler_of
from dlmon.statistics.totals import total

if TYPE_CHECKING:
    from dlmon.session.machine_history import MachineHistory
    from dlmon.session.session import Session
    from dlmon.session.snapshot import Snapshot

MOST_RANKS = 64
"""The most ranks in a report."""


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
        share: its share of the throughput of all ranks.
        holds_up: the other ranks wait for it.
        work_ms: the mean time of its steps outside of backward and the optimiser.
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
    """Return the unit that ranks are compared in: tokens if all ranks count them."""
    in_tokens = all(rank.tokens_per_second is not None for rank in snapshot.trainers)
    return UNIT if in_tokens else rate_unit(snapshot)


def rank_rows(session: Session, snapshot: Snapshot) -> tuple[RankRow, ...]:
    """Return the ranks of a session in their order; nothing for a single one."""
    ranks = snapshot.trainers
    if len(ranks) < 2:
        return ()
    in_tokens = rank_unit(snapshot) == UNIT
    rates = [rank.tokens_per_second if in_tokens else rank.samples_per_second for rank in ranks]
    rate_of_all = total(rates)
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
            work_ms=None if rank.work is None else rank.work.mean_ms,
            memory_mib=_memory_mib(machines.get(rank.trainer.host), rank.gpus),
            share=rate / rate_of_all if rate is not None and rate_of_all else None,
            holds_up=straggler is not None and straggler.rank is rank,
        )
        for rank, rate in zip(ranks, rates, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (row.order, row.host)))


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


def _memory_mib(machine: MachineHistory | None, numbers: tuple[int, ...]) -> float | None:
    """Return the memory in use on GPUs of a host; None if any is unknown."""
    gpus = machine.latest.gpus if machine is not None and machine.latest is not None else None
    used = {gpu.index: gpu.memory_used_mib for gpu in gpus or ()}
    return total(used.get(number) for number in numbers)


def _measured(
    name: str,
    field: str,
    write: Callable[[float], str],
    cells: int,
    dropped: int = 0,
    largest_first: bool = True,
) -> Column[RankRow]:
    """Return a column of numbers, with a dash for an unknown one."""
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
    """Return the columns of the table, the throughput under its unit."""
    return tuple(
        replace(column, title=unit) if column.name == "rate" else column for column in COLUMNS
    )


def rank_table(session: Session, snapshot: Snapshot) -> Table | None:
    """Return the table of ranks of a report; None for a single rank."""
    rows = rank_rows(session, snapshot)
    if not rows:
        return None
    # Always show the rank that the others wait for.
    listed = [*rows[:MOST_RANKS], *(row for row in rows[MOST_RANKS:] if row.holds_up)]
    return table_of(
        columns_in(rank_unit(snapshot)),
        listed,
        heading="Ranks",
        left_out=len(rows) - len(listed),
        levels=tuple("bad" if row.holds_up else "" for row in listed),
    )
