"""Show a session without the screen: steady lines in a pipe, a progress line in a terminal."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from dlmon.comparison.compare import Row, missing_part
from dlmon.launch.lifeline import Launch
from dlmon.launch.sensing import Sensing
from dlmon.log.directory import INTERRUPTED, UNKNOWN, list_sessions
from dlmon.records import Epoch, Facts, Machine, Notice, Phase, Record, Result, RunSeconds, to_json
from dlmon.records.sanitize import clean, shown_path
from dlmon.session.follower import Viewer
from dlmon.session.machine_history import MachineHistory
from dlmon.session.session import STEADY_PHASES
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SLICE_S
from dlmon.stop import BY_CTRL_C, TERMINAL_CLOSED, VIEWER_TERMINATED
from tui.formatting import units
from tui.formatting.comparison import (
    basis_of_epoch,
    comparable_text,
    comparison_rows,
    device_text,
    earlier_sessions,
    epoch_text,
    epoch_word,
    match_of,
    metric_of,
    run_names,
    timed_unit,
    timing_of,
    unusual_settings,
    why_no_time,
)
from tui.formatting.comparison_row import peak_share
from tui.formatting.results import result_figures
from tui.formatting.sessions import reading_text
from tui.plain.console import line_console
from tui.plain.tables import print_table
from tui.signals import on_signals
from workloads.catalog import WORKLOADS

POLL_S = 0.2
# Longer than a supervisor takes to end a workload that is deaf to its signals.
STOP_S = 20.0
LINE_EVERY_S = 10.0
WIDTH_FOR_IDS = 100
# Of a line of the summary: a log may say anything.
LONGEST_TEXT = 1_000
SHOWN_OUTPUT = 20


def follow(path: Path, launch: Launch | None, as_json: bool = False) -> int:
    """Follow a session to its end and return the exit code.

    Ctrl-C ends with 130, SIGTERM and SIGHUP with 1: a session of our own is stopped and its
    result printed, another's is left alone.

    Args:
        path: its log.
        launch: the supervisor that we hold the lifeline of; None when only attached.
        as_json: print nothing but the result, as JSON.
    """
    viewer = Viewer(path, launch=launch)
    console = line_console()
    errors = line_console(stderr=True)
    lines: _Lines = _Silence() if as_json else _Steady(console)
    if not as_json and console.is_terminal:
        lines = _Live(console)
    try:
        code_of_signal = asyncio.run(_Following(viewer, launch, lines, errors).run())
    finally:
        lines.close()
        viewer.close()
    if as_json:
        if viewer.result is not None:
            print(json.dumps(to_json(viewer.result)))
        _print_trouble(errors, viewer, viewer.snapshot(), is_result_printed=True)
    else:
        print_outcome(viewer)
    if code_of_signal is not None:
        if viewer.running and launch is not None:
            session, log = viewer.session.header.id, shown_path(path)
            errors.print(Text(f"dlmon: {session} is still stopping; it is recorded in {log}"))
        return code_of_signal
    recorded = viewer.why_result_unwritten is None
    return 0 if viewer.status == "completed" and recorded else 1


def print_outcome(viewer: Viewer) -> None:
    """Print the figures of a session and its comparison, and what went wrong on stderr."""
    snapshot = viewer.snapshot()
    console = line_console()
    _print_summary(console, viewer, snapshot)
    console.file.flush()
    _print_trouble(line_console(stderr=True), viewer, snapshot)


def _print_trouble(
    errors: Console, viewer: Viewer, snapshot: Snapshot, is_result_printed: bool = False
) -> None:
    if viewer.why_result_unwritten is not None:
        errors.print(Text(unrecorded_result(viewer, is_result_printed)))
    elif viewer.trouble and viewer.status in (INTERRUPTED, UNKNOWN):
        path = shown_path(viewer.path)
        errors.print(Text(f"dlmon: {viewer.trouble}; {path} holds what was recorded"))
    elif snapshot.result is not None and snapshot.result.error:
        _print_failure(errors, snapshot)


def unrecorded_result(viewer: Viewer, is_printed: bool = False) -> str:
    """Say why the result is in no log; with the result, unless that is printed already."""
    assert viewer.result is not None
    told = f"dlmon: {viewer.trouble}"
    return told if is_printed else f"{told}; it is:\n{json.dumps(to_json(viewer.result))}"


class _Following:
    """Polls a session; a signal to end stops it when it is ours, and leaves it when it isn't."""

    def __init__(
        self, viewer: Viewer, launch: Launch | None, lines: _Lines, errors: Console
    ) -> None:
        self._viewer = viewer
        self._launch = launch
        self._lines = lines
        self._errors = errors
        self._exit_code: int | None = None
        self._leave_at: float | None = None
        self._trouble: str | None = None

    async def run(self) -> int | None:
        """Follow to the end; return the exit code of the signal that ended it, if one did."""
        on_signals(partial(self._end, BY_CTRL_C), {signal.SIGINT: 130})
        on_signals(partial(self._end, VIEWER_TERMINATED), {signal.SIGTERM: 1})
        on_signals(partial(self._end, TERMINAL_CLOSED), {signal.SIGHUP: 1})
        while True:
            records = self._viewer.poll(SLICE_S)
            self._lines.show(records, self._viewer)
            self._tell_trouble()
            if not self._viewer.running and not records:
                break
            if self._leave_at is not None and time.monotonic() >= self._leave_at:
                break
            is_behind = self._viewer.read_share is not None
            await asyncio.sleep(0 if records or is_behind else POLL_S)
        if self._launch is not None:
            self._launch.release()
        return self._exit_code

    def _end(self, word: str, exit_code: int) -> None:
        """Stop a session of ours and wait for its result; leave at once when asked again.

        Args:
            word: says on the lifeline who asked.
            exit_code: what to exit with.
        """
        again, self._exit_code = self._exit_code is not None, exit_code
        if self._launch is None or again:
            self._leave_at = time.monotonic()
            return
        self._leave_at = time.monotonic() + STOP_S
        self._launch.say(word)
        if exit_code == 130:
            self._errors.print("dlmon: stopping after the current batch; Ctrl-C again to leave now")

    def _tell_trouble(self) -> None:
        trouble = self._viewer.trouble if self._viewer.running else None
        kind = trouble.partition(" for ")[0] if trouble else None
        if trouble and kind != self._trouble:
            self._errors.print(Text(f"dlmon: {trouble}"))
        self._trouble = kind


