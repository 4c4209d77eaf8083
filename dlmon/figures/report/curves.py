"""Make the charts of a report: throughput, hardware and metrics over time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, islice, pairwise
from statistics import fmean
from typing import Any

from dlmon.comparison.arguments import GIVEN, PROGRAM, arguments_of, is_secret
from dlmon.comparison.compared_run import Curve, options_with_effect
from dlmon.figures import units
from dlmon.figures.machine.readings import NOT_READ, activity_name
from dlmon.figures.sections import Line, LineChart, Values
from dlmon.figures.session import tokens
from dlmon.figures.value_axis import value_range
from dlmon.metric_files.file_session import NS_PER_STEP, FileSession
from dlmon.quantities import BY_KEY, SAMPLES_PER_SECOND, STEPS_PER_SECOND
from dlmon.records import Record, SessionHeader
from dlmon.records.record import record
from dlmon.records.words import STEPS_PER_S
from dlmon.script_name import from_script
from dlmon.session.effective import share_over_time
from dlmon.session.learning import MOST_METRICS, Metric, MetricReadings, Pass, drawable, importance
from dlmon.session.loops import Loop
from dlmon.session.running_time import RunningTime
from dlmon.session.session import Session
from dlmon.statistics.series import Series

# Keeps a report of one hour under 500 KB, of one day under 3 MB; a number takes about 6 bytes.
_VALUES, _VALUES_OF_AN_HOUR = 40_000, 12_000
_LONGEST_H = 24.0
_MOST_MARKS = 200
_MOST_LINES = 16
# The runs whose values stand in the border of a chart.
_MOST_RUNS = 4
_FINEST_NS = 1_000_000_000

THROUGHPUT, IN_STEPS, CPU, GPU, POWER, MEMORY = (
    "Throughput", "Throughput in steps", "CPU", "GPU utilisation", "Power", "Memory in use",
)  # fmt: skip
_CHARTS = {
    THROUGHPUT: BY_KEY[SAMPLES_PER_SECOND].unit,
    IN_STEPS: BY_KEY[STEPS_PER_SECOND].unit,
    CPU: "%",
    GPU: "%",
    POWER: "W",
    MEMORY: "GiB",
}
RATES = {_CHARTS[THROUGHPUT], _CHARTS[IN_STEPS], tokens.UNIT}
"""The units of what the run does, not its machine."""
_OWN = "this run"
VALIDATION_MARK = "◆"
_COMMIT_DIGITS = 7


@record(frozen=True)
class TimeMark:
    """A labelled moment, in seconds from the start of the session."""

    at_s: float
    text: str


@record(frozen=True)
class _Quantity:
    """One quantity of a session over time."""

    chart: str
    label: str
    series: Series
    begin_ns: int
    divisor: float = 1.0

    @property
    def length_ns(self) -> int:
        return max(0, (self.series.end_ns or 0) - self.begin_ns)

    def line(self, width_ns: int) -> Line:
        count = -(-self.length_ns // width_ns)
        values: list[Values] = []
        for number, mean in enumerate(self.series.columns(self.begin_ns, width_ns, count)):
            start_ns = self.begin_ns + number * width_ns
            # A column of the finest width has a single value.
            extremes = width_ns > _FINEST_NS and self.series.extremes(start_ns, start_ns + width_ns)
            ends = () if mean is None else (mean, *(extremes or ()))
            scaled = [end / self.divisor for end in ends]
            values.append((scaled[0], min(scaled), max(scaled)) if scaled else (None, None, None))
        xs = tuple((number + 0.5) * width_ns / 1e9 for number in range(count))
        means, lows, highs = zip(*values, strict=True)
        return Line(self.label, xs, means, lows, highs)


def epoch_marks(session: Session) -> list[TimeMark]:
    """Return a mark at the start of each epoch."""
    return [
        TimeMark(max(0, start - session.header.t) / 1e9, f"epoch {epoch + 1}")
        for epoch, start in islice(session.epoch_starts, _MOST_MARKS)
    ]


def _quantities_of(session: Session) -> Iterator[_Quantity]:
    """Yield the drawn quantities of a session: of the run, then the machine, then its GPUs."""
    machine, latest, begin_ns = session.machine, session.machine.latest, session.header.t
    yield _Quantity(THROUGHPUT, _OWN, session.samples_rate, begin_ns)
    yield _Quantity(IN_STEPS, _OWN, session.steps_rate, begin_ns)
    # The machine's percentage is of all cores, but the run may be allowed only some of them.
    pct_of_cores = latest.cpu.cores if latest is not None and latest.cpu is not None else None
    cores = len(pct_of_cores or ()) or session.header.machine.cores
    if cores:
        yield _Quantity(CPU, _OWN, machine.run_cpu_pct, begin_ns, cores)
    yield _Quantity(CPU, "machine", machine.cpu_pct, begin_ns)
    yield _Quantity(POWER, "CPU", machine.cpu_power_w, begin_ns)
    yield _Quantity(MEMORY, "machine", machine.memory_mib, begin_ns, 1024)
    for chart, of_gpus, divisor in (
        (GPU, machine.gpu_utilization_pct, 1),
        (POWER, machine.gpu_power_w, 1),
        (MEMORY, machine.gpu_memory_mib, 1024),
    ):
        for index in sorted(of_gpus):
            yield _Quantity(chart, f"GPU {index}", of_gpus[index], begin_ns, divisor)


def _overlaid(session: Session, name: str) -> Iterator[_Quantity]:
    """Yield one quantity for each chart that compares sessions."""
    gpu = session.gpus[0] if session.gpus else None
    labels = {
        THROUGHPUT: _OWN,
        IN_STEPS: _OWN,
        CPU: "machine",
        GPU: f"GPU {gpu or 0}",
        POWER: "CPU" if gpu is None else f"GPU {gpu}",
        MEMORY: "machine" if gpu is None else f"GPU {gpu}",
    }
    for quantity in _quantities_of(session):
        if labels[quantity.chart] == quantity.label:
            yield replace(quantity, label=name)


def charts_of(sessions: Sequence[Session], names: Sequence[str]) -> tuple[LineChart, ...]:
    """Return the charts of one session, or of several aligned at their starts.

    Throughput in steps has a chart of its own.
    """
    if len(sessions) == 1:
        quantities = list(_quantities_of(sessions[0]))
    else:
        pairs = zip(sessions, names, strict=True)
        quantities = [quantity for pair in pairs for quantity in _overlaid(*pair)]
    drawn = {
        title: [q for q in quantities if q.chart == title and q.length_ns][:_MOST_LINES]
        for title in _CHARTS
    }
    width_ns = _width_of([quantity.length_ns for of in drawn.values() for quantity in of])
    return tuple(
        LineChart(
            title=THROUGHPUT if title == IN_STEPS and not drawn[THROUGHPUT] else title,
            unit=unit,
            lines=tuple(quantity.line(width_ns) for quantity in drawn[title]),
            top=100.0 if unit == "%" else None,
            width_s=width_ns / 1e9,
        )
        for title, unit in _CHARTS.items()
        if drawn[title]
    )


def _width_of(lengths_ns: Sequence[int]) -> int:
    """Return the column width that keeps the report small enough."""
    hours = min(max(lengths_ns, default=0) / 3.6e12, _LONGEST_H)
    room = _VALUES + _VALUES_OF_AN_HOUR * hours
    width_ns = _FINEST_NS
    while sum(3 * length_ns / width_ns for length_ns in lengths_ns) > room:
        width_ns *= 2
    return width_ns


def chart_json(chart: LineChart) -> dict[str, object]:
    """Return the numbers of a chart, rounded; extremes only if they differ from the mean."""
    if chart.metric:
        about: dict[str, object] = {"metric": chart.metric, "bottom": chart.bottom}
    else:
        about = {"unit": chart.unit, "width_s": chart.width_s}
    return {
        "title": chart.title,
        "top": chart.top,
        **about,
        "lines": [_line_json(line, bool(chart.metric)) for line in chart.lines],
    }


def _line_json(line: Line, is_metric: bool) -> dict[str, object]:
    # A loss may change only in its later digits.
    digits = 5 if is_metric else 4
    about = {
        "session": line.session,
        "is_validation": line.is_validation,
        "at_s": [round(at_s, 2) for at_s in line.xs],
    }
    extremes = {"low": _short(line.low, digits), "high": _short(line.high, digits)}
    return {
        "label": line.label,
        **(about if is_metric else {}),
        "mean": _short(line.mean, digits),
        **(extremes if line.varies else {}),
    }


def _short(values: Values, digits: int) -> list[float | int | None]:
    """Return rounded values; None for unknown values and those that JSON can't hold."""
    finite = (None if value is None or not abs(value) < 1e100 else value for value in values)
    rounded = (None if value is None else float(f"{value:.{digits}g}") for value in finite)
    return [int(v) if v is not None and abs(v) < 1e15 and v.is_integer() else v for v in rounded]


