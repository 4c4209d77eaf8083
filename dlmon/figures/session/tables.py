"""Tables of a session: its loops, epochs, metrics and profiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dlmon.figures import units
from dlmon.figures.columns import Column, number_column, table_of
from dlmon.figures.sections import Note, Section, Table
from dlmon.figures.session.epochs import steps_asked_for, validation_time
from dlmon.quantities import throughputs_of
from dlmon.records import TITLES, Epoch, Evaluation, LoopResult, Model, Operation, Profile
from dlmon.session.epoch_comparison import seconds_of
from dlmon.session.learning import LOSS, Metric, MetricFigure
from dlmon.session.limits.rules import FEWER_KERNELS, PIN_ADVICE
from dlmon.session.snapshot import Snapshot

MOST_EPOCHS, MOST_LOOPS = 1000, 100
_METRICS = 6


def loop_text(loop: LoopResult) -> str:
    """Describe a loop: net (1,000 parameters), batch 32, 3,200 samples."""
    size = None if loop.parameters is None else units.counted(loop.parameters, "parameter")
    parts = (
        f"{loop.network} ({size})" if loop.network and size else loop.network or size,
        None if loop.batch_size is None else f"batch {loop.batch_size:,}",
        None if loop.samples_per_epoch is None else units.counted(loop.samples_per_epoch, "sample"),
    )
    text = ", ".join(part for part in parts if part) or "without a loader"
    return f"{text}, {loop.count:,} times" if loop.count > 1 else text


def measured_loop(snapshot: Snapshot) -> str:
    """Describe the loop that the figures are of; empty for a single loop."""
    if len(snapshot.loops) < 2:
        return ""
    headline = next(loop for loop in snapshot.loops if loop.headline)
    return f"the one of {len(snapshot.loops):,} whose steps took longest: {loop_text(headline)}"


def measured_in_short(snapshot: Snapshot) -> str:
    """Say in few words that figures are of one of several loops; empty for a single loop."""
    loops = len(snapshot.loops)
    return f"longest of {loops:,} loops" if loops > 1 else ""


def loop_table(snapshot: Snapshot, most: int = MOST_LOOPS) -> Table | None:
    """Return one row per loop; None for a single loop."""
    if len(snapshot.loops) < 2:
        return None
    longest = snapshot.longest_loops(most)
    return table_of(_LOOPS, longest, "Loops", left_out=len(snapshot.loops) - len(longest))


_LOOPS: tuple[Column[LoopResult], ...] = (
    Column("", lambda loop: "▶" if loop.headline else ""),
    Column("loop", loop_text),
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


def metric_table(figures: Sequence[MetricFigure], epoch_word: str) -> Table | None:
    """Return one row per metric, with its last and its best value."""
    columns: tuple[Column[MetricFigure], ...] = (
        Column("metric", lambda figure: figure.name),
        number_column("last", lambda figure: value_text(figure.final, figure.why)),
        number_column("best", lambda figure: value_text(figure.best, "")),
        number_column(
            f"best in {epoch_word}",
            lambda figure: "–" if figure.best_epoch is None else str(figure.best_epoch + 1),
        ),
    )
    return table_of(columns, figures, "Metrics") if figures else None


def epoch_table(epochs: Sequence[Epoch], model: Model | None) -> Table | None:
    """Return one row per epoch that has ended, marked "(cut)" if it lacks steps asked for."""
    if not epochs:
        return None
    metrics = list(dict.fromkeys(name for epoch in epochs for name in epoch.metrics))[:_METRICS]
    has_tokens = any(epoch.tokens is not None for epoch in epochs)
    counts = ("samples", "tokens") if has_tokens else ("samples",)

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
        *map(count_column, counts),
        *map(metric_column, metrics),
    )
    left_out = max(0, len(epochs) - MOST_EPOCHS)
    return table_of(columns, epochs[:MOST_EPOCHS], "Epochs", left_out)


def describe_profile(
    profile: Profile, heading: str = "", width: int | None = None
) -> Iterator[Section]:
    """Yield what took most time, a note and one row per operation, or why there is none.

    Args:
        profile: what to describe.
        heading: the heading above it.
        width: the cells of a row on a screen, which shows the headline itself.
    """
    text = _profile_text(profile)
    if profile.operations:
        title, sentences, advice = profile_headline(profile)
        if width is None:
            lead = f"{title} {sentences[0]}", *sentences[1:], f"Try: {advice}" if advice else ""
            yield Note(tuple(filter(None, lead)), "verdict", heading)
        is_narrow = width is not None and width < _WIDE
        yield Note((f"{text}; below, counts and times of a step" if is_narrow else text,))
        yield _operation_table(profile, profile.operations, width)
        return
    if profile.operations is None:
        why = profile.why.get("operations") or profile.why.get("file")
        text = f"{text}: {why or 'no operation is known'}"
    yield Note((text,), heading=heading)


def profile_headline(profile: Profile) -> tuple[str, tuple[str, ...], str]:
    """Return what took most time and its share, sentences on it, and what to try or nothing."""
    if not profile.operations:
        return "", (), ""
    title, sentence, advice = _largest_of(profile, profile.operations)
    if outside := _outside_operations(profile):
        return outside[0], (outside[1], f"{title} {sentence}"), advice
    return title, (sentence,), advice


def _operation_table(profile: Profile, operations: Sequence[Operation], width: int | None) -> Table:
    """Return a row for each operation, and for the rest of the time."""
    idle = profile.idle or 0.0
    shares = {operation: (1 - idle) * operation.share for operation in operations}
    shown = [operation for operation, share in shares.items() if share >= _LEAST_SHARE]
    others = {
        "all else": 1 - idle - sum(map(shares.__getitem__, shown)),
        "device idle": idle,
    }
    longest = max(*shares.values(), *others.values())
    bar_cells = min(_MOST_BAR_CELLS, max(_BAR_CELLS, (width or 0) - _BESIDE_BAR))

    def bar(share: float, glyph: str = "█") -> str:
        return glyph * round(bar_cells * share / longest)

    of_device, steps = _is_of_device(profile), profile.steps or 1

    def calls(operation: Operation) -> str:
        number = operation.calls / steps
        return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"

    def each(operation: Operation) -> str:
        us = operation.device_us if of_device else operation.host_us
        us_a_call = us / operation.calls if operation.calls else 0.0
        return f"{us_a_call:,.{int(us_a_call < 10)}f}" if us_a_call else "–"

    def whole(operation: Operation) -> str:
        name = re.sub(r"^void |at::native::|\(anonymous namespace\)::", "", operation.name)
        # The types of the arguments repeat those of the template.
        return name if width is None else re.sub(r"(?<=>)\(.*\)$", "", name)

    is_wide = width is not None and width >= _WIDE
    a_step = " a step" if is_wide or width is None else ""

    def short(operation: Operation) -> str:
        name = plain_name(operation) or whole(operation)
        return _cut_in_the_middle(name, _SHORT_NAME) if is_wide else name

    columns: tuple[Column[Operation], ...] = (
        number_column("share", lambda operation: units.whole_share(shares[operation])),
        Column("", lambda operation: bar(shares[operation])),
        number_column(f"calls{a_step}", calls),
        number_column("µs a call", each),
        number_column(f"host{a_step}", lambda operation: _time(operation.host_us / steps)),
        number_column(f"device{a_step}", lambda operation: _time(operation.device_us / steps)),
        Column("operation", whole if width is None else short),
    )
    blank = ("",) * 4
    if is_wide:
        # A name that is longer than the rest of the row goes below it.
        kernel = Column[Operation]("kernel", lambda o: whole(o) if whole(o) != short(o) else "")
        columns = (*columns, kernel)
    table = table_of(columns, shown, is_cut=not is_wide)
    rest = [
        (units.whole_share(share), bar(share, "░"), *blank, name, *[""] * is_wide)
        for name, share in others.items()
        if share >= _LEAST_SHARE
    ]
    table = replace(table, rows=(*table.rows, *rest))
    unknown = {f"host{a_step}": "host_us", f"device{a_step}": "device_us"}
    known = {name for name, us in unknown.items() if any(getattr(o, us) for o in shown)}
    table = table.without(*(unknown.keys() - known))
    if width is not None and not is_wide:
        *cells, _ = zip(table.headings, *table.rows, strict=True)
        room = width - sum(max(map(len, column)) + 2 for column in cells)
        rows = ((*row, _cut_in_the_middle(name, room)) for *row, name in table.rows)
        table = replace(table, rows=tuple(rows))
    return table


def _cut_in_the_middle(name: str, most: int) -> str:
    """Return a name in at most so many characters: kernels differ at both ends of theirs."""
    at_end = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - at_end]}…{name[-at_end:]}"


def _outside_operations(profile: Profile) -> tuple[str, str] | None:
    """Return how much of a step is outside operations on the host; None if little or unknown.

    Operations of several threads at once count each, so at least the rest is outside them.
    """
    largest, span = (profile.operations or ())[0], (profile.begin, profile.end)
    if _is_of_device(profile) or None in span or not largest.share or not profile.steps:
        return None
    step_ms = ((profile.end or 0) - (profile.begin or 0)) / 1e6 / profile.steps
    operations_ms = largest.host_us / largest.share / 1e3 / profile.steps
    if operations_ms >= _MOSTLY_OPERATIONS * step_ms:
        return None
    of_step = f"{units.step_time(operations_ms)} of {units.step_time(step_ms)}"
    return (
        f"OUTSIDE OPERATIONS {units.whole_share(1 - operations_ms / step_ms)}",
        f"of a step: {of_step} are operations, the rest is your own code, or a wait",
    )


def _is_of_device(profile: Profile) -> bool:
    """Return whether the shares of the operations are of the time on the device."""
    of_device = any(operation.device_us for operation in profile.operations or ())
    return of_device or profile.idle is not None


def _largest_of(profile: Profile, operations: Sequence[Operation]) -> tuple[str, str, str]:
    """Return what took the largest share of the profiled time, and what to try, or nothing."""
    idle, copying, communicating = _shares(profile)
    is_of_device = _is_of_device(profile)
    of = f"the time in operations on the {'device' if is_of_device else 'host'}"
    of = of if profile.idle is None else "the profiled time"
    copies = [o.name for o in operations if "memcpy" in o.name.lower()]
    copy_advice = ""
    if copies and any(word in copies[0] for word in ("DtoH", "D2H")):
        copy_advice = "read results back less often: .item(), .cpu(), print"
    elif copies and "Pageable" in copies[0]:
        copy_advice = PIN_ADVICE
    shares = [
        (idle, "DEVICE IDLE", "", _IDLE_ADVICE),
        (copying, "COPYING", "", copy_advice),
        (communicating, "COMMUNICATING", "", _SEND_ADVICE),
    ]
    kinds: dict[str, list[Operation]] = {}
    for operation in operations:
        kinds.setdefault(_first_match(_KINDS, operation), []).append(operation)
    for kind, of_kind in kinds.items():
        parts: dict[str, float] = {}
        for operation in of_kind:
            part = plain_name(operation).partition(", ")[2]
            parts[part] = parts.get(part, 0.0) + operation.share * (1 - idle)
        which = f", in {units.counted(len(of_kind), 'operation')}"
        if "" not in parts:
            texts = (f"{part} {units.whole_share(share)}" for part, share in parts.items())
            which = f": {', '.join(texts)}"
        if not kind:
            # Of these, only the largest is one thing.
            kind, which, of_kind = "LARGEST OPERATION", f": {of_kind[0].name}", of_kind[:1]
        less_work = _less_work(of_kind) if is_of_device else ""
        shares.append((sum(o.share for o in of_kind) * (1 - idle), kind, which, less_work))
    share, name, which, advice = max(shares, key=lambda row: row[0])
    return f"{name} {units.whole_share(share)}", f"of {of}{which}", advice


def _less_work(kernels: Sequence[Operation]) -> str:
    """Return what shortens kernels; those that compute with few bits can't use fewer."""
    is_low = any(_LOW_PRECISION.search(kernel.name.lower()) for kernel in kernels)
    return f"{'' if is_low else 'lower precision, '}a compiled model, or a smaller model"