class _Lines:
    """Where what happens in a session is told."""

    def show(self, records: list[Record], viewer: Viewer) -> None:
        """Tell what is new."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the terminal as it was."""


class _Silence(_Lines):
    def show(self, records: list[Record], viewer: Viewer) -> None:
        return


class _Steady(_Lines):
    """One line for each event, and one every ten seconds.

    The epochs that follow those that were asked for (`--seconds`) may be many
    and short: those of ten seconds share a line.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = False
        self._extra: list[Epoch] = []
        self._beyond_asked = False
        self._next_at = time.monotonic() + LINE_EVERY_S

    def show(self, records: list[Record], viewer: Viewer) -> None:
        header = viewer.session.header
        if not self._begun:
            self._begun = True
            self._print(f"session {header.id}", header.wall)
            self._print(f"log {shown_path(viewer.path)}", header.wall)
        for record in records:
            if self._is_of_extra_epochs(record, viewer):
                self._take_extra(record, viewer)
                continue
            line = _event(record, viewer)
            if line is not None or isinstance(record, Result):
                self._tell_extra(viewer)
            if line is not None:
                self._tell(line, _happened(record), viewer)
        if not viewer.running:
            self._tell_extra(viewer)
        if time.monotonic() >= self._next_at and viewer.running:
            self._next_at = time.monotonic() + LINE_EVERY_S
            told = reading_text(viewer.read_share) or _progress_text(viewer.snapshot())
            self._print(told, time.time())

    def _is_of_extra_epochs(self, record: Record, viewer: Viewer) -> bool:
        model = viewer.session.model
        if isinstance(record, Epoch):
            return model is not None and record.epoch >= model.epochs
        unseen = (*STEADY_PHASES, "opening")
        return self._beyond_asked and isinstance(record, Phase) and record.name in unseen

    def _take_extra(self, record: Record, viewer: Viewer) -> None:
        if isinstance(record, Epoch):
            self._beyond_asked = True
            self._extra.append(record)
            if record.end - self._extra[0].begin >= LINE_EVERY_S * 1e9:
                self._tell_extra(viewer)

    def _tell_extra(self, viewer: Viewer) -> None:
        if self._extra:
            self._tell(_epochs_text(self._extra, viewer), self._extra[-1].end, viewer)
            self._extra = []

    def _tell(self, line: str, t: int, viewer: Viewer) -> None:
        header = viewer.session.header
        self._print(line, header.wall + (t - header.t) / 1e9)
        self._next_at = time.monotonic() + LINE_EVERY_S

    def _print(self, line: str, wall: float) -> None:
        """Print a line with the time at which what it tells of happened."""
        self._console.print(Text(f"{units.time_of_day(wall)}  {line}"))
        self._console.file.flush()


class _Live(_Steady):
    """The same lines above a progress bar that stays at the bottom."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}", markup=False),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("starting", total=1.0, figures="")
        self._progress.start()
        self._reading = ""

    def show(self, records: list[Record], viewer: Viewer) -> None:
        super().show(records, viewer)
        reading = reading_text(viewer.read_share)
        if reading:
            self._show_reading(reading)
            return
        snapshot = viewer.snapshot()
        progress = snapshot.progress
        self._progress.update(
            self._task,
            completed=progress.epoch_fraction if progress else 0.0,
            description=snapshot.phase or "starting",
            figures=_progress_text(snapshot),
        )
        self._progress.refresh()

    def _show_reading(self, reading: str) -> None:
        if reading != self._reading:
            self._reading = reading
            self._progress.update(self._task, description=reading, figures="")
            self._progress.refresh()

    def close(self) -> None:
        self._progress.stop()


