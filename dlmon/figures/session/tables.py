"""Tables of a session: its loops, its epochs, what its metrics came to, and its profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dlmon.figures import units
from dlmon.figures.report.columns import Column, number_column, table_of
from dlmon.figures.report.sections import Note, Section, Table
from dlmon.figures.session.epochs import steps_asked_for, validation_time
from dlmon.quantities import throughputs_of
from dlmon.records import TITLES, Epoch, Evaluation, LoopResult, Model, Operation, Profile
from dlmon.session.epoch_comparison import seconds_of
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
    left = len(snapshot.loops) - len(shown)
    return table_of(_LOOPS, shown, "Loops", left)


_LOOPS: tuple[Column[LoopResult], ...] = (
    Column("", lambda loop: "▶" if loop.headline else ""),
    Column("loop", what_trains),
    number_column("epochs", lambda loop: f"{loop.epochs:,}" if loop.epochs else "–"),
    number_column("steps", lambda loop: f"{loop.batches:,}"),
    number_column("time in steps", lambda loop: units.seconds(loop.train_s)),
    number_column(
        "per epoch",
        lambda loop: units.band(loop.seconds_per_epoch) if loop.seconds_per_epoch else "–",
    ),
    number_column(
        "throughput", lambda loop: ", ".join(map(units.throughput, throughputs_of(loop))) or "–"
    ),
)


def metric_table(figures: Sequence[MetricFigure], each: str) -> Table | None:
    """Return one row per metric, of what it came to; `each` is what an epoch is called."""
    columns: tuple[Column[MetricFigure], ...] = (
        Column("metric", lambda figure: figure.name),
        number_column("last", lambda figure: value_text(figure.final, figure.why)),
        number_column("best", lambda figure: value_text(figure.best, "")),
        number_column(
            f"best in {each}",
            lambda figure: "–" if figure.best_epoch is None else str(figure.best_epoch + 1),
        ),
    )
    return table_of(columns, figures, "Metrics") if figures else None


def epoch_table(epochs: Sequence[Epoch], model: Model | None) -> Table | None:
    """Return one row per epoch that has ended; one of as many steps as were asked for isn't cut."""
    if not epochs:
        return None
    metrics = list(dict.fromkeys(name for one in epochs for name in one.metrics))[:_METRICS]
    has_tokens = any(epoch.tokens is not None for epoch in epochs)
    counted = ("samples", "tokens") if has_tokens else ("samples",)

    def number_text(epoch: Epoch) -> str:
        is_cut = not epoch.whole and not steps_asked_for(epoch, model)
        return f"{epoch.epoch + 1}{' (cut)' if is_cut else ''}"

    def count_column(name: str) -> Column[Epoch]:
        def text(epoch: Epoch) -> str:
            count = getattr(epoch, name)
            return "–" if count is None else f"{count:,}"

        return number_column(name, text)

    def metric_column(name: str) -> Column[Epoch]:
        return number_column(name, lambda epoch: value_text(epoch.metrics.get(name), ""))

    columns: tuple[Column[Epoch], ...] = (
        number_column("epoch", number_text),
        number_column("in all", lambda epoch: units.seconds(seconds_of(epoch))),
        number_column(
            "training", lambda epoch: units.seconds((epoch.train_end - epoch.begin) / 1e9)
        ),
        number_column("validation", validation_time),
        *map(count_column, counted),
        *map(metric_column, metrics),
    )
    left_out = max(0, len(epochs) - MOST_EPOCHS)
    return table_of(columns, epochs[:MOST_EPOCHS], "Epochs", left_out)


def describe_profile(profile: Profile, heading: str = "") -> Iterator[Section]:
    """Yield what was profiled, and one row per operation, or why there is none."""
    said = _profile_text(profile)
    if profile.operations is None:
        why = profile.why.get("operations") or profile.why.get("file")
        said = f"{said}: {why or 'no operation is known'}"
    yield Note((said,), heading=heading)
    if profile.operations:
        yield table_of(_OPERATIONS, profile.operations, is_cut=True)


_OPERATIONS: tuple[Column[Operation], ...] = (
    number_column("share", lambda operation: f"{100 * operation.share:.1f} %"),
    number_column("calls", lambda operation: f"{operation.calls:,}"),
    number_column("host", lambda operation: _time(operation.host_us)),
    number_column("device", lambda operation: _time(operation.device_us)),
    Column("operation", lambda operation: operation.name),
)


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