_LOW_PRECISION = re.compile(r"f(p|loat)?16|half|f(p|loat)?8|e4m3|e5m2")
_KINDS = {
    "CONVOLUTION": r"conv|scudnn|fprop|dgrad|wgrad",
    "ATTENTION": r"attention|attn|flash_|fmha",
    "MATRIX PRODUCT": r"gemm|matmul|mm$|mm_",
    "NORMALISATION": r"norm|cudnn::bn",
    "OPTIMISER": r"adam|sgd|multi_tensor_apply",
    "ELEMENTWISE": r"elementwise",
}
"""What operations and kernels do, by words in their names; the first that matches."""

_PLAIN_NAMES = {
    "convolution, forward": r"fprop|implicit_convolve",
    "convolution, backward": r"dgrad",
    "convolution, weight gradient": r"wgrad",
    "batch norm, forward": r"cudnn::bn_fw",
    "batch norm, backward": r"cudnn::bn_bw",
    "copy to the device": r"memcpy (htod|h2d)",
    "copy to the host": r"memcpy (dtoh|d2h)",
    "copy on the device": r"memcpy (dtod|d2d)",
}
"""What kernels do, by words in their names; the first that matches."""


def plain_name(operation: Operation) -> str:
    """Return what an operation does in plain words; empty if its name doesn't tell."""
    return _first_match(_PLAIN_NAMES, operation) or _first_match(_KINDS, operation).lower()


