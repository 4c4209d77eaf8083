"""The app: its first screen, the requests of screens, the terminal, and signals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen

from dlmon.cli.start import Start
from dlmon.exit_codes import FAILED
from dlmon.options.settings import remembered
from dlmon.records.sanitize import clean
from dlmon.render.console import print_in_ascii
from dlmon.system.signals import end_with_terminal
from tui import flows
from tui import messages as requests
from tui.base_app import BaseApp
from tui.drawing.themes import DARK, OWN_THEMES, chart_hues
from tui.screens.base import cover_without_room, is_too_small
from tui.shown_session import Starting
from tui.textual_internals import Palette, allow_switching, start_with_theme

# Screens are imported on first use.
if TYPE_CHECKING:
    from textual.command import Provider
    from textual.filter import LineFilter


_STYLE_SHEETS = Path(__file__).parent

_KEYS_IN_WORDS = {"⏎": "enter", "↑↓": "up/down"}

# The keys that quit dlmon while the terminal is too small.
_QUIT_KEYS = ("ctrl+q", "ctrl+c")

_Flow = Coroutine[Any, Any, None]


def _commands() -> type[Provider]:
    from tui.palette import Commands

    return Commands


class DlmonApp(BaseApp):
    """dlmon's app."""

    CSS_PATH = "dlmon.tcss"
    COMMANDS = {_commands}  # noqa: RUF012 - Textual declares it so
    TITLE = "dlmon"
    # Textual's own Ctrl+Q has priority: it would quit even while a screen asks a question.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", show=False),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]
    # Textual declares both on the instance
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-short"), (32, "-tall")]  # noqa: RUF012
    _screen_of_toasts: Screen[object] | None = None

    def __init__(self, start: Start) -> None:
        """Open the first session's log, if there is one; raise a LogError if it can't be read."""
        no_color = os.environ.get("NO_COLOR")
        # With NO_COLOR, only the terminal's default colours are used.
        super().__init__(start, ansi_color=True if no_color is not None else None)
        if no_color is not None:
            # Textual removes it, but the processes that we start should see it.
            os.environ["NO_COLOR"] = no_color
        self._ascii_filters: list[LineFilter] = []
        print_in_ascii(self.settings.ascii)
        if self.settings.ascii:
            from tui.drawing.ascii_filter import PlainCharacters

            self._ascii_filters = [PlainCharacters()]
        for theme in OWN_THEMES:
            self.register_theme(theme)
        theme_name = self.settings.theme or remembered("theme")
        self.saved_theme = theme_name if theme_name in self.available_themes else DARK
        start_with_theme(self, self.saved_theme)
        self._make_first = _first_screen(self, start)

    def get_default_screen(self) -> Screen[Any]:
        """Return the first screen, which the arguments of the command choose."""
        screen = self._make_first()
        allow_switching(self, screen)
        # Textual doesn't read the style sheet of the first screen.
        self.stylesheet.read_all(screen.css_path)
        return screen

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        # Without this, a SIGTERM would leave the terminal in the alternate screen.
        loop.add_signal_handler(signal.SIGTERM, self.exit, 1)
        if not self.is_headless:
            end_with_terminal(partial(_report_closed_terminal, self))
            loop.add_signal_handler(signal.SIGTSTP, _leave_terminal, self, True)
            loop.add_signal_handler(signal.SIGCONT, _leave_terminal, self, False)
        self.theme_changed_signal.subscribe(self, lambda theme: flows.settings.save_theme(self))
        # At once: a later call would also clear the toasts of the new screen.
        self.screen_change_signal.subscribe(self, self._clear_toasts, immediate=True)
        self._screen_of_toasts = self.screen
        # Paint over the output of other programs.
        self.app_resume_signal.subscribe(self, lambda app: self.screen.refresh())
        # Read all style sheets after the first paint: if a screen's sheet is read as it opens,
        # Textual parses all others again.
        read_all = partial(self.stylesheet.read_all, sorted(_STYLE_SHEETS.glob("*/**/*.tcss")))
        self.call_later(self.call_after_refresh, read_all)
        if self.start.notice:
            self.call_later(self.show_notice, self.start.notice)

    async def on_unmount(self) -> None:
        """Close all connections, whose sessions go on; stop the runs of sweeps."""
        await asyncio.gather(
            *(connection.close() for connection in self.connections),
            *(run.close() for run in self.sweeps),
        )

    @on(requests.Request)
    def answer(self, request: requests.Request) -> None:
        """Call the flow that does what a screen requests."""
        flow = partial(_flows()[type(request)], self, request)
        if iscoroutinefunction(flow):
            self.run_worker(flow)
        else:
            flow()

    def _clear_toasts(self, screen: Screen[object]) -> None:
        """Clear the toasts as the screen changes; a question keeps those of the screen below it."""
        if isinstance(screen, ModalScreen) or screen is self._screen_of_toasts:
            return
        self._screen_of_toasts = screen
        self.clear_notifications()

    # ---- actions of all screens ----

    async def action_quit(self) -> None:
        flows.stack.quit_app(self)

    def action_help(self) -> None:
        flows.settings.explain(self)

    def action_change_theme(self) -> None:
        self.run_worker(partial(flows.settings.choose_theme, self))

    def action_watch(self) -> None:
        self.push_screen(flows.stack.machine_screen(self, self.settings.run.interval))

    def action_hosts(self) -> None:
        flows.hosts.pick_hosts(self)

    def action_sessions(self) -> None:
        """List the sessions beside the top session, on its host if it is on another one.

        The copies of a host's logs here don't tell whether a session still runs.
        """
        top = self.shown_sessions[-1] if self.shown_sessions else None
        if top is None or top.connection is None:
            flows.sessions.list_sessions(self)
        else:
            flows.hosts.list_sessions_of(self, top.connection, top.log_dir)

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def get_key_display(self, binding: Binding) -> str:
        """Return the sign of a key, or its name if only ASCII can be drawn."""
        display = super().get_key_display(binding)
        return _KEYS_IN_WORDS.get(display, display) if self.settings.ascii else display

    # ---- the terminal ----

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._ascii_filters]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the chart hues for themes that don't define them."""
        return chart_hues(self.current_theme)

    async def on_event(self, event: events.Event) -> None:
        """Clean pasted text, and keep its first line.

        While the terminal is too small for the screen, take only the keys that quit, and `q` if no
        field would take it as a letter.
        """
        typed = isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded
        if typed and is_too_small(self.size) and not _fits_any_size(self.screen):
            if not isinstance(event, events.Key):
                return
            if event.key in _QUIT_KEYS:
                await self.run_action("app.quit")
                return
            is_letter = self.focused is not None and self.focused.check_consume_key("q", "q")
            if event.key != "q" or is_letter:
                return
        if isinstance(event, events.Paste):
            lines = event.text.strip().splitlines()
            event = events.Paste(clean(lines[0]) if lines else "")
        await super().on_event(event)

    def on_resize(self, event: events.Resize) -> None:
        """Cover every screen that doesn't fit."""
        for screen in self.screen_stack:
            if not _fits_any_size(screen):
                cover_without_room(screen, event.size)

    def run_to_exit_code(self) -> int:
        """Run the app, print what became of its sessions, and return the exit code."""
        try:
            code = self.run()
        except Exception:
            self.leave_all_running()
            raise
        from dlmon.render.summary import Ending, print_exit_message, print_experiment_exit_message

        usual = self.settings.usual_directory
        for run in self.sweeps:
            print_experiment_exit_message(run, usual)
        if code is None and self.return_code:
            # An error ended the app; Textual has printed it.
            self.leave_all_running()
            return FAILED
        # This stops the sessions that were not detached.
        starting = [] if self.starting is None else [self.starting.supervisor]
        for supervisor in (*starting, *(session.supervisor for session in self.shown_sessions)):
            if supervisor is not None:
                supervisor.release()
        if self.refused is not None:
            print(f"dlmon: {clean(self.refused)}", file=sys.stderr)
        for session in self.shown_sessions:
            ending = Ending(self.start.verbose, usual)
            print_exit_message(session.follower, stops=session.needs_us, ending=ending)
        return self.return_code or 0 if code is None else code

    def leave_all_running(self) -> None:
        """Detach all sessions after an error, and print how to attach to them."""
        from dlmon.render.summary import leave_running

        if self.starting is not None:
            self.starting.supervisor.detach()
            self.starting.supervisor.release()
            print("dlmon: the session still starts; dlmon attach shows it", file=sys.stderr)
        for session in self.shown_sessions:
            if session.supervisor is not None and session.needs_us:
                leave_running(session.follower, session.supervisor, self.settings.usual_directory)
                session.screen.detached = True


