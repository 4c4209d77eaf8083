"""Runs that are started from here: launched, waited for, and shown in place of what waited."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.screen import ModalScreen

from dlmon.cli.start import Start
from dlmon.exit_codes import FAILED, INTERRUPTED_BY_USER
from dlmon.figures.glyphs import under_way
from dlmon.log.folder import LogError
from dlmon.options.run import RunOptions
from dlmon.records.record import record
from tui.navigation.other_machines import OtherMachinesApp
from tui.navigation.sessions import how_to_repeat, script_job
from tui.navigation.stack import ShownSession
from workloads.catalog import Workload

if TYPE_CHECKING:
    from dlmon.launch.job import Job
    from dlmon.launch.lifeline import Lifeline
    from dlmon.options.script import ScriptRun
    from tui.home.screen import HomeScreen
    from tui.screens.starting import StartingScreen

# So often it is asked whether a person is back at the run whose next one waits.
_POLL_S = 0.5

_SWEEP_RUNS = "the sweep is still running: another run would distort its figures"


@record(frozen=True)
class Starting:
    """A launch that its supervisor has still to answer, and the session that it will replace.

    `turn` says which of several runs it is, of one that is one of several.
    """

    launch: Lifeline
    detach: bool = False
    replaces: ShownSession | None = None
    turn: str = ""


class LaunchesApp(OtherMachinesApp):
    """The app as far as it starts runs, of which one of ours is active at a time."""

    _repeating: ScriptRun | None = None
    _current: Lifeline | None = None
    """That of the newest run of the series."""
    _made = 0

    def __init__(self, start: Start, *, ansi_color: bool | None = None) -> None:
        super().__init__(start, ansi_color=ansi_color)
        self._starting: Starting | None = None
        self._starting_screen: StartingScreen | None = None

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

    def on_home_screen_train_requested(self, message: HomeScreen.TrainRequested) -> None:
        """Launch a workload from the home screen."""
        self._launch(message.workload, message.options, self._directory)

    def on_live_screen_again_requested(self) -> None:
        """Launch the workload or script of the topmost session once more, with the same options."""
        shown = self._shown[-1]
        script = script_job(shown.launch)
        if script is not None:
            self._launch_script(script, shown)
            return
        again = how_to_repeat(shown.follower)
        if again is not None:
            self._launch(*again, shown.follower.directory, replaces=shown)

    def _launch(
        self,
        workload: Workload,
        options: RunOptions,
        directory: Path,
        replaces: ShownSession | None = None,
    ) -> None:
        if options.host is not None:
            from dlmon.options.jobs import make_job
            from dlmon.remote.start import RemoteStart

            if self._sweep_runs and options.host in self._swept_hosts:
                self.show_error(_SWEEP_RUNS)
                return
            job = make_job(workload, directory, options, self.settings.alerts)
            self.open_remote(RemoteStart(options.host, log_dir=options.log_dir, job=job))
            return
        if self.is_busy():
            return
        from dlmon.options.jobs import make_job

        try:
            job = make_job(workload, directory, options, self.settings.alerts)
            if replaces is not None and replaces.launch is not None:
                # Who was told of the run before is told of this one.
                job = replace(job, alerts=replaces.launch.job.alerts)
            started = self._sources.launch(job)
        except (LogError, OSError) as error:
            self.show_error(str(error))
        else:
            self.push_screen(self.awaiting_screen(Starting(started, options.detach, replaces)))

    def _launch_script(self, job: Job, replaces: ShownSession) -> None:
        from dlmon.options.jobs import output_size

        if self.is_busy():
            return
        try:
            self.launch_job(replace(job, terminal=output_size(*self.size)), replaces)
        except (LogError, OSError) as error:
            self.show_error(str(error))

    def launch_job(
        self, job: Job, in_place_of: ShownSession | None = None, turn: str = ""
    ) -> Lifeline:
        """Start a session and show it, in place of one that is over; return its lifeline.

        `turn` says which of several runs it is, of one that is one of several.
        """
        started = self._sources.launch(job)
        if in_place_of is not None:
            self.uncover(in_place_of.screen)
        starting = Starting(started, replaces=in_place_of, turn=turn)
        self.push_screen(self.awaiting_screen(starting))
        return started

    def awaiting_screen(self, starting: Starting) -> StartingScreen:
        """Return what says that a session is on its way; it or why there is none follows."""
        from tui.screens.starting import StartingScreen

        self._starting = starting
        sentence = under_way("starting the session: waiting for the sensors")
        self._starting_screen = StartingScreen(sentence)
        self.run_worker(self._take_answer(starting))
        return self._starting_screen

    async def _take_answer(self, starting: Starting) -> None:
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

    def _show_started(self, log: Path, starting: Starting) -> None:
        """Show a session that was just launched, in place of what waited for it."""
        lifeline = None if starting.detach else starting.launch
        follower = self._sources.follow(log, launch=lifeline)
        if self._starting_screen is not None:
            self.uncover(self._starting_screen)
        if starting.replaces is not None:
            self.pop_screen()
            self.forget_session(starting.replaces)
        if starting.detach:
            starting.launch.send("detach")
            starting.launch.release()
        self.switch_screen(self.session_screen(follower, lifeline, turn=starting.turn))

    def _pop_starting_screen(self) -> None:
        while self._starting_screen in self.screen_stack:
            self.pop_screen()

    def give_up_launch(self) -> None:
        """Don't wait for the supervisor; without its lifeline it starts nothing."""
        starting, self._starting = self._starting, None
        if starting is None:
            return
        starting.launch.release()
        if starting.launch is self._start.started:
            self.exit(INTERRUPTED_BY_USER)
        else:
            self._pop_starting_screen()

    def action_script(self) -> None:
        """Ask for the command line of a script, and run it."""
        from tui.home.script_form import ScriptForm

        if not self.is_busy():
            self.push_screen(ScriptForm(), self._run_script)

    def _run_script(self, run: ScriptRun | None) -> None:
        if run is not None and not self.is_busy():
            self._repeating, self._made = run, 0
            self._run_next()

    def run_again(self, ended: ShownSession) -> None:
        """Make the next run of a script that is to be repeated, unless this one failed.

        Where a person looks at something else meanwhile, it waits until they are back.
        """
        run, result = self._repeating, ended.follower.result
        is_current = ended.launch is not None and ended.launch is self._current
        if run is None or not is_current or result is None or ended not in self._shown:
            return
        if self.screen is not ended.screen and not isinstance(self.screen, ModalScreen):
            self.set_timer(_POLL_S, partial(self.run_again, ended))
            return
        stopped = ended.screen.stop_requested or ended.screen.detached
        if result.exit_code == 0 and not stopped and self._made < run.repeat:
            self._run_next(ended)
        else:
            self._repeating = None

    def _run_next(self, ended: ShownSession | None = None) -> None:
        from dlmon.options.jobs import make_script_job, output_size

        run = self._repeating
        assert run is not None
        try:
            options = replace(self.settings.run, name=run.name, alert=run.alert)
            told = self.settings.alerts
            job = make_script_job(run.command, run.directory, self._directory, options, alerts=told)
            turn = f"run {self._made + 1} of {run.repeat}" if run.repeat > 1 else ""
            job = replace(job, terminal=output_size(*self.size))
            self._current = self.launch_job(job, ended, turn)
        except (LogError, OSError) as error:
            self._repeating = None
            self.show_error(str(error))
            return
        self._made += 1