def _first_match(patterns: Mapping[str, str], operation: Operation) -> str:
    """Return the key of the first pattern in an operation's name; empty if there is none."""
    name = operation.name.lower()
    return next((key for key, words in patterns.items() if re.search(words, name)), "")


def _shares(profile: Profile) -> tuple[float, float, float]:
    """Return the shares of the time in which the device was idle, copied and communicated.

    Where it isn't known how long it was idle, they are of the time in operations.
    """
    idle, copying, communicating = profile.idle or 0.0, profile.copying, profile.communicating
    return idle, (copying or 0.0) * (1 - idle), (communicating or 0.0) * (1 - idle)


_BAR_CELLS, _MOST_BAR_CELLS, _BESIDE_BAR = 10, 30, 84
_WIDE, _SHORT_NAME = 110, 28
_LEAST_SHARE, _LEAST_US, _MOSTLY_OPERATIONS = 0.005, 10, 0.5
_IDLE_ADVICE = f"if it doesn't wait for data, {FEWER_KERNELS}"
_SEND_ADVICE = "if no rank is late, a larger batch on each, or gradients of several steps at once"


def _profile_text(profile: Profile) -> str:
    """Describe a profile: 5 steps by PyTorch's profiler, 62.0 ms a step, the device idle 12 %."""
    by = TITLES.get(profile.profiler or "", profile.profiler or "an unknown profiler")
    text = f"{units.counted(profile.steps, 'step')} by {by}'s profiler"
    if profile.begin is not None and profile.end is not None:
        step_ms = (profile.end - profile.begin) / 1e6 / (profile.steps or 1)
        text += f", {units.step_time(step_ms)} a step"
    parts = zip(("the device idle", "copying", "communicating"), _shares(profile), strict=True)
    shares = [f"{name} {units.whole_share(share)}" for name, share in parts if share]
    return ", ".join([text, *shares])


