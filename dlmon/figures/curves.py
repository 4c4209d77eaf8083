"""What a report draws over time: throughput and hardware of one session, or of several aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlmon.figures.units import rate_unit
from dlmon.records import (
    Batches,
    BatchSummary,
    Machine,
    Model,
    Record,
    SessionHeader,
)
from dlmon.records.changes import merge_machine
from dlmon.session.trainers import span_of
from dlmon.statistics.envelope import BUCKET_NS, Columns, Envelope

# A report of an hour is to have under 500 KB, one of a day under 3 MB; a number takes about six.
_VALUES, _VALUES_OF_AN_HOUR = 40_000, 12_000
# However much else a report holds.
_FEWEST_VALUES = 10_000
_LONGEST_H = 24.0
_MOST_MARKS = 200
_MOST_LINES = 16

THROUGHPUT, IN_STEPS, CPU, GPU, POWER, MEMORY = (
    "Throughput", "Throughput in steps", "CPU", "GPU utilisation", "Power", "Memory in use",
)  # fmt: skip
_CHARTS = {
    THROUGHPUT: rate_unit(counts_steps=False),
    IN_STEPS: rate_unit(counts_steps=True),
    CPU: "%",
    GPU: "%",
    POWER: "W",
    MEMORY: "GiB",
}
_OWN = "this run"


@dataclass(frozen=True)
class Line:
    """One line of a chart; `columns` begin at the start of its session."""

    label: str
    columns: Columns


@dataclass(frozen=True)
class Chart:
    """Lines over one time axis; `top` is where its scale ends, None where that follows from them.

    Attributes:
        width_s: how wide a column is.
    """

    title: str
    unit: str
    top: float | None
    width_s: float
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Mark:
    """A moment to know, in seconds from the start of the session."""

    at_s: float
    text: str


@dataclass
class SessionCurves:
    """Folds the records of one session into what is drawn of it.

    Batches whose size isn't known have a line of their own, in steps.

    Attributes:
        interval_s: between two readings of the hardware.
    """

    header: SessionHeader
    interval_s: float = 1.0
    lines: dict[tuple[str, str], Envelope] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    _latest: Machine | None = None
    _gpu_index: int | None = None
    _compiled: bool = False
    _epoch: int = -1

    def fold(self, record: Record) -> None:
        """Take one record."""
        if isinstance(record, (Batches, BatchSummary)):
            steps = record.samples is None
            line = self._line(IN_STEPS if steps else THROUGHPUT, _OWN)
            if record.trainer:
                span = span_of(record, steps)
                if span is not None:
                    line.add_beside(*span)
            elif isinstance(record, Batches):
                self._fold_batches(record, line, record.counted)
            else:
                self._fold_summary(record, line, record.counted_in(steps))
        elif isinstance(record, Machine):
            self._fold_machine(record)
        elif isinstance(record, Model) and not record.trainer:
            self._gpu_index = record.gpu_index

    def _fold_batches(self, record: Batches, line: Envelope, counted: tuple[int, ...]) -> None:
        start = record.t - record.dt_us[0] * 1000
        self._enter_epoch(record.epoch, start - (record.opening_us or 0) * 1000)
        # The first execution compiles: it says nothing of throughput.
        first = 0 if self._compiled else record.per_execution or 1
        start += sum(record.dt_us[:first]) * 1000
        self._compiled = True
        line.add_batches(start, record.dt_us[first:], counted[first:])

    def _fold_summary(self, record: BatchSummary, line: Envelope, counted: int | None) -> None:
        start = record.t_last - record.time_us * 1000
        self._enter_epoch(record.epoch, start)
        if record.time_us > 0 and counted is not None:
            line.add(start, record.t_last, counted / record.time_us * 1e6)
        self._compiled = True

    def _enter_epoch(self, epoch: int, start_ns: int) -> None:
        if epoch <= self._epoch:
            return
        self._epoch = epoch
        if len(self.marks) < _MOST_MARKS:
            at_s = max(0, start_ns - self.header.t) / 1e9
            self.marks.append(Mark(at_s, f"epoch {epoch + 1}"))

    def _fold_machine(self, sample: Machine) -> None:
        before, interval_ns = self._latest, int(self.interval_s * 1e9)
        start = sample.t - interval_ns
        # Up to two missed samples are lateness, more is a gap.
        if before is not None and 0 < sample.t - before.t <= 3 * interval_ns:
            start = before.t
        self._latest = now = merge_machine(before, sample)
        found: list[tuple[str, str, float | None]] = []
        if now.cpu is not None:
            found += [(CPU, "machine", now.cpu.pct), (POWER, "CPU", now.cpu.power_w)]
        # The machine's percentage is of all cores, of which the run may use but some.
        each = now.cpu.cores if now.cpu is not None else None
        cores = len(each or ()) or self.header.machine.cores
        if now.process is not None and now.process.cpu_pct is not None and cores:
            found.append((CPU, _OWN, now.process.cpu_pct / cores))
        if now.memory is not None and now.memory.used_mib is not None:
            found.append((MEMORY, "machine", now.memory.used_mib / 1024))
        for gpu in now.gpus or ():
            name = f"GPU {gpu.index}"
            used_mib = gpu.memory_used_mib
            found += [
                (GPU, name, gpu.utilization_pct),
                (POWER, name, gpu.power_w),
                (MEMORY, name, None if used_mib is None else used_mib / 1024),
            ]
        for chart, label, value in found:
            if value is not None:
                self._line(chart, label).add(start, sample.t, value)

    def _line(self, chart: str, label: str) -> Envelope:
        return self.lines.setdefault((chart, label), Envelope(self.header.t))

    def overlaid(self) -> dict[str, Envelope]:
        """Return the one line of each chart that stands for this session among others."""
        trained = f"GPU {self._gpu_index or 0}"
        labels = {
            THROUGHPUT: _OWN,
            IN_STEPS: _OWN,
            CPU: "machine",
            GPU: trained,
            POWER: trained,
            MEMORY: trained,
        }
        if self._gpu_index is None:
            labels |= {POWER: "CPU", MEMORY: "machine"}
        return {
            chart: self.lines[chart, label]
            for chart, label in labels.items()
            if (chart, label) in self.lines
        }


def charts_of(
    sessions: Sequence[SessionCurves], names: Sequence[str], values_beside: int = 0
) -> tuple[Chart, ...]:
    """Return the charts of one session, or those of several from their starts on.

    Sessions that count steps have a chart of throughput of their own.

    Args:
        sessions: what was folded of each.
        names: what to call each.
        values_beside: how many other numbers the report is to hold.
    """
    found: dict[str, list[tuple[str, Envelope]]] = {title: [] for title in _CHARTS}
    if len(sessions) == 1:
        for (title, label), line in sorted(sessions[0].lines.items(), key=_place):
            found[title].append((label, line))
    else:
        for session, name in zip(sessions, names, strict=True):
            for title, line in session.overlaid().items():
                found[title].append((name, line))
    found = {
        title: [(label, line) for label, line in lines if line][:_MOST_LINES]
        for title, lines in found.items()
    }
    width_ns = _width_of([line for lines in found.values() for _, line in lines], values_beside)
    return tuple(
        Chart(
            title=THROUGHPUT if title == IN_STEPS and not found[THROUGHPUT] else title,
            unit=unit,
            top=100.0 if unit == "%" else None,
            width_s=width_ns / 1e9,
            lines=tuple(
                Line(label, line.columns(width_ns, -(-line.end_ns // width_ns)))
                for label, line in found[title]
            ),
        )
        for title, unit in _CHARTS.items()
        if found[title]
    )


def _place(line: tuple[tuple[str, str], Envelope]) -> tuple[bool, int, str]:
    """Order lines: this run first, then the machine, then its GPUs by their numbers."""
    (_, label), _ = line
    number = label.removeprefix("GPU ")
    return label != _OWN, int(number) if number.isdecimal() else -1, label


def _width_of(lines: Sequence[Envelope], values_beside: int) -> int:
    """Return how wide columns must be for a report that isn't too large."""
    longest_ns = max((line.end_ns for line in lines), default=0)
    hours = min(longest_ns / 3.6e12, _LONGEST_H)
    room = max(_FEWEST_VALUES, _VALUES + _VALUES_OF_AN_HOUR * hours - values_beside)
    width_ns = max((line.width_ns for line in lines), default=BUCKET_NS)
    while sum(3 * line.end_ns / width_ns for line in lines) > room:
        width_ns *= 2
    return width_ns
