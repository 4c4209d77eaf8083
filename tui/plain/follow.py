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
from rich.text import Text

from dlmon.comparison.compare import missing_part
from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER
from dlmon.launch.lifeline import Lifeline
from dlmon.records import Epoch, Machine, Notice, Phase, Record, Result, Status, to_json
from dlmon.records.sanitize import shown_path
from dlmon.session.follower import SessionFollower
from dlmon.session.session import STEADY_PHASES
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SLICE_S
from dlmon.stop import BY_CTRL_C, TERMINAL_CLOSED, VIEWER_TERMINATED
from tui.formatting import units
from tui.formatting.comparison import (
    epoch_text,
    epoch_word,
)
from tui.formatting.reading import reading_text
from tui.plain.console import line_console
from tui.plain.summary import print_outcome, print_problem
from tui.signals import on_signals

POLL_S = 0.2
# Longer than a supervisor takes to end a workload that is deaf to its signals.
STOP_S = 20.0
LINE_EVERY_S = 10.0


def follow(path: Path, launch: Lifeline | None, as_json: bool = False) -> int:
    """Follow a session to its end and return the exit code.

    Ctrl-C ends with 130, SIGTERM and SIGHUP with 1: a session of our own is stopped and its
    result printed, another's is left alone.

    Args:
        path: its log.
        launch: the supervisor that we hold the lifeline of; None when only attached.
        as_json: print nothing but the result, as JSON.
    """
    follower = SessionFollower(path, launch=launch)
    console = line_console()
    errors = line_console(stderr=True)
    reporter: _Reporter = _SilentReporter() if as_json else _LineReporter(console)
    if not as_json and console.is_terminal:
        reporter = _ProgressReporter(console)
    try:
        code_of_signal = asyncio.run(_Following(follower, launch, reporter, errors).run())
    finally:
        reporter.close()
        follower.close()
    if as_json:
        if follower.result is not None:
            print(json.dumps(to_json(follower.result)))
        print_problem(errors, follower, follower.snapshot(), is_result_printed=True)
    else:
        print_outcome(follower)
    if code_of_signal is not None:
        if follower.running and launch is not None:
            session, log = follower.session.header.id, shown_path(path)
            errors.print(Text(f"dlmon: {session} is still stopping; it is recorded in {log}"))
        return code_of_signal
    recorded = follower.why_result_unwritten is None
    return DONE if follower.status == Status.COMPLETED and recorded else FAILED


class _Following:
    """Polls a session; a signal to end stops it when it is ours, and leaves it when it isn't."""

    def __init__(
        self,
        follower: SessionFollower,
        launch: Lifeline | None,
        reporter: _Reporter,
        errors: Console,
    ) -> None:
        self._follower = follower
        self._launch = launch
        self._reporter = reporter
        self._errors = errors
        self._exit_code: int | None = None
        self._leave_at: float | None = None
        self._problem: str | None = None

    async def run(self) -> int | None:
        """Follow to the end; return the exit code of the signal that ended it, if one did."""
        on_signals(partial(self._end, BY_CTRL_C), [signal.SIGINT])
        on_signals(partial(self._end, VIEWER_TERMINATED), [signal.SIGTERM])
        on_signals(partial(self._end, TERMINAL_CLOSED), [signal.SIGHUP])
        while True:
            records = self._follower.poll(SLICE_S)
            self._reporter.show(records, self._follower)
            self._report_problem()
            if not self._follower.running and not records:
                break
            if self._leave_at is not None and time.monotonic() >= self._leave_at:
                break
            is_behind = self._follower.read_share is not None
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
        self._launch.send(word)
        if exit_code == INTERRUPTED_BY_USER:
            self._errors.print("dlmon: stopping after the current batch; Ctrl-C again to leave now")

    def _report_problem(self) -> None:
        problem = self._follower.problem if self._follower.running else None
        kind = problem.partition(" for ")[0] if problem else None
        if problem and kind != self._problem:
            self._errors.print(Text(f"dlmon: {problem}"))
        self._problem = kind


class _Reporter:
    """Prints what happens in a session."""

    def show(self, records: list[Record], follower: SessionFollower) -> None:
        """Print what is new."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the terminal as it was."""


