"""What is done with recorded sessions: compare, report, name and delete them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from dlmon.log.folder import LogError, id_of
from dlmon.records.sanitize import clean

if TYPE_CHECKING:
    from dlmon.session.figures import OnRead
    from tui.sessions.screen import SessionsScreen

ERROR_LENGTH = 400
LONG_S = 2.0


class RecordingsApp(App[int]):
    """The app as far as it works on what was recorded."""

    def is_running_sweep(self, log: Path) -> bool:
        """Return whether a log is of a sweep that we make: its lock would not keep us from it."""
        raise NotImplementedError

    def show_recordings_again(self) -> None:
        """Let the screens that show what is recorded show it as it is now."""
        raise NotImplementedError

    def on_sessions_screen_compare_requested(
        self, message: SessionsScreen.CompareRequested
    ) -> None:
        self.open_comparison(message.base, message.new)

    def open_comparison(self, base: Sequence[Path], new: Sequence[Path]) -> None:
        """Put two sides of recorded sessions beside each other, by their logs."""
        from tui.sessions.compare import CompareScreen

        self.push_screen(CompareScreen(base, new))

    def on_sessions_screen_report_requested(self, message: SessionsScreen.ReportRequested) -> None:
        self.run_worker(self._write_report(message.logs))

    async def _write_report(self, logs: Sequence[Path]) -> None:
        """Write a page about sessions into the working directory, and say where it is."""
        from tui.report.files import ReportError, write_file
        from tui.report.html import html_of
        from tui.report.report import make_report
        from tui.screens.reading import read_in_thread

        path = Path(time.strftime("dlmon-report-%Y%m%d-%H%M%S.html"))
        long_at = time.monotonic() + LONG_S

        def write(on_read: OnRead) -> None:
            write_file(path, [html_of(make_report(logs, (), on_read=on_read))])

        def show_once(share: float) -> None:
            nonlocal long_at
            if time.monotonic() >= long_at:
                long_at = float("inf")
                self.show_notice(f"reading the sessions for the report: {100 * share:.0f} %")

        try:
            await read_in_thread(write, show_once)
        except (ReportError, LogError) as error:
            self.show_error(str(error))
        else:
            self.show_notice(f"saved {path}")

    def on_sessions_screen_rename_requested(self, message: SessionsScreen.RenameRequested) -> None:
        """Keep what a session or a sweep is called, and show it."""
        from dlmon.sweep.log import relabel

        try:
            relabel(message.log, message.label)
        except LogError as error:
            self.show_error(str(error))
        self.show_recordings_again()

    def on_sessions_screen_delete_requested(self, message: SessionsScreen.DeleteRequested) -> None:
        self.run_worker(self._delete(message.logs))

    async def _delete(self, logs: Sequence[Path]) -> None:
        """Delete recordings, and show what is left."""
        from dlmon.log.prune import remove

        problems = []
        for log in logs:
            try:
                if self.is_running_sweep(log):
                    raise LogError(f"{id_of(log)} is running: stop it first")
                await asyncio.to_thread(remove, log)
            except LogError as error:
                problems.append(str(error))
        self.show_recordings_again()
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            self.show_error(problems[0] + more)

    def show_notice(self, sentence: str) -> None:
        """Show a sentence for a while."""
        self.notify(sentence, markup=False)

    def show_error(self, reason: str) -> None:
        """Show for a while why something can't be done."""
        self.notify(clean(reason, ERROR_LENGTH), severity="error", markup=False, timeout=10)