_IN_WORDS = {"learning_rate": "learning rate", "grad_norm": "gradient norm"}


def metric_in_words(name: str) -> str:
    """Return the title of a metric; names from the log stay as they are, and are foreign."""
    return _IN_WORDS.get(name, name)


def curve_of(metric: Metric, start_ns: int) -> Curve:
    """Return the curve of a metric, with times from `start_ns` on."""
    return Curve(
        metric.series,
        start_ns,
        validations=metric.validations,
        newest=metric.newest,
        why=metric.why,
        why_validation=metric.why_validation,
        not_numbers=metric.not_numbers,
    )


def curves_of(session: Session, start_ns: int, over_steps: bool = False) -> dict[str, Curve]:
    """Return the curves of a run: its metrics, its throughput, and its hardware.

    Those of a file are over steps if so asked; others are always over time.
    """
    if isinstance(session, FileSession):
        return dict(session.curves(over_steps))
    learning, machine = session.learning, session.machine
    curves = {name: curve_of(learning.metrics[name], start_ns) for name in learning.names}

    def add(name: str, unit: str, series: Series, factor: float = 1.0, **newest: Any) -> None:
        if series.end_ns is not None:
            curves.setdefault(name, Curve(series, start_ns, unit=unit, factor=factor, **newest))

    def add_read(name: str, unit: str, series: Series, group: object, reading: str) -> None:
        """Add what the sensors read, with the last reading or why there is none."""
        value = getattr(group, reading, None)
        why = "" if value is not None else getattr(group, "why", {}).get(reading, NOT_READ)
        add(name, unit, series, newest=value, why=why)

    # Steps and samples per second must not share a name, and so an axis.
    of_steps = " of steps" if session.throughput_unit == STEPS_PER_S else ""
    together, longest = session.trainers.together, session.loops.longest
    rate, in_tokens = together(longest), together(longest, Loop.tokens_per_second)
    unit, mean = session.throughput_unit, rate and rate.mean
    add(f"throughput{of_steps}", unit, session.throughput.whole, mean=mean)
    add("tokens", tokens.UNIT, session.tokens_rate.whole, mean=in_tokens and in_tokens.mean)
    if (share := share_over_time(session)) is not None:
        add("share of the peak", "%", share[0].whole, share[1])
    latest = machine.latest
    cpu, memory = (latest.cpu, latest.memory) if latest is not None else (None, None)
    gpus = {gpu.index: gpu for gpu in (latest.gpus if latest is not None else None) or ()}
    add_read("CPU", "%", machine.cpu_pct, cpu, "pct")
    add_read("CPU power", "W", machine.cpu_power_w, cpu, "power_w")
    add_read("memory", "MiB", machine.memory_mib, memory, "used_mib")
    for index in sorted(machine.gpu_utilization_pct.keys() | machine.gpu_memory_mib.keys()):
        for name, unit, reading in (
            ("", "%", "utilization_pct"),
            (" memory", "MiB", "memory_used_mib"),
            (" power", "W", "power_w"),
            (" temperature", "°C", "temperature_c"),
        ):
            series = machine.gpu_series(reading, index)
            add_read(f"GPU {index}{name}", unit, series, gpus.get(index), reading)
    add("memory of tensors", "MiB", session.memory.allocated_mib)
    for reading, of_gpus in machine.gpu_activity.items():
        for index in sorted(of_gpus):
            name, unit = f"GPU {index} {activity_name(reading)}", BY_KEY[reading].unit
            add_read(name, unit, of_gpus[index], gpus.get(index), reading)
    return curves