def _first_screen(app: DlmonApp, start: Start) -> Callable[[], Screen[Any]]:
    """Return a function that makes the first screen; raise a LogError if a log can't be read."""
    if start.log is not None:
        from dlmon.log.directory import read_entry

        # Read only the header and the result, to show them while the reader is imported.
        follow = partial(app.sources.follow, start.log, supervisor=start.started)
        entry = read_entry(start.log)
        return partial(flows.sessions.reading_screen, app, entry, follow, start.started)
    if len(start.replayed) == 1:
        source = app.sources.replay(start.replayed[0])
        source.host = next(iter(start.replayed_hosts), None)
        return partial(flows.recordings.replay_screen, app, source)
    if start.replayed:
        replay = app.sources.host_replay(start.replayed, start.replayed_hosts or None)
        return partial(flows.recordings.host_replay_screen, replay)
    if start.metrics is not None:
        return partial(flows.recordings.metrics_screen, app, *start.metrics)
    if start.started is not None:
        return partial(flows.runs.starting_screen, app, Starting(start.started))
    if start.remote is not None:
        return partial(flows.hosts.connecting_screen, app, start.remote)
    if start.sweep is not None:
        return partial(flows.runs.sweep_screen, app, start.sweep)
    if start.hosts:
        return partial(flows.hosts.hosts_screen, app, start.hosts)
    if start.watch_interval_s is not None:
        return partial(flows.stack.machine_screen, app, start.watch_interval_s)
    return partial(flows.stack.home_screen, app)