def _happened(record: Record) -> int:
    """Return when what is worth a line happened, by the clock of the session's machine."""
    if isinstance(record, Epoch):
        return record.end
    return record.t if isinstance(record, (Phase, Notice)) else 0


def _event(record: Record, viewer: Viewer) -> str | None:
    """Return the line for a record that is worth one."""
    if isinstance(record, Phase):
        if record.name == "opening" and record.epoch is not None:
            return f"opening {epoch_word(viewer.session.header)} {record.epoch + 1}"
        return None if record.name in ("validating", "closing") else record.name
    if isinstance(record, Notice):
        return f"notice: {record.text}"
    return _epochs_text([record], viewer) if isinstance(record, Epoch) else None


def _epochs_text(epochs: list[Epoch], viewer: Viewer) -> str:
    """Say how long consecutive epochs took, and what the last of them ended with."""
    first, last = epochs[0], epochs[-1]
    metrics = "  ".join(
        f"{name} {value:.4g}" if value is not None else f"{name} {last.why.get(name, '–')}"
        for name, value in last.metrics.items()
    )
    took = units.seconds((last.end - first.begin) / 1e9)
    word = epoch_word(viewer.session.header)
    if first is not last:
        cut_short = not last.whole and all(epoch.steps == last.steps for epoch in epochs)
        each = f" ({last.steps} steps each)" if cut_short else ""
        words = "passes" if word == "pass" else f"{word}s"
        return (
            f"{words} {first.epoch + 1} to {last.epoch + 1} took {took}{each}  {metrics}".rstrip()
        )
    part = "" if last.whole else f" ({last.steps} steps)"
    model = viewer.session.model
    of = max(model.epochs_in_all, last.epoch + 1) if model else "?"
    return f"{word} {last.epoch + 1}/{of} took {took}{part}  {metrics}".rstrip()


def _progress_text(snapshot: Snapshot) -> str:
    parts = []
    progress = snapshot.progress
    if progress is not None:
        parts.append(epoch_text(snapshot))
        parts.append(f"step {progress.step:,}/{progress.steps:,}")
    if snapshot.samples_per_second_now is not None:
        parts.append(f"{units.rate(snapshot.samples_per_second_now)} samples/s")
    if snapshot.seconds_per_epoch is not None:
        missing = missing_part(snapshot.seconds_per_epoch, snapshot.why)
        left_out = f" without {missing}" if missing else ""
        parts.append(f"{units.band(snapshot.seconds_per_epoch)} an epoch{left_out}")
    parts.extend(_machine_parts(snapshot.machine))
    if progress is not None and progress.run_left_s is not None:
        parts.append(units.time_left(progress.run_left_s))
    return "  ".join(parts) or (snapshot.phase or "starting")