# ---- other axes than time ----

TIME, STEPS, EPOCHS, TOKENS = "time", "steps", "epochs", "tokens"
X_AXES = (TIME, STEPS, EPOCHS, TOKENS)


@record(frozen=True)
class Progress:
    """How many steps, epochs or tokens of a run were done by each time; linear in between."""

    times_ns: Sequence[float]
    counts: Sequence[float]

    def count_at(self, t_ns: float) -> float:
        return _interpolated(self.times_ns, self.counts, t_ns)

    def time_of(self, count: float) -> float:
        return _interpolated(self.counts, self.times_ns, count)


def progress_of(session: Session, x_axis: str) -> Progress | None:
    """Return a run's progress along an axis of `X_AXES` other than time; None if it has none."""
    if isinstance(session, FileSession):
        steps = session.last_step if x_axis == STEPS else 0
        return Progress((0, steps * NS_PER_STEP), (0, steps)) if steps else None
    loop = session.loops.longest
    if x_axis == EPOCHS:
        epochs = [e for e in loop.epochs.values() if e.end > e.begin]
        ends = [
            (t, n)
            for number, e in enumerate(epochs)
            for t, n in ((e.begin, number), (e.end, number + 1))
        ]
        return Progress(*zip(*ends, strict=True)) if ends else None
    rate = session.tokens_rate if x_axis == TOKENS else session.throughput
    done = list(accumulate((amount / 1e9 for amount in rate.sums), initial=0.0))
    if not done[-1] > 0:
        return None
    # The first batches have no throughput, and a batch holds several samples.
    scale = loop.steady.batches / done[-1] if x_axis == STEPS else 1.0
    times_ns = [(rate.first + number) * rate.width_ns for number in range(len(done))]
    return Progress(times_ns, [scale * count for count in done])