def _report_closed_terminal(app: DlmonApp) -> None:
    """Tell our supervisors that the terminal is closed, and stop the sweeps."""
    for run in app.sweeps:
        run.leave_at_once()
    for session in app.shown_sessions:
        if session.supervisor is not None and session.needs_us:
            session.supervisor.hang_up()


def _leave_terminal(app: DlmonApp, stop: bool) -> None:
    """Release the terminal at SIGTSTP, and take it again at SIGCONT.

    Textual does so inside the signal handler: if the main thread holds the lock of the output at
    that moment, it deadlocks. And after a SIGSTOP, which can't be handled, Textual would start a
    second input thread and leave the terminal in application mode.
    """
    loop = asyncio.get_running_loop()
    with app.suspend():
        if stop:
            # Leaving `app.suspend` takes the terminal again, so this SIGCONT must not.
            loop.remove_signal_handler(signal.SIGCONT)
            os.kill(os.getpid(), signal.SIGSTOP)
            loop.add_signal_handler(signal.SIGCONT, _leave_terminal, app, False)


def _fits_any_size(screen: Screen[Any]) -> bool:
    return getattr(screen, "fits_any_size", False)


def _flows() -> dict[type[requests.Request], Callable[[DlmonApp, Any], _Flow | None]]:
    """Return the function, or the coroutine function, that handles each request."""
    return {
        requests.GoBack: flows.stack.leave,
        requests.NotifyEnd: flows.hosts.end_session,
        requests.NotifyAlert: flows.settings.notify_alert,
        requests.Train: flows.runs.train,
        requests.RunScript: flows.runs.run_script,
        requests.TrainAgain: flows.runs.train_again,
        requests.TrainSeveral: flows.runs.train_several,
        requests.ShowSession: flows.sessions.show_session,
        requests.ShowHostSession: flows.hosts.show_host_session,
        requests.ShowSweptSession: flows.runs.show_swept_session,
        requests.ShowSweep: flows.runs.show_sweep,
        requests.ShowNodes: flows.hosts.show_nodes,
        requests.WatchHosts: flows.hosts.watch_hosts,
        requests.ListHostSessions: flows.hosts.list_host_sessions,
        requests.Compare: flows.recordings.compare,
        requests.ShowMetrics: flows.recordings.show_metrics,
        requests.Replay: flows.recordings.replay,
        requests.ReplayHost: flows.recordings.replay_host,
        requests.Export: flows.recordings.export,
        requests.Rename: flows.recordings.rename,
        requests.Delete: flows.recordings.delete,
    }