class _SilentReporter(_Reporter):
    def show(self, records: list[Record], follower: SessionFollower) -> None:
        return


class _LineReporter(_Reporter):
    """One line for each event, and one every ten seconds.

    The epochs that follow those that were asked for (`--seconds`) may be many
    and short: those of ten seconds share a line.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = False
        self._extra: list[Epoch] = []
        self._has_extra_epochs = False
        self._next_at = time.monotonic() + LINE_EVERY_S

    def show(self, records: list[Record], follower: SessionFollower) -> None:
        header = follower.session.header
        if not self._begun:
            self._begun = True
            self._print(f"session {header.id}", header.wall)
            self._print(f"log {shown_path(follower.path)}", header.wall)
        for record in records:
            if self._is_of_extra_epochs(record, follower):
                self._take_extra(record, follower)
                continue
            line = _event(record, follower)
            if line is not None or isinstance(record, Result):
                self._print_extra_epochs(follower)
            if line is not None:
                self._print_event(line, _happened(record), follower)
        if not follower.running:
            self._print_extra_epochs(follower)
        if time.monotonic() >= self._next_at and follower.running:
            self._next_at = time.monotonic() + LINE_EVERY_S
            progress = reading_text(follower.read_share) or _progress_text(follower.snapshot())
            self._print(progress, time.time())

    def _is_of_extra_epochs(self, record: Record, follower: SessionFollower) -> bool:
        model = follower.session.model
        if isinstance(record, Epoch):
            return model is not None and record.epoch >= model.epochs
        unseen = (*STEADY_PHASES, "opening")
        return self._has_extra_epochs and isinstance(record, Phase) and record.name in unseen

    def _take_extra(self, record: Record, follower: SessionFollower) -> None:
        if isinstance(record, Epoch):
            self._has_extra_epochs = True
            self._extra.append(record)
            if record.end - self._extra[0].begin >= LINE_EVERY_S * 1e9:
                self._print_extra_epochs(follower)

    def _print_extra_epochs(self, follower: SessionFollower) -> None:
        if self._extra:
            self._print_event(_epochs_text(self._extra, follower), self._extra[-1].end, follower)
            self._extra = []

    def _print_event(self, line: str, t: int, follower: SessionFollower) -> None:
        header = follower.session.header
        self._print(line, header.wall + (t - header.t) / 1e9)
        self._next_at = time.monotonic() + LINE_EVERY_S

    def _print(self, line: str, wall: float) -> None:
        """Print a line after the time of its event."""
        self._console.print(Text(f"{units.time_of_day(wall)}  {line}"))
        self._console.file.flush()


class _ProgressReporter(_LineReporter):
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

    def show(self, records: list[Record], follower: SessionFollower) -> None:
        super().show(records, follower)
        reading = reading_text(follower.read_share)
        if reading:
            self._show_reading(reading)
            return
        snapshot = follower.snapshot()
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


def _event(record: Record, follower: SessionFollower) -> str | None:
    """Return the line for a record that is worth one."""
    if isinstance(record, Phase):
        if record.name == "opening" and record.epoch is not None:
            return f"opening {epoch_word(follower.session.header)} {record.epoch + 1}"
        return None if record.name in ("validating", "closing") else record.name
    if isinstance(record, Notice):
        return f"notice: {record.text}"
    return _epochs_text([record], follower) if isinstance(record, Epoch) else None


def _epochs_text(epochs: list[Epoch], follower: SessionFollower) -> str:
    """Say how long consecutive epochs took, and what the last of them ended with."""
    first, last = epochs[0], epochs[-1]
    metrics = "  ".join(
        f"{name} {value:.4g}" if value is not None else f"{name} {last.why.get(name, '–')}"
        for name, value in last.metrics.items()
    )
    took = units.seconds((last.end - first.begin) / 1e9)
    word = epoch_word(follower.session.header)
    if first is not last:
        cut_short = not last.whole and all(epoch.steps == last.steps for epoch in epochs)
        each = f" ({last.steps} steps each)" if cut_short else ""
        words = "passes" if word == "pass" else f"{word}s"
        return (
            f"{words} {first.epoch + 1} to {last.epoch + 1} took {took}{each}  {metrics}".rstrip()
        )
    part = "" if last.whole else f" ({last.steps} steps)"
    model = follower.session.model
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