def _time(us: float) -> str:
    if 0 < us < _LEAST_US:
        return f"<{units.step_time(_LEAST_US / 1e3)}"
    return units.step_time(us / 1e3) if us else "–"


# ---- metrics ----

LEAST_TREND = 2
"""Tell a trend from this many epochs on."""
MOST_IN_A_LINE = 8


def value_text(value: float | None, why: str) -> str:
    """Write a value, or why it is no number: NaN, infinite."""
    return why or "–" if value is None else units.metric(value)


def newest_text(metric: Metric, epoch_word: str = "epoch") -> tuple[str, str]:
    """Return the newest values of a metric, and the trend of its validation."""
    training = value_text(metric.newest, metric.why)
    if not metric.validations:
        return training, ""
    validation = f"val {value_text(metric.newest_validation, metric.why_validation)}"
    values = f"{training} · {validation}"
    count = abs(metric.trend)
    if count < LEAST_TREND:
        return values, ""
    arrow = "↑" if metric.trend > 0 else "↓"
    return values, f"{arrow} for {count} {units.plural(epoch_word)}"


def metrics_line(figures: Sequence[MetricFigure], epoch_word: str = "epoch") -> str:
    """Return the results of all metrics in one line."""
    parts = [
        f"{figure.name} {figure_text(figure, epoch_word)}" for figure in figures[:MOST_IN_A_LINE]
    ]
    left_out = len(figures) - len(parts)
    return ", ".join([*parts, *([f"and {left_out} more"] if left_out else [])])


def figure_text(figure: MetricFigure, epoch_word: str = "epoch") -> str:
    """Return the last value of a metric, and its best value if that is another."""
    final = value_text(figure.final, figure.why)
    if figure.last_epoch is None:
        return f"{final} (last read)"
    if figure.best is None or figure.best_epoch is None:
        return final
    if figure.best_epoch == figure.last_epoch:
        return final if figure.last_epoch == 0 else f"{final} (best)"
    return f"{final} (best {units.metric(figure.best)} in {epoch_word} {figure.best_epoch + 1})"


def evaluation_text(evaluation: Evaluation) -> str:
    """Return the result on the test set: loss 0.45, accuracy 0.87 (1,000 samples, 2.10 s)."""
    names = sorted(evaluation.metrics, key=lambda name: name != LOSS)[:MOST_IN_A_LINE]
    why = evaluation.why
    values = [f"{name} {value_text(evaluation.metrics[name], why.get(name, ''))}" for name in names]
    details = [units.seconds(max(0, evaluation.end - evaluation.begin) / 1e9)]
    if evaluation.samples is not None:
        details.insert(0, units.counted(evaluation.samples, "sample"))
    if not evaluation.whole:
        details.append("cut short")
    return f"{', '.join(values) or 'no metric'} ({', '.join(details)})"


def evaluation_json(evaluation: Evaluation) -> Mapping[str, object]:
    """Return the result on the test set as JSON."""
    return {
        "metrics": evaluation.metrics,
        "samples": evaluation.samples,
        "seconds": (evaluation.end - evaluation.begin) / 1e9,
        "whole": evaluation.whole,
    }
