"""Sweeps: started, resumed, shown and left."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.exit_codes import INTERRUPTED_BY_USER
from dlmon.log.folder import LogError, log_directory
from dlmon.options.run import RunOptions
from tui.navigation.launches import LaunchesApp
from workloads.catalog import Workload

if TYPE_CHECKING:
    from dlmon.sweep.runner import SweepRun
    from tui.home.screen import HomeScreen
    from tui.sessions.screen import SessionsScreen
    from tui.sweep.screen import SweepScreen


class SweepsApp(LaunchesApp):
    """The app as far as it makes the runs of sweeps, of which one is active at a time."""

    def screen_of_sweep(self, run: SweepRun) -> SweepScreen:
        """Make the screen of a sweep, which begins to make its runs."""
        from tui.sweep.screen import SweepScreen

        self._sweep = run
        self._sweep_screen = SweepScreen(run, usual_directory=self.usual_directory())
        self._sweeps.append(run)
        return self._sweep_screen

    def on_home_screen_sweep_requested(self, message: HomeScreen.SweepRequested) -> None:
        """Begin a sweep from the home screen."""
        if self.screen is self._home:  # of a key that comes twice at once, the second came too late
            self.sweep(message.workload, message.options)

    def sweep(self, workload: Workload, options: RunOptions) -> None:
        """Ask what is to be varied in runs of a workload, and begin to make them."""
        from dlmon.options.sweep import begin_sweep, make_plan, new_seed
        from dlmon.sweep.plan import Plan, SweepError
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
                told = self.settings.alerts.chosen(options.alert)
                run = begin_sweep(directory, plan, seed, time.time(), options.name, told)
            except (LogError, SweepError) as error:
                self.show_error(str(error))
            else:
                self.push_screen(self.screen_of_sweep(run))

        self.push_screen(SweepForm(workload.name, plan_of), start)

    def on_sessions_screen_sweep_chosen(self, message: SessionsScreen.SweepChosen) -> None:
        """Go on with a recorded sweep, or go back to it where it is shown already."""
        from dlmon.options.sweep import check_plan, run_of
        from dlmon.sweep.log import SweepWriter, read_sweep
        from dlmon.sweep.plan import SweepError

        path = message.path
        if self._sweep_screen is not None and self._sweep_screen.path == path:
            self.uncover(self._sweep_screen)
            return
        if self.is_busy():
            return
        try:
            check_plan(read_sweep(path)[1].plan)
            told = self.settings.alerts.chosen(None)
            run = run_of(SweepWriter.resume(path, time.time()), told)
        except (LogError, SweepError) as error:
            self.show_error(str(error))
        else:
            self.push_screen(self.screen_of_sweep(run))

    def on_sweep_screen_session_requested(self, message: SweepScreen.SessionRequested) -> None:
        if message.host is None:
            self.open_session(message.log)
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
        self.open_session(copy)
        return True

    def on_sweep_screen_left(self, message: SweepScreen.Left) -> None:
        """Close a sweep: back to where it was opened from, else out."""
        if self.is_first(message.screen):
            self.exit(INTERRUPTED_BY_USER if message.interrupted else message.run.exit_code)
            return
        if self._sweep is message.run:
            self._sweep = self._sweep_screen = None
        self.uncover(message.screen)
        self.pop_screen()
        self.read_sessions_for_home()

    async def on_unmount(self) -> None:
        """Stop what the sweeps still run, wherever that is."""
        await asyncio.gather(*(run.close() for run in self._sweeps))
