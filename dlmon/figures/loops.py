"""The loops of a script that trains in several, in words. Pure."""

from __future__ import annotations

from dlmon.figures import units
from dlmon.records import LoopResult
from dlmon.session.snapshot import Snapshot

HEADINGS = ("", "loop", "epochs", "steps", "time in steps", "per epoch", "throughput")
NUMERIC = (False, False, True, True, True, True, True)


def what_trains(loop: LoopResult) -> str:
    """Say what a loop trains, on how much: net (1,000 parameters), batch 32, 3,200 samples."""
    size = None if loop.parameters is None else f"{units.counted(loop.parameters, 'parameter')}"
    named = [f"{loop.network} ({size})" if loop.network and size else loop.network or size]
    named += [
        None if loop.batch_size is None else f"batch {loop.batch_size:,}",
        None if loop.samples_per_epoch is None else units.counted(loop.samples_per_epoch, "sample"),
    ]
    known = ", ".join(one for one in named if one) or "without a loader"
    return f"{known}, {loop.count:,} times" if loop.count > 1 else known


def measured_loop(snapshot: Snapshot) -> str:
    """Say which of several loops the figures are of; empty where there is one."""
    if len(snapshot.loops) < 2:
        return ""
    loop = next(one for one in snapshot.loops if one.headline)
    return f"the one of {len(snapshot.loops):,} whose steps took longest: {what_trains(loop)}"


def measured_in_short(snapshot: Snapshot) -> str:
    """Say that figures are those of one of several loops, in few words."""
    loops = len(snapshot.loops)
    return f"longest of {loops:,} loops" if loops > 1 else ""


def loop_rows(snapshot: Snapshot, most: int) -> tuple[list[tuple[str, ...]], int]:
    """Return a row for each of several loops, under `HEADINGS`, and how many are left out."""
    if len(snapshot.loops) < 2:
        return [], 0
    shown = snapshot.longest_loops(most)
    return [_row(loop) for loop in shown], len(snapshot.loops) - len(shown)


def _row(loop: LoopResult) -> tuple[str, ...]:
    epoch, rate = loop.seconds_per_epoch, loop.samples_per_second
    unit = units.rate_unit(loop.counts_steps)
    return (
        "▶" if loop.headline else "",
        what_trains(loop),
        f"{loop.epochs:,}" if loop.epochs else "–",
        f"{loop.batches:,}",
        units.seconds(loop.train_s),
        "–" if epoch is None else units.band(epoch),
        "–" if rate is None else units.throughput(rate, unit),
    )
