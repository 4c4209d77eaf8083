"""How a script of a person's own is asked for and started from the screen, once or repeatedly."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual.screen import ModalScreen

from dlmon.log.folder import LogError
from tui.navigation.launches import LaunchesApp
from tui.navigation.shown import ShownSession

if TYPE_CHECKING:
    from dlmon.launch.lifeline import Lifeline
    from dlmon.options.script import ScriptRun

# So often it is asked whether a person is back at the run whose next one waits.
_POLL_S = 0.5


class OwnScriptsApp(LaunchesApp):
    """The app as far as it starts people's own scripts."""

    _repeating: ScriptRun | None = None
    _current: Lifeline | None = None
    """That of the newest run of the series."""
    _made = 0

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
