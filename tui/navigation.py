"""Which screen is shown: sessions, sweeps and the machine, opened, launched and left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.screen import Screen

from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER
from dlmon.launch.job import Job, Refused, Started
from dlmon.log.directory import SessionEntry, list_sessions, log_directory
from dlmon.log.folder import LogError
from dlmon.records import Status
from dlmon.records.sanitize import clean
from dlmon.session.source import SLICE_S, MachineSource, read_to_end
from dlmon.stop import TERMINAL_CLOSED
from tui.formatting.reading import reading_text
from tui.options.jobs import make_job, recorded_options
from tui.options.run import RunOptions
from tui.options.settings import Settings
from workloads.catalog import WORKLOADS, Workload

# Each screen, and what it shows, is imported when it is first shown: a start pays for one only.
if TYPE_CHECKING:
    from dlmon.launch.lifeline import Lifeline
    from dlmon.session.follower import SessionFollower
    from dlmon.sweep.runner import SweepRun
    from tui.home.screen import HomeScreen
    from tui.live.screen import LiveScreen
    from tui.screens.base import BaseScreen
    from tui.screens.starting import StartingScreen
    from tui.sessions.screen import SessionsScreen
    from tui.sweep.screen import SweepScreen

# The workers that read a log, of which there is one at most.
_READING = "reading"
ERROR_LENGTH = 400

# Below it in the stack lies the blank screen that every Textual app begins with.
_FIRST_SCREEN = 1


def _follow(log: Path, launch: Lifeline | None = None) -> SessionFollower:
    from dlmon.session.follower import SessionFollower

    return SessionFollower(log, launch=launch)


def _this_machine(interval_s: float = 1.0, pcie: bool = False) -> MachineSource:
    from dlmon.session.local_machine import LocalMachine

    return LocalMachine(interval_s, pcie)


def _launch(job: Job) -> Lifeline:
    from dlmon.launch.lifeline import launch

    return launch(job)


@dataclass(frozen=True)
class Sources:
    """Where the screens get what they show, and what starts a run; a test hands in its own."""

    follow: Callable[..., SessionFollower] = _follow
    machine: Callable[..., MachineSource] = _this_machine
    launch: Callable[[Job], Lifeline] = _launch


@dataclass
class ShownSession:
    """A session on the stack of screens, with its lifeline where it is ours."""

    follower: SessionFollower
    launch: Lifeline | None
    screen: LiveScreen

    @property
    def needs_us(self) -> bool:
        """Whether it would stop if we left without a word."""
        return self.launch is not None and self.follower.running and not self.screen.detached


@dataclass(frozen=True)
class _Starting:
    """A launch that its supervisor has still to answer, and the session that it will replace."""

    launch: Lifeline
    detach: bool = False
    replaces: ShownSession | None = None


class NavigatingApp(App[int]):
    """The app as far as it goes from screen to screen.

    Args:
        directory: where sessions live.
        settings: the user's own defaults.
        log: a session to show first; without one the home screen opens.
        started: the lifeline of a session of ours; without `log` it has still to answer.
        watch_interval_s: watch the machine alone, sampling at this interval.
        sweep: make the runs of a sweep, and show them.
        sources: where the screens get what they show.
        ansi_color: use the terminal's own colours.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        log: Path | None = None,
        started: Lifeline | None = None,
        watch_interval_s: float | None = None,
        sweep: SweepRun | None = None,
        sources: Sources | None = None,
        ansi_color: bool | None = None,
    ) -> None:
        """Read the session's header, where one is to be shown."""
        super().__init__(ansi_color=ansi_color)
        self.settings = settings
        self._directory = directory
        self._sources = sources or Sources()
        self._first_follower = None
        if log is not None:
            self._first_follower = self._sources.follow(log, launch=started)
        self._first_launch = started
        self._watch_interval_s = watch_interval_s
        self._sweep = sweep
        self._sweeps: list[SweepRun] = []
        self._sweep_screen: SweepScreen | None = None
        self._shown: list[ShownSession] = []
        self._refused: Refused | None = None
        self._starting: _Starting | None = None
        self._starting_screen: StartingScreen | None = None
        self._being_read: SessionFollower | None = None
        self._home: HomeScreen | None = None

    def show_first_screen(self) -> None:
        """Show what the arguments say."""
        if self._first_follower is not None:
            self._read_session(self._first_follower)
        elif self._first_launch is not None:
            self._await_session(_Starting(self._first_launch))
        elif self._sweep is not None:
            self._show_sweep(self._sweep)
        elif self._watch_interval_s is not None:
            self._show_machine(self._watch_interval_s)
        else:
            self._show_home()

    def report_closed_terminal(self) -> None:
        """Give the supervisors that will stop with us the reason."""
        for shown in self._shown:
            if shown.launch is not None and shown.needs_us:
                shown.launch.send(TERMINAL_CLOSED)

    def release(self) -> None:
        """Let go of every lifeline: what was not left running on purpose stops."""
        if self._starting is not None:
            self._starting.launch.release()
        for shown in self._shown:
            if shown.launch is not None:
                shown.launch.release()

    def _show_home(self) -> None:
        from tui.home.screen import HomeScreen

        settings = self.settings
        machine = self._sources.machine(pcie=settings.run.pcie)
        self._home = HomeScreen(machine, settings.run)
        self.push_screen(self._home)
        self._read_sessions_for_home()

    def _read_sessions_for_home(self) -> None:
        if self._home is not None:
            self._read_sessions(self._directory, self._home.show_entries)

    def _show_machine(self, interval_s: float) -> None:
        from tui.watch.screen import WatchScreen

        settings = self.settings
        machine = self._sources.machine(interval_s, pcie=settings.run.pcie)
        self.push_screen(WatchScreen(machine))

    def _show_sweep(self, run: SweepRun) -> None:
        """Show a sweep, which begins to make its runs."""
        from tui.sweep.screen import SweepScreen

        self._sweep, self._sweep_screen = run, SweepScreen(run)
        self._sweeps.append(run)
        self.push_screen(self._sweep_screen)

    def on_sweep_screen_session_requested(self, message: SweepScreen.SessionRequested) -> None:
        self._open(message.log)

    def on_sweep_screen_left(self, message: SweepScreen.Left) -> None:
        """Close a sweep: back to where it was opened from, else out."""
        if message.screen is self.screen_stack[_FIRST_SCREEN]:
            self.exit(INTERRUPTED_BY_USER if message.interrupted else message.run.exit_code)
            return
        if self._sweep is message.run:
            self._sweep = self._sweep_screen = None
        self._uncover(message.screen)
        self.pop_screen()
        self._read_sessions_for_home()

    def _resume_sweep(self, path: Path) -> None:
        """Go on with a recorded sweep, or go back to it where it is shown already."""
        from dlmon.sweep.log import SweepWriter, read_sweep
        from dlmon.sweep.plan import SweepError
        from tui.options.sweep import check_plan, run_of

        if self._sweep_screen is not None and self._sweep_screen.path == path:
            self._uncover(self._sweep_screen)
            return
        if self._is_busy():
            return
        try:
            check_plan(read_sweep(path)[1].plan)
            run = run_of(SweepWriter.resume(path, time.time()))
        except (LogError, SweepError) as error:
            self.show_error(str(error))
        else:
            self._show_sweep(run)

    def on_home_screen_sweep_requested(self, message: HomeScreen.SweepRequested) -> None:
        """Begin a sweep from the home screen."""
        if self.screen is self._home:  # of a key that comes twice at once, the second came too late
            self.sweep(message.workload, message.options)

    def sweep(self, workload: Workload, options: RunOptions) -> None:
        """Ask what is to be varied in runs of a workload, and begin to make them."""
        from dlmon.sweep.log import SweepWriter, new_header
        from dlmon.sweep.plan import Plan, SweepError
        from tui.options.sweep import make_plan, new_seed, run_of
        from tui.sweep.form import SweepForm

        if self._is_busy():
            return
        seed = new_seed()

        def plan_of(vary: list[str], repeats: int) -> Plan:
            return make_plan(workload.name, options, vary, repeats, seed)

        def start(plan: Plan | None) -> None:
            if plan is None or self._is_busy():
                return
            try:
                chosen = options.log_dir
                directory = self._directory if chosen is None else log_directory(Path(chosen))
                header = new_header(plan, seed, time.time())
                run = run_of(SweepWriter.create(directory, header))
            except (LogError, SweepError) as error:
                self.show_error(str(error))
            else:
                self._show_sweep(run)

        self.push_screen(SweepForm(workload.name, plan_of), start)

    def on_home_screen_train_requested(self, message: HomeScreen.TrainRequested) -> None:
        """Launch a workload from the home screen."""
        self.train(message.workload, message.options)

    def train(self, workload: Workload, options: RunOptions) -> None:
        self._launch(workload, options, self._directory)

    def _launch(
        self,
        workload: Workload,
        options: RunOptions,
        directory: Path,
        replaces: ShownSession | None = None,
    ) -> None:
        if self._is_busy():
            return
        try:
            started = self._sources.launch(make_job(workload, directory, options))
        except (LogError, OSError) as error:
            self.show_error(str(error))
            return
        self._await_session(_Starting(started, options.detach, replaces))

    def _is_busy(self) -> bool:
        """Return whether a run of ours is active, with an error on the screen."""
        if self._starting is not None:
            return True
        if self._sweep_runs:
            self.show_error("the sweep is still running: another run would distort its figures")
            return True
        running = next((shown for shown in self._shown if shown.needs_us), None)
        if running is None:
            return False
        session = running.follower.session.header.id
        self.show_error(f"{session} is still running: stop or detach it first")
        return True

    def _await_session(self, starting: _Starting) -> None:
        """Say that a session is on its way, and show it or say why there is none."""
        from tui.screens.starting import StartingScreen

        self._starting = starting
        sentence = "starting the session: waiting for the sensors …"
        self._starting_screen = StartingScreen(sentence)
        self.push_screen(self._starting_screen)
        self.run_worker(self._take_answer(starting))

    def _read_session(self, follower: SessionFollower) -> None:
        """Show a recorded session once it is read: one of a day takes a while."""
        from tui.screens.starting import StartingScreen

        first = follower is self._first_follower
        name = follower.session.header.id
        waiting = StartingScreen(f"reading {name} …")
        self._being_read = follower

        async def read() -> None:
            follower.poll(SLICE_S)
            await read_to_end(
                follower, lambda share: waiting.show_text(f"{name}\n{reading_text(share)}")
            )
            self._being_read = None
            self._uncover(waiting)
            # Not a pop and a push: the screen below would begin to work in between.
            self.switch_screen(
                self._session_screen(follower, self._first_launch if first else None)
            )

        self.push_screen(waiting)
        # Nothing is painted before the app's own queue is read.
        self.call_later(waiting.call_after_refresh, lambda: self.run_worker(read(), group=_READING))

    def on_starting_screen_left(self, message: StartingScreen.Left) -> None:
        """Don't wait for what is on its way."""
        if message.screen is self._starting_screen:
            self._give_up()
        elif message.screen is self.screen:
            self._stop_reading()

    def _stop_reading(self) -> None:
        """Don't wait until a session is read."""
        if self._being_read is None:
            return
        if self._being_read is self._first_follower:
            self.exit(DONE)
            return
        self.workers.cancel_group(self, _READING)
        self.pop_screen()
        self._being_read.close()
        self._being_read = None

    async def _take_answer(self, starting: _Starting) -> None:
        answer = await asyncio.to_thread(starting.launch.answer)
        if self._starting is not starting:
            return
        self._starting = None
        try:
            if isinstance(answer, Started):
                lifeline = None if starting.detach else starting.launch
                follower = self._sources.follow(Path(answer.log), launch=lifeline)
                self._show_started(follower, starting)
                return
        except LogError as error:
            answer = Refused(str(error), FAILED)
        starting.launch.release()
        if starting.launch is self._first_launch:
            self._refused = answer
            self.exit(answer.exit_code)
        else:
            self._pop_starting_screen()
            self.show_error(answer.reason)

    def _show_started(self, follower: SessionFollower, starting: _Starting) -> None:
        """Show a session that was just launched, in place of what waited for it."""
        if self._starting_screen is not None:
            self._uncover(self._starting_screen)
        if starting.replaces is not None:
            self.pop_screen()
            self._forget(starting.replaces)
        if starting.detach:
            starting.launch.send("detach")
            starting.launch.release()
        lifeline = None if starting.detach else starting.launch
        self.switch_screen(self._session_screen(follower, lifeline))

    def _uncover(self, screen: Screen[Any]) -> None:
        """Take off what lies on top of a screen: a palette, the help, sessions."""
        while self.screen is not screen:
            if self._shown and self._shown[-1].screen is self.screen:
                self._close(self._shown[-1])
            else:
                self.pop_screen()

    def _pop_starting_screen(self) -> None:
        while self._starting_screen in self.screen_stack:
            self.pop_screen()

    def _give_up(self) -> None:
        """Don't wait for the supervisor; without its lifeline it starts nothing."""
        starting, self._starting = self._starting, None
        if starting is None:
            return
        starting.launch.release()
        if starting.launch is self._first_launch:
            self.exit(INTERRUPTED_BY_USER)
        else:
            self._pop_starting_screen()

    def _session_screen(self, follower: SessionFollower, started: Lifeline | None) -> LiveScreen:
        """Make the screen of a session, and keep in mind that it is shown."""
        from tui.live.screen import LiveScreen

        again = not self._sweep_runs and _again(follower) is not None
        screen = LiveScreen(follower, again)
        self._shown.append(ShownSession(follower, started, screen))
        self._read_sessions(follower.directory, screen.show_entries)
        return screen

    def _read_sessions(self, directory: Path, show: Callable[[list[SessionEntry]], None]) -> None:
        """Let a screen know what was recorded, once that is read: it may take a while."""

        async def read() -> None:
            show(await asyncio.to_thread(list_sessions, directory))

        self.run_worker(read())

    def on_live_screen_left(self, message: LiveScreen.Left) -> None:
        """Close a session: back to where it was opened from, else out."""
        shown = next((one for one in self._shown if one.screen is message.screen), None)
        if shown is None:
            return
        if shown.screen is self.screen_stack[_FIRST_SCREEN]:
            self.exit(_exit_code(shown))
            return
        self._uncover(shown.screen)
        self._close(shown)
        if shown.screen.detached:
            self.show_notice(f"{shown.follower.session.header.id} keeps running without dlmon")
        if self.screen is self._home:
            self._read_sessions_for_home()

    def on_live_screen_again_requested(self) -> None:
        """Launch the workload of the topmost session once more, with the same options."""
        shown = self._shown[-1]
        again = _again(shown.follower)
        if again is not None:
            self._launch(*again, shown.follower.directory, replaces=shown)

    def _close(self, shown: ShownSession) -> None:
        """Take the topmost session off the stack."""
        self.pop_screen()
        self._forget(shown)

    def _forget(self, shown: ShownSession) -> None:
        self._shown.remove(shown)
        if shown.launch is not None:
            shown.launch.release()
        shown.follower.close()

    def _open(self, log: Path) -> None:
        """Show a recorded session, or go back to it where it is shown already."""
        if self._being_read is not None:
            return
        for depth, shown in enumerate(self._shown):
            above = self._shown[depth + 1 :]
            if shown.follower.path == log and not any(one.needs_us for one in above):
                self._uncover(shown.screen)
                return
        try:
            follower = self._sources.follow(log)
        except LogError as error:
            self.show_error(str(error))
            return
        follower.poll(SLICE_S)
        if follower.read_share is None:
            self.push_screen(self._session_screen(follower, None))
        else:
            self._read_session(follower)

    def on_base_screen_left(self, message: BaseScreen.Left) -> None:
        """Go back to the screen below, or out of dlmon where there is none."""
        if message.screen is self.screen_stack[_FIRST_SCREEN]:
            self.exit(DONE)
        elif message.screen is self.screen:
            self.pop_screen()

    def on_sessions_screen_session_chosen(self, message: SessionsScreen.SessionChosen) -> None:
        self._open(message.log)

    def on_sessions_screen_sweep_chosen(self, message: SessionsScreen.SweepChosen) -> None:
        """Show a recorded sweep, and go on with it."""
        self._resume_sweep(message.path)

    def action_watch(self) -> None:
        self._show_machine(self.settings.run.interval)

    def action_sessions(self) -> None:
        from dlmon.sweep.log import list_sweeps
        from tui.sessions.screen import SessionsScreen

        directory = self._shown[-1].follower.directory if self._shown else self._directory
        self.push_screen(
            SessionsScreen(
                partial(list_sessions, directory),
                partial(list_sweeps, directory),
            )
        )

    async def action_quit(self) -> None:
        """Leave; a session that would stop with us is asked about first."""
        for shown in self._shown:
            if shown.needs_us:
                self._uncover(shown.screen)
                shown.screen.action_leave()
                return
        if self._sweep_screen is not None:
            self._uncover(self._sweep_screen)
            self._sweep_screen.action_leave()
            return
        first = self.screen_stack[_FIRST_SCREEN]
        shown_first = next((shown for shown in self._shown if shown.screen is first), None)
        self.exit(0 if shown_first is None else _exit_code(shown_first))

    @property
    def _sweep_runs(self) -> bool:
        return self._sweep is not None and not self._sweep.ended

    def show_notice(self, sentence: str) -> None:
        """Show a sentence for a while."""
        self.notify(sentence, markup=False)

    def show_error(self, reason: str) -> None:
        """Show for a while why something can't be done."""
        self.notify(clean(reason, ERROR_LENGTH), severity="error", markup=False, timeout=10)


def _exit_code(shown: ShownSession) -> int:
    """Return what leaving dlmon from a session amounts to."""
    if shown.screen.stop_requested:
        return INTERRUPTED_BY_USER
    if shown.follower.why_result_unwritten is not None:
        return FAILED
    good = (Status.RUNNING, Status.UNKNOWN, Status.COMPLETED)
    return DONE if shown.follower.status in good else FAILED


def _again(follower: SessionFollower) -> tuple[Workload, RunOptions] | None:
    """Return what launches a session's workload once more, where it can be launched here."""
    header = follower.session.header
    workload = WORKLOADS.get(header.workload)
    options = recorded_options(header)
    if workload is None or options is None or options.problem(workload) is not None:
        return None
    return workload, options
