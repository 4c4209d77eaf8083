"""Make rows for a tracker out of the records of a session. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from dlmon.quantities import QUANTITIES, value_of
from dlmon.records import Batches, BatchSummary, Record, SessionHeader, StepParts
from dlmon.records.record import record
from dlmon.records.training import STEP_PARTS
from dlmon.records.words import STEPS_PER_S
from dlmon.session.effective import share_over_time
from dlmon.session.learning import MetricReadings, Pass
from dlmon.session.marks import Mark
from dlmon.session.running_time import RunningTime
from dlmon.session.session import Session, time_of
from dlmon.statistics.series import Series

PREFIX = "dlmon/"
WINDOW_NS = 5_000_000_000
"""The time that each row of rates and readings is the mean of."""
MOST_NAMES = 256
MOST_MARKS = MOST_FACTS = 100
_LONGEST_NAME, _LONGEST_TEXT = 200, 5000
_PEAK_EVERY = 12
_BEFORE = {Pass.TRAINING: "", Pass.VALIDATION: "val_", Pass.EVALUATION: "test_"}


class Row(NamedTuple):
    """The values of one moment.

    Attributes:
        number: counts the rows of a session, always in the same way.
        wall: the time in Unix seconds.
        step: the number of training batches that had ended.
        values: by name, with the unit at its end.
    """

    number: int
    wall: float
    step: int
    values: dict[str, float]


@record(frozen=True)
class FinalFigures:
    """The end of a session: its final figures, and what else is known of it."""

    figures: dict[str, float]
    facts: dict[str, str]
    status: str


def safe_name(name: str) -> str:
    """Return a name that each tracker takes; any text may be a metric's name."""
    return PREFIX + (re.sub(r"[^A-Za-z0-9_.\-/ ]", "_", name[:_LONGEST_NAME]).strip("/ ") or "_")


def facts_of(header: SessionHeader) -> dict[str, str]:
    """Return what is known of a session at its start; arguments may hold keys, and are left out."""
    machine = header.machine
    facts = {
        "session": header.id,
        "host": header.host,
        "script": header.workload,
        "cpu": machine.cpu_model,
        "gpus": ", ".join(gpu.name for gpu in machine.gpus or ()),
        "git_commit": header.git_commit,
        "version": header.versions.get("dlmon"),
        **{f"option/{name}": value for name, value in header.settings.items()},
    }
    return _texts(facts)


def _texts(facts: Mapping[str, Any]) -> dict[str, str]:
    return {
        safe_name(name): str(value)[:_LONGEST_TEXT]
        for name, value in islice(facts.items(), MOST_FACTS)
        if value not in (None, "")
    }