def _interpolated(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    after = min(max(1, bisect_right(xs, x)), len(xs) - 1)
    (x0, x1), (y0, y1) = xs[after - 1 : after + 1], ys[after - 1 : after + 1]
    share = (x - x0) / (x1 - x0) if x1 > x0 else 1.0
    return y0 + min(1.0, max(0.0, share)) * (y1 - y0)


class _SeriesByCount(Series):
    """A series whose columns are ranges of a count; `unit_ns` stand for one."""

    def __init__(self, series: Series, progress: Progress, unit_ns: float) -> None:
        super().__init__()
        self._series, self._progress, self._unit_ns = series, progress, unit_ns
        end_ns = series.end_ns
        self.end_ns = None if end_ns is None else int(progress.count_at(end_ns) * unit_ns)

    @property
    def newest(self) -> float | None:
        return self._series.newest

    def columns(self, start_ns: int, column_ns: int, count: int) -> list[float | None]:
        edges = [start_ns + number * column_ns for number in range(count + 1)]
        times = [int(self._progress.time_of(edge / self._unit_ns)) for edge in edges]
        most_ns = self._progress.counts[-1] * self._unit_ns
        return [
            self._series.mean_between(begin, max(begin + 1, end)) if edge < most_ns else None
            for edge, (begin, end) in zip(edges, pairwise(times), strict=False)
        ]


def along(curve: Curve, progress: Progress, unit_ns: float) -> Curve:
    """Return a curve over a count, of which `unit_ns` stand for one."""
    series = _SeriesByCount(curve.series, progress, unit_ns)
    dots = [(int(progress.count_at(t) * unit_ns), value) for t, value in curve.validations]
    return replace(curve, series=series, start_ns=0, validations=dots)


# ---- the names of runs in a legend ----


def names_by_difference(
    headers: Sequence[SessionHeader], labels: Sequence[str | None]
) -> list[str]:
    """Name runs by their own names, else by what differs: arguments, options, commit and host.

    Values of keys, tokens and passwords are left out.
    """
    workloads = {header.workload for header in headers}
    script = headers[0].workload if len(workloads) == 1 else None
    commands = [header.command or () for header in headers]
    if script is None:
        # Of different scripts, no place in a command means the same.
        commands = list(map(from_script, commands))
    arguments = arguments_of(commands, script)
    given = [
        {
            name: name if value == GIVEN else f"{name} {value}"
            for name, value in (of_run | options_with_effect(header.settings)).items()
            if not is_secret(name) and name != PROGRAM
        }
        for header, of_run in zip(headers, arguments, strict=True)
    ]
    facts = [
        {
            "workload": header.workload,
            **{name: of_run.get(name) for options in given for name in options},
            "commit": (header.git_commit or "")[:_COMMIT_DIGITS],
            "host": header.host,
        }
        for header, of_run in zip(headers, given, strict=True)
    ]
    differing = [key for key in facts[0] if len({of_run[key] for of_run in facts}) > 1]
    without = f"without {', '.join(differing)}" if differing else ""
    names = [
        label
        if label and labels.count(label) == 1
        else ", ".join(of_run[key] or "" for key in differing if of_run[key]) or without
        for label, of_run in zip(labels, facts, strict=True)
    ]
    return [
        name if name and names.count(name) == 1 else f"{name} {header.id}".strip()
        for name, header in zip(names, headers, strict=True)
    ]


# ---- metrics, each at its own times ----

# The limits for all lines together, and for one: a point takes about 40 bytes of a page.
_ALL_POINTS, _POINTS_OF_A_LINE = 3000, 600
_FEWEST_POINTS = 30
_MOST_SESSIONS = 16
Points = list[tuple[int, float | None]]
"""The time of each value in ns from the start of the session, and the value; None if no number."""
_TRAINING = "training"
_COUNTS = ("epoch", "epochs", "step", "steps")
_VALIDATION = "validation, at the end of each epoch"


@dataclass
class MetricCurves:
    """The metrics of one session over time, collected from its records."""

    header: SessionHeader
    running_time: RunningTime = field(default_factory=RunningTime)
    lines: dict[str, dict[Pass, Points]] = field(default_factory=dict)
    _readings: MetricReadings = field(default_factory=MetricReadings)

    def add(self, record: Record) -> None:
        for reading in self._readings.add(record):
            is_drawn = not reading.trainer and reading.of is not Pass.EVALUATION
            is_known = reading.metric in self.lines
            if is_drawn and (is_known or len(self.lines) < MOST_METRICS):
                line = self.lines.setdefault(reading.metric, {}).setdefault(reading.of, [])
                t = max(0, self.running_time.at(reading.t) - self.header.t)
                line.append((t, drawable(reading.value)))

    def adding(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield records unchanged, and add them."""
        for added in records:
            self.add(added)
            yield added

    def renamed(self, text: Callable[[str], str]) -> MetricCurves:
        """Return the same curves with `text` applied to the names of the metrics."""
        return replace(self, lines={text(name): lines for name, lines in self.lines.items()})

    @property
    def names(self) -> list[str]:
        """The metrics that have a value: the loss, other losses, then others as they appeared."""
        drawn = [name for name, lines in self.lines.items() if any(map(_is_drawn, lines.values()))]
        return sorted(drawn, key=importance)


def metric_charts(sessions: Sequence[MetricCurves], names: Sequence[str]) -> tuple[LineChart, ...]:
    """Return a chart of each metric, with the training and validation of each session."""
    sessions = sessions[:_MOST_SESSIONS]
    metrics = list(dict.fromkeys(name for session in sessions for name in session.names))
    metrics.sort(key=importance)
    lines_of: dict[str, list[tuple[Points, str, int, bool]]] = {}
    for metric in metrics[:MOST_METRICS]:
        for number, session in enumerate(sessions):
            lines = session.lines.get(metric, {})
            for of in (Pass.TRAINING, Pass.VALIDATION):
                if _is_drawn(lines.get(of, [])):
                    label = _label(of, names[number] if len(sessions) > 1 else None)
                    line = (lines[of], label, number, of is Pass.VALIDATION)
                    lines_of.setdefault(metric, []).append(line)
    count = sum(map(len, lines_of.values()))
    most = max(_FEWEST_POINTS, min(_POINTS_OF_A_LINE, _ALL_POINTS // max(1, count)))
    return tuple(
        _chart(metric, [_line(most, *line) for line in lines]) for metric, lines in lines_of.items()
    )


def _label(of: Pass, session: str | None) -> str:
    if session is None:
        return _VALIDATION if of is Pass.VALIDATION else _TRAINING
    return f"{session}, validation" if of is Pass.VALIDATION else session


def _is_drawn(points: Points) -> bool:
    return any(value is not None for _, value in points)


def _line(most: int, points: Points, label: str, session: int, is_validation: bool) -> Line:
    """Return a line of at most `most` points, each the mean and extremes of its neighbours."""
    width = 1
    while -(-len(points) // width) > most:
        width *= 2
    groups = [points[at : at + width] for at in range(0, len(points), width)]
    numbers = [[value for _, value in group if value is not None] for group in groups]
    return Line(
        label,
        tuple(fmean(t for t, _ in group) / 1e9 for group in groups),
        tuple(fmean(values) if values else None for values in numbers),
        tuple(min(values, default=None) for values in numbers),
        tuple(max(values, default=None) for values in numbers),
        session,
        is_validation,
    )


def _chart(metric: str, lines: Sequence[Line]) -> LineChart:
    values = [value for line in lines for value in (*line.low, *line.high) if value is not None]
    name = metric_in_words(metric)
    title = name[:1].upper() + name[1:]
    bottom, top = value_range(min(values), max(values))
    return LineChart(title, "", tuple(lines), bottom, top, metric=metric)


def unit_of(curves: Sequence[Curve]) -> str:
    """Return the unit of curves of one quantity; a metric has none."""
    return next((curve.unit for curve in curves if curve.unit), "")


def value_texts(
    name: str, curves: Sequence[Curve], at_cursor: Sequence[float | None] | None
) -> list[str]:
    """Write each run's value, now or at the cursor; of a single run the newest validation too.

    The value of a throughput is the mean of the run; before that is steady, the last one.
    """
    unit, write = unit_of(curves), partial(_value_text, name)
    if at_cursor is not None:
        return [write(value, unit) for value in at_cursor[:_MOST_RUNS]]
    texts = []
    for curve in curves[:_MOST_RUNS]:
        newest = curve.newest if curve.newest is not None else curve.series.newest
        newest = newest and curve.factor * newest
        is_mean = unit in RATES and (len(curves) > 1 or curve.mean is not None)
        texts.append(curve.why or write(curve.mean if is_mean else newest, unit))
    if unit in RATES and texts[0] != "–":
        texts[0] = f"{'last' if curves[0].mean is None else 'mean'} {texts[0]}"
    if len(curves) == 1 and (validations := curves[0].validations):
        # The line and the dots of one chart are told apart by their names.
        newest_text = curves[0].why_validation or write(validations[-1][1], unit)
        has_line = curves[0].newest is not None or curves[0].series.newest is not None
        texts = [f"train {text}" for text in texts if has_line or text != "–"]
        texts.append(f"{VALIDATION_MARK} val {newest_text}")
    return texts


_WRITERS: dict[str, Callable[[float], str]] = {
    "GiB": lambda gib: f"{gib:.1f}" if gib >= 0.05 or not gib else f"{gib:.1g}",
    "MHz": "{:.0f}".format,
    "%": "{:.0f}".format,
}


def _value_text(name: str, value: float | None, unit: str) -> str:
    """Write a value; a metric, which has no unit, gets more digits."""
    if value is None:
        return "–"
    write = _WRITERS.get(unit, units.rate)
    return write(value) if unit else metric_text(name, value)


def metric_text(name: str, value: float) -> str:
    """Write a value of a metric; whole if it counts something: 4 epochs, not 4.0000."""
    counts = name.rpartition("/")[2].lower() in _COUNTS
    return f"{value:,.0f}" if counts and value == round(value) else units.metric(value)
