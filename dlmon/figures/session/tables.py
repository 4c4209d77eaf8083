"""Tables of a session: its loops, its epochs, what its metrics came to, and its profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dlmon.figures import units
from dlmon.figures.report.sections import Note, Section, Table
from dlmon.figures.session.epochs import steps_asked_for, validation_time
from dlmon.quantities import throughputs_of
from dlmon.records import TITLES, Epoch, Evaluation, LoopResult, Model, Profile
from dlmon.session.learning import LOSS, Metric, MetricFigure
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
    epoch = loop.seconds_per_epoch
    return (
        "▶" if loop.headline else "",
        what_trains(loop),
        f"{loop.epochs:,}" if loop.epochs else "–",
        f"{loop.batches:,}",
        units.seconds(loop.train_s),
        "–" if epoch is None else units.band(epoch),
        ", ".join(map(units.throughput, throughputs_of(loop))) or "–",
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
    has_tokens = any(epoch.tokens is not None for epoch in epochs)
    rows = []
    for epoch in epochs[:MOST_EPOCHS]:
        cut = not epoch.whole and not steps_asked_for(epoch, model)
        values = (epoch.metrics.get(name) for name in metrics)
        counted = (epoch.samples, epoch.tokens) if has_tokens else (epoch.samples,)
        rows.append(
            (
                f"{epoch.epoch + 1}{' (cut)' if cut else ''}",
                units.seconds((epoch.end - epoch.begin) / 1e9),
                units.seconds((epoch.train_end - epoch.begin) / 1e9),
                validation_time(epoch),
                *("–" if count is None else f"{count:,}" for count in counted),
                *("–" if value is None else units.metric(value) for value in values),
            )
        )
    counts = ("samples", "tokens") if has_tokens else ("samples",)
    headings = ("epoch", "in all", "training", "validation", *counts, *metrics)
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


# ---- what training says of itself ----

# A rise from one epoch to the next is none to speak of.
LEAST_TREND = 2
# A script may report any number of metrics.
MOST_IN_A_LINE = 8


def value_text(value: float | None, why: str) -> str:
    """Write a value, or what it is where it is no number: NaN, infinite."""
    return why or "–" if value is None else units.metric(value)


def newest_text(metric: Metric, each: str = "epoch") -> tuple[str, str]:
    """Return what a metric came to last, and for how long its validation has risen or fallen."""
    trains = value_text(metric.newest, metric.why)
    if not metric.validations:
        return trains, ""
    validation = f"val {value_text(metric.newest_validation, metric.why_validation)}"
    both = f"{trains} · {validation}"
    count = abs(metric.trend)
    if count < LEAST_TREND:
        return both, ""
    arrow = "↑" if metric.trend > 0 else "↓"
    return both, f"{arrow} for {count} {units.plural(each)}"


def metrics_line(figures: Sequence[MetricFigure], each: str = "epoch") -> str:
    """Return what all metrics came to; `each` is what an epoch is called."""
    parts = [f"{one.name} {figure_text(one, each)}" for one in figures[:MOST_IN_A_LINE]]
    left = len(figures) - len(parts)
    return ", ".join([*parts, *([f"and {left} more"] if left else [])])


def figure_text(figure: MetricFigure, each: str = "epoch") -> str:
    """Return what one came to, and its best where that is another."""
    final = value_text(figure.final, figure.why)
    if figure.last_epoch is None:
        return f"{final} (last read)"
    if figure.best is None or figure.best_epoch is None:
        return final
    if figure.best_epoch == figure.last_epoch:
        return final if figure.last_epoch == 0 else f"{final} (best)"
    return f"{final} (best {units.metric(figure.best)} in {each} {figure.best_epoch + 1})"


def evaluation_text(evaluation: Evaluation) -> str:
    """Return what the pass over the test set came to: loss 0.45, accuracy 0.87 (1,000 samples)."""
    names = sorted(evaluation.metrics, key=lambda name: name != LOSS)[:MOST_IN_A_LINE]
    why = evaluation.why
    values = [f"{name} {value_text(evaluation.metrics[name], why.get(name, ''))}" for name in names]
    about = [units.seconds(max(0, evaluation.end - evaluation.begin) / 1e9)]
    if evaluation.samples is not None:
        about.insert(0, units.counted(evaluation.samples, "sample"))
    if not evaluation.whole:
        about.append("cut short")
    return f"{', '.join(values) or 'no metric'} ({', '.join(about)})"


def evaluation_json(evaluation: Evaluation) -> Mapping[str, object]:
    """Return what the pass over the test set came to, as JSON."""
    return {
        "metrics": evaluation.metrics,
        "samples": evaluation.samples,
        "seconds": (evaluation.end - evaluation.begin) / 1e9,
        "whole": evaluation.whole,
    }