def _machine_parts(machine: Machine | None) -> list[str]:
    if machine is None:
        return []
    parts = [f"CPU {units.percent(machine.cpu.pct)}"] if machine.cpu else []
    parts.extend(
        f"GPU {gpu.index} {units.percent(gpu.utilization_pct)}" for gpu in machine.gpus or ()
    )
    return parts


def _print_summary(console: Console, viewer: Viewer, snapshot: Snapshot) -> None:
    console.print()
    table = Table.grid(padding=(0, 2))
    for name, text in _summary(viewer, snapshot):
        table.add_row(Text(name, style="dim"), Text(clean(text, LONGEST_TEXT)))
    print_table(console, table)
    _print_comparison(console, viewer, snapshot)


def _summary(viewer: Viewer, snapshot: Snapshot) -> list[tuple[str, str]]:
    model, result = snapshot.model, snapshot.result
    why = snapshot.why | (result.why if result is not None else {})
    rows = [("workload", snapshot.header.workload)]
    if model is not None:
        rows.append(("device", device_text(snapshot)))
        rows.append(("data", model.data or "–"))
    unusual = unusual_settings(snapshot.header.options)
    if unusual:
        rows.append(("settings", ", ".join(unusual)))
    rows.append(("status", viewer.status))
    timing = timing_of(snapshot)
    if snapshot.run_seconds is not None and timing is snapshot.run_seconds:
        rows.append(("whole run", _run_text(snapshot.run_seconds, snapshot)))
    if snapshot.seconds_per_epoch is not None:
        rows.append(("seconds per epoch", _epoch_text(snapshot)))
    elif metric_of(snapshot) != "step_ms":
        rows.append(("seconds per epoch", f"– ({why_no_time(snapshot, viewer.status)})"))
    if snapshot.samples_per_second is not None:
        rows.append(("throughput", units.throughput(snapshot.samples_per_second)))
    else:
        rows.append(("throughput", f"– ({why.get('samples_per_second', '')})"))
    if snapshot.step_ms is not None:
        step = snapshot.step_ms
        mean = "" if step.mean is None else f"mean {step.mean:.3g} ms, "
        told = f"{mean}median {step.median:.3g} ms, 95 % within {step.p95:.3g} ms"
        rows.append(("step", told))
    if snapshot.compile_s is not None:
        rows.append(("compile", units.seconds(snapshot.compile_s)))
    if snapshot.stalls:
        rows.append(("stalls", _stalls(snapshot.stalls, snapshot.opening_stalls or 0)))
    if snapshot.limit is not None:
        rows.append(("what limits it", snapshot.limit.text))
    if snapshot.header.workload in WORKLOADS:
        rows.append(("published", comparable_text(match_of(snapshot))))
    if result is not None:
        rows.append(("wall", units.seconds(result.wall_s)))
        rows.extend(result_figures(result))
    return rows


def _stalls(count: int, openings: int) -> str:
    batches, starts = count - openings, openings
    told = []
    if batches:
        told.append("1 batch" if batches == 1 else f"{batches:,} batches")
    if starts:
        told.append("the start of 1 epoch" if starts == 1 else f"the start of {starts:,} epochs")
    return f"{' and '.join(told)} took over ten times the median batch"


def _epoch_text(snapshot: Snapshot) -> str:
    timing = snapshot.seconds_per_epoch
    assert timing is not None
    missing = missing_part(timing, snapshot.why)
    left_out = f", without {missing}" if missing else ""
    return f"{units.band(timing)} ({basis_of_epoch(timing, snapshot.compile_s)}{left_out})"


def _run_text(timing: RunSeconds, snapshot: Snapshot) -> str:
    if not timing.projected:
        return units.band(timing)
    missing = missing_part(timing, snapshot.why)
    left_out = f", without {missing}" if missing else ""
    return f"{units.band(timing)} (projected{left_out})"


