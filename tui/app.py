"""The terminal UI: which screen is shown, and what is left to say when it closes."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from dlmon.job import Refused
from dlmon.launch import Launch, launch
from dlmon.log import LogError
from dlmon.sanitize import clean
from dlmon.sessions import list_sessions
from dlmon.viewer import Viewer
from tui.jobs import make_job
from tui.screens.home import HomeScreen
from tui.screens.live import LiveScreen
from tui.screens.starting import StartingScreen
from tui.screens.watch import WatchScreen
from workloads.catalog import Workload

COMPLAINT_LENGTH = 400


class DlmonApp(App[int]):
    """dlmon on a screen.

    Args:
        directory: where sessions live.
        log: a session to show; without one the home screen opens.
        started: the lifeline of a session of ours; without `log` it has still to answer.
        watch_interval_s: watch the machine alone, sampling at this interval.
    """

    CSS_PATH = "dlmon.tcss"
    TITLE = "dlmon"
    ENABLE_COMMAND_PALETTE = False
    # Textual's own has priority, and would close the app over the question that a screen asks.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "quit", show=False)]
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares it on the instance
        (0, "-tiny"),
        (60, "-narrow"),
        (100, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-flat"),
        (16, "-short"),
        (32, "-tall"),
    ]

    def __init__(
        self,
        directory: Path,
        log: Path | None = None,
        started: Launch | None = None,
        watch_interval_s: float | None = None,
    ) -> None:
        """Open what the arguments say."""
        super().__init__()
        self._directory = directory
        self._viewer = Viewer(log) if log is not None else None
        self._launch = started
        self._watch_interval_s = watch_interval_s
        self._live: LiveScreen | None = None
        self._at_home = log is None and started is None and watch_interval_s is None
        self._refused: Refused | None = None
        self._launching = False

    def on_mount(self) -> None:
        """Show the first screen."""
        # Without this, a SIGTERM would leave the terminal in the alternate screen.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit, 1)
        if self._viewer is not None:
            self._show_session(self._viewer, self._launch)
        elif self._launch is not None:
            self.push_screen(StartingScreen(self._give_up))
            self.run_worker(self._await_answer(self._launch))
        elif self._watch_interval_s is not None:
            self.push_screen(WatchScreen(lambda: self.exit(0), self._watch_interval_s))
        else:
            entries = list_sessions(self._directory)
            self.push_screen(HomeScreen(entries, self.train))

    def run_to_exit_code(self) -> int:
        """Run the app, say what became of the session, and return the exit code."""
        code = self.run()
        if self._launch is not None:
            self._launch.release()
        if self._refused is not None:
            print(f"dlmon: {clean(self._refused.reason)}", file=sys.stderr)
        elif self._viewer is not None:
            self._say_goodbye()
        return self.return_code or 0 if code is None else code

    async def _await_answer(self, started: Launch) -> None:
        """Show the session once there is one; leave with the reason where there is none."""
        answer = await asyncio.to_thread(started.answer)
        if isinstance(answer, Refused):
            self._refused = answer
            self.exit(answer.exit_code)
            return
        self._viewer = Viewer(Path(answer.log))
        self.pop_screen()
        self._show_session(self._viewer, started)

    def _give_up(self) -> None:
        """Leave before the supervisor has answered; without its lifeline it starts nothing."""
        assert self._launch is not None
        self._launch.release()
        self.exit(130)

    def _show_session(self, viewer: Viewer, started: Launch | None) -> None:
        self._live = LiveScreen(viewer, started, list_sessions(self._directory), self._leave)
        self.push_screen(self._live)

    def _leave(self, interrupted: bool) -> None:
        """Close the live screen: back home where we came from there, else out."""
        assert self._viewer is not None
        if self._at_home:
            self.pop_screen()
            if self._launch is not None:
                self._launch.release()
            self._viewer.close()
            self._viewer = self._launch = self._live = None
            home = self.screen
            if isinstance(home, HomeScreen):
                home.show_entries(list_sessions(self._directory))
            return
        if interrupted:
            self.exit(130)
        elif self._viewer.running:
            self.exit(0)
        else:
            self.exit(0 if self._viewer.status == "completed" else 1)

    def train(self, workload: Workload) -> None:
        """Launch a workload from the home screen."""
        if not self._launching:
            self._launching = True
            self.run_worker(self._train(workload))

    async def _train(self, workload: Workload) -> None:
        try:
            started = launch(make_job(workload, self._directory))
            answer = await asyncio.to_thread(started.answer)
            if isinstance(answer, Refused):
                self._complain(answer.reason)
                return
            self._launch = started
            self._viewer = Viewer(Path(answer.log))
            self._show_session(self._viewer, started)
        except (LogError, OSError) as error:
            self._complain(str(error))
        finally:
            self._launching = False

    def _complain(self, reason: str) -> None:
        self.notify(clean(reason, COMPLAINT_LENGTH), severity="error", markup=False, timeout=10)

    def action_watch(self) -> None:
        """Show the machine alone."""

        def back() -> None:
            self.pop_screen()

        self.push_screen(WatchScreen(back))

    @property
    def _lifeline_cut(self) -> bool:
        """Whether a session of ours lost us without the word that it may go on."""
        return self._launch is not None and not (self._live is not None and self._live.detached)

    def _say_goodbye(self) -> None:
        """Leave one line in the shell: how the session stands and where it is recorded."""
        assert self._viewer is not None
        viewer = self._viewer
        viewer.poll()
        session = viewer.session.header.id
        if viewer.running and self._lifeline_cut:
            print(f"{session} is stopping; it is recorded in {viewer.path}")
        elif viewer.running:
            print(f"{session} is still running; dlmon attach {session} shows it")
        elif viewer.result is not None and viewer.result.error:
            print(f"dlmon: {session} failed: {viewer.result.error}", file=sys.stderr)
        else:
            print(f"{session} {viewer.status}; recorded in {viewer.path}")
        viewer.close()
