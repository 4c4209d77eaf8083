"""Tables of a session: its loops, its epochs, what its metrics came to, and its profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlmon.figures import units
from dlmon.figures.epochs import steps_asked_for
from dlmon.figures.learning import value_text
from dlmon.figures.sections import Note, Section, Table
from dlmon.records import TITLES, Epoch, LoopResult, Model, Profile
from dlmon.session.metric_figures import MetricFigure
from dlmon.session.snapshot import Snapshot

MOST_EPOCHS, MOST_LOOPS = 1000, 100
_METRICS = 6


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


def loop_table(snapshot: Snapshot, most: int = MOST_LOOPS) -> Table | None:
    """Return one row for each of several loops."""
    if len(snapshot.loops) < 2:
        return None
    shown = snapshot.longest_loops(most)
    headings = ("", "loop", "epochs", "steps", "time in steps", "per epoch", "throughput")
    numeric = (False, False, True, True, True, True, True)
    left = len(snapshot.loops) - len(shown)
    return Table(headings, tuple(map(_loop_row, shown)), numeric, left, "Loops")


def _loop_row(loop: LoopResult) -> tuple[str, ...]:
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


def metric_table(figures: Sequence[MetricFigure], each: str) -> Table | None:
    """Return one row per metric, of what it came to; `each` is what an epoch is called."""
    if not figures:
        return None
    rows = tuple(
        (
            figure.name,
            value_text(figure.final, figure.why),
            "–" if figure.best is None else units.metric(figure.best),
            "–" if figure.best_epoch is None else str(figure.best_epoch + 1),
        )
        for figure in figures
    )
    headings = ("metric", "last", "best", f"best in {each}")
    return Table(headings, rows, (False, True, True, True), heading="Metrics")


def epoch_table(epochs: Sequence[Epoch], model: Model | None) -> Table | None:
    """Return one row per epoch that has ended; one of as many steps as were asked for isn't cut."""
    if not epochs:
        return None
    metrics = list(dict.fromkeys(name for one in epochs for name in one.metrics))[:_METRICS]
    rows = []
    for epoch in epochs[:MOST_EPOCHS]:
        validation = epoch.validation
        cut = not epoch.whole and not steps_asked_for(epoch, model)
        values = (epoch.metrics.get(name) for name in metrics)
        rows.append(
            (
                f"{epoch.epoch + 1}{' (cut)' if cut else ''}",
                units.seconds((epoch.end - epoch.begin) / 1e9),
                units.seconds((epoch.train_end - epoch.begin) / 1e9),
                units.seconds(validation.took_s) if validation else "–",
                "–" if epoch.samples is None else f"{epoch.samples:,}",
                *("–" if value is None else units.metric(value) for value in values),
            )
        )
    headings = ("epoch", "in all", "training", "validation", "samples", *metrics)
    left_out = max(0, len(epochs) - MOST_EPOCHS)
    return Table(headings, tuple(rows), (True,) * len(headings), left_out, "Epochs")


def describe_profile(profile: Profile, heading: str = "") -> Iterator[Section]:
    """Yield what was profiled, and one row per operation, or why there is none."""
    said = _profile_text(profile)
    if profile.operations is None:
        why = profile.why.get("operations") or profile.why.get("file")
        said = f"{said}: {why or 'no operation is known'}"
    yield Note((said,), heading=heading)
    headings = ("share", "calls", "host", "device", "operation")
    rows = tuple(
        (
            f"{100 * each.share:.1f} %",
            f"{each.calls:,}",
            _time(each.host_us),
            _time(each.device_us),
            each.name,
        )
        for each in profile.operations or ()
    )
    if rows:
        yield Table(headings, rows, (True, True, True, True, False), is_cut=True)


def _profile_text(profile: Profile) -> str:
    """Say what was profiled, and what the time went into: 5 steps by PyTorch, 62 ms: idle 12 %."""
    by = TITLES.get(profile.profiler or "", profile.profiler or "an unknown profiler")
    text = f"{units.counted(profile.steps, 'step')} by {by}'s profiler"
    if profile.begin is not None and profile.end is not None:
        text += f", {units.step_time((profile.end - profile.begin) / 1e6)}"
    parts = (
        ("the device idle", profile.idle),
        ("copying", profile.copying),
        ("communicating", profile.communicating),
    )
    known = [f"{name} {units.share(share)}" for name, share in parts if share is not None]
    return ", ".join([text, *known])


def _time(us: int) -> str:
    return units.step_time(us / 1e3) if us else "–"