def _print_comparison(console: Console, viewer: Viewer, snapshot: Snapshot) -> None:
    entries = earlier_sessions(list_sessions(viewer.path.parent.parent), snapshot.header)
    rows = comparison_rows(snapshot, entries)
    if not rows:
        return
    console.print()
    names = run_names(snapshot, entries)
    priced = any(row.kind == "this" and row.cost_usd is not None for row in rows)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("device")
    table.add_column(timed_unit(rows[0].metric), justify="right")
    if priced:
        table.add_column("USD", justify="right")
    table.add_column("year")
    table.add_column("of peak", justify="right")
    table.add_column("framework")
    table.add_column("")
    # An id is copied into a command, so it stands only where it is not broken.
    ids = not console.is_terminal or console.width >= WIDTH_FOR_IDS
    for row in rows:
        own = [row.session] if ids and row.kind == "earlier" and row.session else []
        table.add_row(
            {"this": "▶", "earlier": "·", "published": " "}[row.kind],
            Text(clean(names.get(row.session or "", row.label), LONGEST_TEXT)),
            ("~ " if row.projected else "") + units.duration(row),
            *([_cost(row)] if priced else []),
            str(row.year or ""),
            _share(row),
            Text(clean(row.framework or "", LONGEST_TEXT)),
            Text(clean("; ".join([*own, *row.badges]), LONGEST_TEXT), style="dim"),
            style="bold" if row.kind == "this" else "" if row.comparable else "dim",
        )
    print_table(console, table)


def _share(row: Row) -> str:
    share = peak_share(row.published)[0] if row.published else None
    return "" if share is None else units.share(share)


def _cost(row: Row) -> str:
    cost = row.cost_usd
    return "" if cost is None else units.dollars(cost).removesuffix(" USD")


def _print_failure(errors: Console, snapshot: Snapshot) -> None:
    assert snapshot.result is not None
    for line in snapshot.output[-SHOWN_OUTPUT:]:
        errors.print(Text(line.text, style="dim"))
    errors.print(Text(f"dlmon: {snapshot.header.workload} failed: {snapshot.result.error}"))


def watch_machine(interval_s: float, pcie: bool = False) -> int:
    """Print a line for each sample of this machine until interrupted; return the exit code."""
    return asyncio.run(_Watching(interval_s, pcie).run())


class _Watching:
    """Prints samples until Ctrl-C, or until nobody reads them any more."""

    def __init__(self, interval_s: float, pcie: bool) -> None:
        self._console = line_console()
        self._errors = line_console(stderr=True)
        self._history = MachineHistory(interval_s)
        self._sensing = Sensing(
            interval_s, self._tell_facts, self._tell_sample, self._complain, pcie=pcie
        )
        self._ended = asyncio.Event()
        self._exit_code = 0
        self._unwritable: OSError | None = None

    async def run(self) -> int:
        on_signals(self._end, {signal.SIGINT: 130, signal.SIGTERM: 1, signal.SIGHUP: 1})
        self._sensing.start()
        try:
            await self._ended.wait()
        finally:
            self._sensing.close()
        if self._unwritable is not None:
            raise self._unwritable
        return self._exit_code

    def _end(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self._ended.set()

    def _tell_facts(self, facts: Facts) -> None:
        self._print(_facts_line(facts))

    def _tell_sample(self, sample: Machine) -> None:
        self._history.fold(sample)
        self._print(_machine_line(self._history.latest))

    def _complain(self, text: str) -> None:
        self._errors.print(Text(f"dlmon: {text}"))

    def _print(self, line: str) -> None:
        try:
            self._console.print(Text(line))
            self._console.file.flush()
        except OSError as error:
            self._unwritable = error
            self._ended.set()


def _facts_line(facts: Facts) -> str:
    machine = facts.machine
    gpus = ", ".join(gpu.name for gpu in machine.gpus or ())
    cores = f"{machine.cores} cores" if machine.cores else "cores unknown"
    return (
        f"{facts.host}: {machine.cpu_model or 'CPU'}, {cores}, "
        f"{units.gibibytes(machine.memory_mib)}; "
        f"GPU: {gpus or machine.why.get('gpus', 'none')}"
    )


def _machine_line(machine: Machine | None) -> str:
    if machine is None:
        return "no sample yet"
    parts = [time.strftime("%H:%M:%S", time.localtime(machine.wall))]
    parts.extend(_machine_parts(machine)[:1])
    if machine.memory is not None:
        parts.append(f"memory {units.gibibytes(machine.memory.used_mib)}")
    for gpu in machine.gpus or ():
        power = "–" if gpu.power_w is None else f"{gpu.power_w:.0f} W"
        heat = "–" if gpu.temperature_c is None else f"{gpu.temperature_c} °C"
        parts.append(
            f"GPU {gpu.index} {units.percent(gpu.utilization_pct)} "
            f"{units.gibibytes(gpu.memory_used_mib)} {power} {heat}"
        )
    return "  ".join(parts)
