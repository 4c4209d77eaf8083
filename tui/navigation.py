"""Which screen is shown: sessions, sweeps and the machine, opened, launched and left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER, code_of_script
from dlmon.log.folder import LogError, log_directory
from dlmon.records.record import record
from dlmon.session.source import SLICE_S, read_to_end
from dlmon.stop import TERMINAL_CLOSED
from tui.formatting.reading import reading_text
from tui.options.run import RunOptions
from tui.options.settings import Settings
from tui.own_scripts import OwnScriptsApp
from tui.sources import Sources
from tui.textual_internals import allow_switching
from workloads.catalog import WORKLOADS, Workload

# Each screen, and what it shows, is imported when it is first shown: a start pays for one only.
if TYPE_CHECKING:
    from dlmon.launch.job import Job, Refused
    from dlmon.launch.lifeline import Lifeline
    from dlmon.log.directory import SessionEntry
    from dlmon.remote.fleet import Fleet
    from dlmon.remote.follower import RemoteFollower
    from dlmon.remote.link import Link
    from dlmon.remote.start import RemoteStart
    from dlmon.session.follower import SessionFollower
    from dlmon.session.replay import ReplaySource
    from dlmon.sweep.runner import SweepRun
    from tui.formatting.comparison import Reference
    from tui.home.screen import HomeScreen
    from tui.hosts.fleet_screen import FleetScreen
    from tui.hosts.screen import HostsScreen
    from tui.live.replay_screen import ReplayScreen
    from tui.live.screen import LiveScreen
    from tui.screens.base import BaseScreen
    from tui.screens.starting import StartingScreen
    from tui.sessions.screen import SessionsScreen
    from tui.sweep.screen import SweepScreen
    from tui.watch.recording import RecordingScreen
    from tui.watch.screen import WatchScreen

# The workers that read a log, of which there is one at most.
_READING = "reading"

_FIRST_SCREEN = 0

_SWEEP_RUNS = "the sweep is still running: another run would distort its figures"


@record(frozen=True)
class Start:
    """What the app starts with; the home screen opens where nothing else is to be shown.

    Attributes:
        directory: where sessions live.
        settings: the user's own defaults.
        log: a session to show.
        replayed: a session to play; several, where each is of a machine alone.
        replayed_hosts: the host that each of several is of, where it was named.
        started: the lifeline of a session of ours; without `log` it has still to answer.
        remote: a session of another machine to show.
        watch_interval_s: watch the machine alone, sampling at this interval.
        hosts: watch these, as ssh knows them, in place of this machine.
        sweep: make the runs of a sweep, and show them.
        sources: where the screens get what they show.
    """

    directory: Path
    settings: Settings = field(default_factory=Settings)
    log: Path | None = None
    replayed: tuple[Path, ...] = ()
    replayed_hosts: tuple[str, ...] = ()
    started: Lifeline | None = None
    remote: RemoteStart | None = None
    watch_interval_s: float | None = None
    hosts: tuple[str, ...] = ()
    sweep: SweepRun | None = None
    sources: Sources = field(default_factory=Sources)


@dataclass
class ShownSession:
    """A session on the stack of screens, with its lifeline where it is ours."""

    follower: SessionFollower
    launch: Lifeline | None
    screen: LiveScreen | RecordingScreen
    link: Link | None = None

    @property
    def needs_us(self) -> bool:
        """Whether it would stop if we left without a word."""
        return self.launch is not None and self.follower.running and not self.screen.detached


@record(frozen=True)
class _Starting:
    """A launch that its supervisor has still to answer, and the session that it will replace.

    `turn` says which of several runs it is, of one that is one of several.
    """

    launch: Lifeline
    detach: bool = False
    replaces: ShownSession | None = None
    turn: str = ""


class NavigatingApp(OwnScriptsApp):
    """The app as far as it goes from screen to screen."""

    def __init__(self, start: Start, *, ansi_color: bool | None = None) -> None:
        """Read the session's header, where one is to be shown."""
        super().__init__(ansi_color=ansi_color)
        self.settings = start.settings
        self._start = start
        self._directory, self._sources = start.directory, start.sources
        self._first_follower = None
        if start.log is not None:
            self._first_follower = self._sources.follow(start.log, launch=start.started)
        self._first_replay, self._first_fleet = None, None
        if len(start.replayed) == 1:
            self._first_replay = self._sources.replay(start.replayed[0])
            self._first_replay.host = next(iter(start.replayed_hosts), None)
        elif start.replayed:
            self._first_fleet = self._sources.fleet(start.replayed, start.replayed_hosts or None)
        self._sweep = start.sweep
        self._sweeps: list[SweepRun] = []
        self._sweep_screen: SweepScreen | None = None
        self._references: dict[str, Reference] = {}
        """What each workload is compared with, as it was chosen on a screen."""
        self._shown: list[ShownSession] = []
        self._refused: Refused | None = None
        self._starting: _Starting | None = None
        self._starting_screen: StartingScreen | None = None
        self._being_read: SessionFollower | None = None
        self._home: HomeScreen | None = None

    def get_default_screen(self) -> Screen[Any]:
        """Return what the arguments say; nothing lies below it."""
        screen = self._first_screen()
        allow_switching(self, screen)
        # Textual reads those of the screens that come later, and only of those.
        self.stylesheet.read_all(screen.css_path)
        return screen

    def _first_screen(self) -> Screen[Any]:
        if self._first_follower is not None:
            return self._reading_screen(self._first_follower)
        if self._first_replay is not None:
            return self._replay_screen(self._first_replay)
        if self._first_fleet is not None:
            return self._fleet_screen(self._first_fleet)
        if self._start.started is not None:
            return self._awaiting_screen(_Starting(self._start.started))
        if self._start.remote is not None:
            return self.connecting_screen(self._start.remote)
        if self._sweep is not None:
            return self._screen_of_sweep(self._sweep)
        if self._start.hosts:
            return self.screen_of_hosts(self._start.hosts)
        if self._start.watch_interval_s is not None:
            return self._machine_screen(self._start.watch_interval_s)
        return self._home_screen()

    def report_closed_terminal(self) -> None:
        """Give the supervisors that will stop with us the reason, and have other machines stop."""
        for run in self._sweeps:
            run.stop()
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

    def _home_screen(self) -> HomeScreen:
        from tui.home.screen import HomeScreen

        options = self.settings.run
        self._home = HomeScreen(partial(self._sources.machine, pcie=options.pcie), options)
        # Nothing is painted before the app's own queue is read.
        self.call_later(self._home.call_after_refresh, self._read_sessions_for_home)
        return self._home

    def _read_sessions_for_home(self) -> None:
        if self._home is not None:
            self._read_sessions(self._directory, self._home.show_entries)

    def _machine_screen(self, interval_s: float) -> WatchScreen:
        from tui.watch.screen import WatchScreen

        return WatchScreen(self._sources.machine(interval_s, pcie=self.settings.run.pcie))

    def _screen_of_sweep(self, run: SweepRun) -> SweepScreen:
        """Make the screen of a sweep, which begins to make its runs."""
        from tui.sweep.screen import SweepScreen

        self._sweep, self._sweep_screen = run, SweepScreen(run)
        self._sweeps.append(run)
        return self._sweep_screen

    def on_sweep_screen_session_requested(self, message: SweepScreen.SessionRequested) -> None:
        if message.host is None:
            self._open(message.log)
        elif message.is_running or not self._open_copy(message.host, message.session):
            from dlmon.remote.start import RemoteStart

            self.open_remote(RemoteStart(message.host, message.session))

    def _open_copy(self, host: str, session: str) -> bool:
        """Show the copy of another machine's session that is over; return whether there is one."""
        from dlmon.log.folder import log_of
        from dlmon.remote.mirror import mirror_directory

        try:
            copy = log_of(mirror_directory(host) / session)
        except LogError:
            return False
        if not copy.is_file():
            return False
        self._open(copy)
        return True

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

    def on_sessions_screen_sweep_chosen(self, message: SessionsScreen.SweepChosen) -> None:
        """Go on with a recorded sweep, or go back to it where it is shown already."""
        from dlmon.sweep.log import SweepWriter, read_sweep
        from dlmon.sweep.plan import SweepError
        from tui.options.sweep import check_plan, run_of

        path = message.path
        if self._sweep_screen is not None and self._sweep_screen.path == path:
            self._uncover(self._sweep_screen)
            return
        if self.is_busy():
            return
        try:
            check_plan(read_sweep(path)[1].plan)
            run = run_of(SweepWriter.resume(path, time.time()))
        except (LogError, SweepError) as error:
            self.show_error(str(error))
        else:
            self.push_screen(self._screen_of_sweep(run))

    def on_home_screen_sweep_requested(self, message: HomeScreen.SweepRequested) -> None:
        """Begin a sweep from the home screen."""
        if self.screen is self._home:  # of a key that comes twice at once, the second came too late
            self.sweep(message.workload, message.options)

    def sweep(self, workload: Workload, options: RunOptions) -> None:
        """Ask what is to be varied in runs of a workload, and begin to make them."""
        from dlmon.sweep.plan import Plan, SweepError
        from tui.options.sweep import begin_sweep, make_plan, new_seed
        from tui.sweep.form import SweepForm

        if self.is_busy():
            return
        seed = new_seed()

        def plan_of(vary: list[str], repeats: int) -> Plan:
            return make_plan(workload.name, options, vary, repeats, seed, self.settings.hosts)

        def start(plan: Plan | None) -> None:
            if plan is None or self.is_busy():
                return
            try:
                chosen = options.log_dir
                directory = self._directory if chosen is None else log_directory(Path(chosen))
                run = begin_sweep(directory, plan, seed, time.time(), options.name)
            except (LogError, SweepError) as error:
                self.show_error(str(error))
            else:
                self.push_screen(self._screen_of_sweep(run))

        self.push_screen(SweepForm(workload.name, plan_of), start)

    def on_home_screen_train_requested(self, message: HomeScreen.TrainRequested) -> None:
        """Launch a workload from the home screen."""
        self._launch(message.workload, message.options, self._directory)

    def on_home_screen_session_requested(self, message: HomeScreen.SessionRequested) -> None:
        self._open(message.log)

    def _launch(
        self,
        workload: Workload,
        options: RunOptions,
        directory: Path,
        replaces: ShownSession | None = None,
    ) -> None:
        if options.host is not None:
            from dlmon.remote.start import RemoteStart
            from tui.options.jobs import make_job

            if self._sweep_runs and options.host in self._swept_hosts:
                self.show_error(_SWEEP_RUNS)
                return
            job = make_job(workload, directory, options)
            self.open_remote(RemoteStart(options.host, log_dir=options.log_dir, job=job))
            return
        if self.is_busy():
            return
        from tui.options.jobs import make_job

        try:
            started = self._sources.launch(make_job(workload, directory, options))
        except (LogError, OSError) as error:
            self.show_error(str(error))
        else:
            self.push_screen(self._awaiting_screen(_Starting(started, options.detach, replaces)))

    def launch_job(self, job: Job, in_place_of: ShownSession | None = None, turn: str = "") -> None:
        started = self._sources.launch(job)
        if in_place_of is not None:
            self._uncover(in_place_of.screen)
        starting = _Starting(started, replaces=in_place_of, turn=turn)
        self.push_screen(self._awaiting_screen(starting))

    def is_busy(self) -> bool:
        """Return whether a run of ours is active, with an error on the screen."""
        if self._starting is not None:
            return True
        if self._sweep_runs:
            here = None in self._swept_hosts
            self.show_error(_SWEEP_RUNS if here else "the sweep is still running: stop it first")
            return True
        running = next((shown for shown in self._shown if shown.needs_us), None)
        if running is None:
            return False
        session = running.follower.session.header.id
        self.show_error(f"{session} is still running: stop or detach it first")
        return True

    def _awaiting_screen(self, starting: _Starting) -> StartingScreen:
        """Return what says that a session is on its way; it or why there is none follows."""
        from tui.screens.starting import StartingScreen

        self._starting = starting
        self._starting_screen = StartingScreen("starting the session: waiting for the sensors …")
        self.run_worker(self._take_answer(starting))
        return self._starting_screen

    def _reading_screen(self, follower: SessionFollower) -> StartingScreen:
        """Return what stands until a recorded session is read: one of a day takes a while."""
        from tui.screens.starting import StartingScreen

        lifeline = self._start.started if follower is self._first_follower else None
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
            self.switch_screen(self._session_screen(follower, lifeline))

        # Nothing is painted before the app's own queue is read.
        self.call_later(waiting.call_after_refresh, lambda: self.run_worker(read(), group=_READING))
        return waiting

    @property
    def groups_of_hosts(self) -> Mapping[str, Sequence[str]]:
        return self.settings.hosts

    def screen_of_hosts(self, names: Sequence[str]) -> HostsScreen:
        from tui.hosts.screen import HostsScreen

        interval_s = self._start.watch_interval_s or self.settings.run.interval
        pcie = self.settings.run.pcie
        return HostsScreen([self._sources.hosts(name, interval_s, pcie) for name in names])

    def link_to(self, host: str) -> Link:
        return self._sources.link(host)

    def show_in_place_of(
        self, waiting: StartingScreen, follower: RemoteFollower, link: Link
    ) -> None:
        self._uncover(waiting)
        self.switch_screen(self._session_screen(follower, None, link))

    def give_up_waiting(self, waiting: StartingScreen, error: Exception, exit_code: int) -> None:
        from dlmon.launch.job import Refused

        if waiting is self.screen_stack[_FIRST_SCREEN]:
            self._refused = Refused(str(error), exit_code)
            self.exit(exit_code)
            return
        self._uncover(waiting)
        self.pop_screen()
        self.show_error(str(error))

    def on_starting_screen_left(self, message: StartingScreen.Left) -> None:
        """Don't wait for what is on its way."""
        if message.screen is self._starting_screen:
            self._give_up()
        elif message.screen is self.screen and self._being_read is not None:
            self._stop_reading(self._being_read)
        elif message.screen is self._connecting:
            if message.screen is self.screen_stack[_FIRST_SCREEN]:
                self.exit(INTERRUPTED_BY_USER)
            else:
                self.stop_connecting()

    def _stop_reading(self, follower: SessionFollower) -> None:
        """Don't wait until a session is read."""
        if follower is self._first_follower:
            self.exit(DONE)
            return
        self.workers.cancel_group(self, _READING)
        self.pop_screen()
        follower.close()
        self._being_read = None

    async def _take_answer(self, starting: _Starting) -> None:
        from dlmon.launch.job import Refused, Started

        answer = await asyncio.to_thread(starting.launch.answer)
        if self._starting is not starting:
            return
        self._starting = None
        if isinstance(answer, Started):
            try:
                self._show_started(Path(answer.log), starting)
            except LogError as error:
                answer = Refused(str(error), FAILED)
            else:
                return
        starting.launch.release()
        if starting.launch is self._start.started:
            self._refused = answer
            self.exit(answer.exit_code)
        else:
            self._pop_starting_screen()
            self.show_error(answer.reason)

    def _show_started(self, log: Path, starting: _Starting) -> None:
        """Show a session that was just launched, in place of what waited for it."""
        lifeline = None if starting.detach else starting.launch
        follower = self._sources.follow(log, launch=lifeline)
        if self._starting_screen is not None:
            self._uncover(self._starting_screen)
        if starting.replaces is not None:
            self.pop_screen()
            self._forget(starting.replaces)
        if starting.detach:
            starting.launch.send("detach")
            starting.launch.release()
        self.switch_screen(self._session_screen(follower, lifeline, turn=starting.turn))

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
        if starting.launch is self._start.started:
            self.exit(INTERRUPTED_BY_USER)
        else:
            self._pop_starting_screen()

    def _session_screen(
        self,
        follower: SessionFollower,
        started: Lifeline | None,
        link: Link | None = None,
        turn: str = "",
    ) -> LiveScreen | RecordingScreen:
        """Make the screen of a session, and keep in mind that it is shown."""
        if follower.session.header.is_machine_recording:
            from tui.watch.recording import RecordingScreen

            recording = RecordingScreen(follower, follower.path.parent)
            self._shown.append(ShownSession(follower, started, recording, link))
            return recording
        from dlmon.comparison.published import own_published
        from dlmon.log.label import read_label
        from tui.live.screen import LiveScreen

        _, problem = own_published()
        if problem is not None:
            self.call_after_refresh(self.show_error, problem)
        again = not self._sweep_runs and _again(follower) is not None
        screen = LiveScreen(
            follower, again, lambda: read_label(follower.path), self._references, turn
        )
        self._shown.append(ShownSession(follower, started, screen, link))
        self._read_sessions(follower.directory, screen.show_entries)
        return screen

    def _read_sessions(self, directory: Path, show: Callable[[list[SessionEntry]], None]) -> None:
        """Let a screen know what was recorded, once that is read: it may take a while."""
        from dlmon.log.directory import list_sessions

        async def read() -> None:
            show(await asyncio.to_thread(list_sessions, directory))

        self.run_worker(read())

    def on_recording_screen_left(self, message: RecordingScreen.Left) -> None:
        """Close the recording of a machine, as any session."""
        self.on_live_screen_left(message)

    def on_live_screen_left(self, message: BaseScreen.Left) -> None:
        """Close a session: back to where it was opened from, else out."""
        shown = self._shown_on(message.screen)
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
        if shown.link is not None:
            self.run_worker(self.close_link(shown.link))

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
            self.push_screen(self._reading_screen(follower))

    def replay(self, log: Path) -> None:
        """Play a recorded session, or one that still runs as far as it has come."""
        try:
            source = self._sources.replay(log)
        except LogError as error:
            self.show_error(str(error))
        else:
            self.push_screen(self._replay_screen(source))

    def _replay_screen(self, source: ReplaySource) -> ReplayScreen:
        from dlmon.log.label import read_label
        from tui.live.replay_screen import ReplayScreen

        screen = ReplayScreen(source, lambda: read_label(source.path), references=self._references)
        self._read_sessions(source.directory, screen.show_entries)
        return screen

    def replay_together(self, logs: Sequence[Path]) -> None:
        """Play the recordings of several machines at once."""
        try:
            fleet = self._sources.fleet(logs, None)
        except LogError as error:
            self.show_error(str(error))
        else:
            self.push_screen(self._fleet_screen(fleet))

    def _fleet_screen(self, fleet: Fleet) -> FleetScreen:
        from tui.hosts.fleet_screen import FleetScreen

        return FleetScreen(fleet)

    def on_fleet_screen_host_requested(self, message: FleetScreen.HostRequested) -> None:
        """Play one of several machines in full; the others wait for it."""
        from tui.live.replay_screen import ReplayScreen

        self.push_screen(ReplayScreen(message.fleet.lend(message.host), closes=False))

    def on_fleet_screen_left(self, message: FleetScreen.Left) -> None:
        self.on_replay_screen_left(message)

    def on_replay_screen_left(self, message: BaseScreen.Left) -> None:
        """Close a replay: back to where it was opened from, else out."""
        if message.screen is self.screen_stack[_FIRST_SCREEN]:
            self.exit(DONE)
            return
        self._uncover(message.screen)
        self.pop_screen()

    def on_base_screen_left(self, message: BaseScreen.Left) -> None:
        """Go back to the screen below, or out of dlmon where there is none."""
        if message.screen is self.screen_stack[_FIRST_SCREEN]:
            self.exit(DONE)
        elif message.screen is self.screen:
            self.pop_screen()

    def on_sessions_screen_session_chosen(self, message: SessionsScreen.SessionChosen) -> None:
        self._open(message.log)

    def on_sessions_screen_replay_requested(self, message: SessionsScreen.ReplayRequested) -> None:
        self.replay(message.log)

    def on_sessions_screen_replay_together_requested(
        self, message: SessionsScreen.ReplayTogetherRequested
    ) -> None:
        self.replay_together(message.logs)

    def is_running_sweep(self, log: Path) -> bool:
        return any(run.writer.path == log and not run.ended for run in self._sweeps)

    def show_recordings_again(self) -> None:
        """Let the screens that show what is recorded show it as it is now."""
        from tui.sessions.screen import SessionsScreen

        for screen in self.screen_stack:
            if isinstance(screen, SessionsScreen):
                screen.action_refresh()
        self._read_sessions_for_home()

    def action_watch(self) -> None:
        self.push_screen(self._machine_screen(self.settings.run.interval))

    def action_sessions(self) -> None:
        from dlmon.log.directory import list_sessions
        from dlmon.sweep.log import list_sweeps
        from tui.sessions.screen import SessionsScreen

        directory = self._shown[-1].follower.directory if self._shown else self._directory
        self.push_screen(
            SessionsScreen(partial(list_sessions, directory), partial(list_sweeps, directory))
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
        first = self._shown_on(self.screen_stack[_FIRST_SCREEN])
        self.exit(DONE if first is None else _exit_code(first))

    def _shown_on(self, screen: Screen[Any]) -> ShownSession | None:
        return next((shown for shown in self._shown if shown.screen is screen), None)

    @property
    def _sweep_runs(self) -> bool:
        return self._sweep is not None and not self._sweep.ended

    @property
    def _swept_hosts(self) -> tuple[str | None, ...]:
        """The machines on which the sweep makes its runs; None is this one."""
        return () if self._sweep is None else self._sweep.sweep.plan.hosts

    async def on_unmount(self) -> None:
        """Stop what the sweeps still run, wherever that is."""
        await asyncio.gather(*(run.close() for run in self._sweeps))


def _exit_code(shown: ShownSession) -> int:
    """Return what leaving dlmon from a session amounts to."""
    from dlmon.records import Status

    result = shown.follower.result
    if shown.launch is not None and shown.follower.session.header.is_script and result is not None:
        return code_of_script(result.exit_code)
    if shown.screen.stop_requested:
        return INTERRUPTED_BY_USER
    if shown.follower.why_result_unwritten is not None:
        return FAILED
    good = (Status.RUNNING, Status.UNKNOWN, Status.COMPLETED)
    return DONE if shown.follower.status in good else FAILED


def _again(follower: SessionFollower) -> tuple[Workload, RunOptions] | None:
    """Return what launches a session's workload once more, where it can be launched here."""
    from tui.options.jobs import recorded_options

    header = follower.session.header
    workload = WORKLOADS.get(header.workload)
    options = recorded_options(header)
    if workload is None or options is None:
        return None
    options = replace(options, host=follower.host)
    if options.problem(workload) is not None:
        return None
    return workload, options