class SessionRows:
    """Folds the records of a session into rows: the same records make the same rows."""

    def __init__(self, header: SessionHeader) -> None:
        self._header = header
        self._session = Session(header)
        self._running_time, self._readings = RunningTime(), MetricReadings()
        self.names: set[str] = set()
        self.names_left_out: set[str] = set()
        """Some of the names beyond `MOST_NAMES`, which are in no row."""
        self._rows = self._windows = 0
        self._begin_ns = header.t
        self._steps = 0
        self._peak_pct_per_rate: tuple[Series, float] | None = None
        self._begin_window()

    def _begin_window(self) -> None:
        self._batches = self._batches_us = 0
        self._wait_us: int | None = 0
        self._parts: dict[str, int] = {}
        self._part_steps = 0

    def add(self, record: Record) -> Iterator[Row]:
        """Add a record, and yield the rows that it completes."""
        for running in self._running_time.of_all([record]):
            t = time_of(running)
            while t is not None and t >= self._begin_ns + WINDOW_NS:
                end_ns = self._begin_ns + WINDOW_NS
                yield from self._row(end_ns, self._window(end_ns))
                # After a pause, skip to the window of this record.
                self._begin_ns = max(end_ns, t - (t - end_ns) % WINDOW_NS)
            self._count(running)
            of_times: dict[int, dict[str, float | None]] = {}
            for reading in self._readings.add(running):
                if not reading.trainer:
                    values = of_times.setdefault(reading.t, {})
                    values[_BEFORE[reading.of] + reading.metric] = reading.value
            for at_ns, values in of_times.items():
                yield from self._row(at_ns, values)
        self._session.add(record)

    def finish(self) -> Iterator[Row]:
        """Yield the row of the last, shorter window."""
        end_ns = max(self._begin_ns + 1, self._session.last_t)
        yield from self._row(end_ns, self._window(end_ns))
        self._begin_ns = end_ns

    def _row(self, t: int, values: Mapping[str, float | None]) -> Iterator[Row]:
        known: dict[str, float] = {}
        for name, value in values.items():
            safe = safe_name(name)
            if value is None or not math.isfinite(value):
                continue
            if safe in self.names or len(self.names) < MOST_NAMES:
                self.names.add(safe)
                known[safe] = value
            elif len(self.names_left_out) < MOST_NAMES:
                self.names_left_out.add(safe)
        if known:
            suspended_ns = self._running_time.suspended_ns
            wall = self._header.wall + (t + suspended_ns - self._header.t) / 1e9
            self._rows += 1
            yield Row(self._rows, wall, self._steps, known)

    def _count(self, record: Record) -> None:
        if isinstance(record, (Batches, BatchSummary)) and not record.trainer:
            self._steps += record.count
            if getattr(record, "profiled", None):
                return
            self._batches += record.count
            self._batches_us += record.time_us
            unknown = record.wait_us is None or self._wait_us is None
            self._wait_us = None if unknown else (self._wait_us or 0) + (record.wait_us or 0)
        elif isinstance(record, StepParts) and not record.trainer:
            self._part_steps += record.steps
            for name in STEP_PARTS:
                if (part_us := getattr(record, name)) is not None:
                    self._parts[name] = self._parts.get(name, 0) + part_us

    def _window(self, end_ns: int) -> dict[str, float | None]:
        """Return the mean of each quantity since the last window, and begin the next one."""
        session, machine = self._session, self._session.machine
        if self._windows % _PEAK_EVERY == 0 or self._peak_pct_per_rate is None:
            self._peak_pct_per_rate = share_over_time(session) if self._batches else None
        self._windows += 1
        series = {
            f"{self._counted}_per_second": session.throughput,
            "tokens_per_second": session.tokens_rate,
            "cpu_pct": machine.cpu_pct,
            "run_cpu_pct": machine.run_cpu_pct,
            "cpu_power_w": machine.cpu_power_w,
            "memory_mib": machine.memory_mib,
            "tensors_mib": session.memory.allocated_mib,
        }
        of_gpus = {
            "utilization_pct": machine.gpu_utilization_pct,
            "memory_mib": machine.gpu_memory_mib,
            "power_w": machine.gpu_power_w,
            "temperature_c": machine.gpu_temperature_c,
            **machine.gpu_activity,
        }
        series |= {f"gpu{n}/{name}": s for name, each in of_gpus.items() for n, s in each.items()}
        values = {name: s.mean_between(self._begin_ns, end_ns) for name, s in series.items()}
        if self._peak_pct_per_rate is not None:
            rates, pct_per_rate = self._peak_pct_per_rate
            rate = rates.mean_between(self._begin_ns, end_ns)
            values["peak_pct"] = None if rate is None else rate * pct_per_rate
        if self._batches_us:
            values["step_ms"] = self._batches_us / 1000 / self._batches
            if self._wait_us is not None:
                values["data_wait_pct"] = 100 * self._wait_us / self._batches_us
        for name, part_us in self._parts.items() if self._part_steps else ():
            values[f"step/{name[:-3]}_ms"] = part_us / 1000 / self._part_steps
        self._begin_window()
        return values

    @property
    def _counted(self) -> str:
        return "steps" if self._session.throughput_unit == STEPS_PER_S else "samples"

    def outcome(self) -> FinalFigures:
        """Return the final figures: of the result, or if there is none of what was read."""
        session, result = self._session, self._session.result
        snapshot = session.snapshot(is_over=True)
        figures = {}
        for key in (quantity.key for quantity in QUANTITIES):
            for source in (result, snapshot):
                value = None if source is None else value_of(source, key)
                if isinstance(value, (int, float)) and math.isfinite(value):
                    name = key.replace(".", "_").replace("samples_per", f"{self._counted}_per")
                    figures[safe_name(f"final/{name}")] = float(value)
                    break
        facts = {
            "device": getattr(result, "device_name", None) or getattr(result, "device", None),
            "doubts": "; ".join((result.against or {}).values()) if result is not None else None,
            "marks": "; ".join(dict.fromkeys(map(self._mark_text, session.marks[-MOST_MARKS:]))),
        }
        status = "interrupted" if result is None else result.status.value
        return FinalFigures(figures, _texts(facts | {"status": status}), status)

    def _mark_text(self, mark: Mark) -> str:
        at = f"{(mark.t - self._header.t) / 1e9:.0f} s {mark.kind.value}"
        number = "" if mark.number is None else f" {mark.number:g}"
        return f"{at}{number} {mark.text}".rstrip()
