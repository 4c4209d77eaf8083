"""The app: what it opens with, who answers a request of a screen, the terminal, and signals."""

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
from dlmon.log.folder import LogError, log_directory
from dlmon.options.settings import remembered
from dlmon.protocol.stop import TERMINAL_CLOSED
from dlmon.records.sanitize import clean
from dlmon.render.console import print_in_ascii
from dlmon.system.signals import end_with_terminal
from tui import flows
from tui import messages as requests
from tui.drawing.themes import DARK, OWN_THEMES, chart_hues
from tui.screens.base import cover_without_room, is_too_small
from tui.textual_internals import Palette, PunctualApp, allow_switching, start_with_theme

# Screens, and what a person asks for, are imported when they are first needed.
if TYPE_CHECKING:
    from textual.command import Provider
    from textual.filter import LineFilter

    from dlmon.comparison.references import Reference
    from dlmon.remote.connection import Connection
    from dlmon.sweep.runner import SweepRun
    from tui.home.home_screen import HomeScreen
    from tui.sweep.sweep_screen import SweepScreen

_STYLE_SHEETS = Path(__file__).parent

_KEYS_IN_WORDS = {"⏎": "enter", "↑↓": "up/down"}

# What leaves dlmon in a terminal that has no room for a screen.
_WAYS_OUT = ("ctrl+q", "ctrl+c")

_ERROR_LENGTH = 400

_Flow = Coroutine[Any, Any, None]


def _commands() -> type[Provider]:
    from tui.palette import Commands

    return Commands


class DlmonApp(PunctualApp[int]):
    """dlmon on a screen."""

    CSS_PATH = "dlmon.tcss"
    COMMANDS = {_commands}  # noqa: RUF012 - Textual declares it so
    TITLE = "dlmon"
    # Textual's own has priority, and would close the app over the question that a screen asks.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", show=False),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]
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

    starting: flows.runs.Starting | None = None
    """The launch that is waited for."""
    home: HomeScreen | None = None
    sweep_screen: SweepScreen | None = None
    refused: str | None = None
    """Why the session could not be shown that dlmon was started for."""
    looks_at_themes = False
    _toasted_screen: Screen[object] | None = None

    def __init__(self, start: Start) -> None:
        """Read the header of each session that is to be shown first."""
        no_color = os.environ.get("NO_COLOR")
        # With NO_COLOR nothing but the terminal's own two colours is used.
        super().__init__(ansi_color=True if no_color is not None else None)
        if no_color is not None:
            # Textual takes it away; what we start should see it as well.
            os.environ["NO_COLOR"] = no_color
        self.start, self.settings = start, start.settings
        self.directory, self.sources = start.directory, start.sources
        self.shown_sessions: list[flows.stack.ShownSession] = []
        self.sweeps: list[SweepRun] = []
        self.connections: list[Connection] = []
        self.references: dict[str, Reference] = {}
        """What each workload is compared with, as it was chosen on a screen."""
        self.cleanups: dict[Screen[Any], Callable[[], object]] = {}
        """What is done once a screen is taken off."""
        self.rings_at_end = self.settings.bell
        self.notifies_at_end = self.settings.notification or self.settings.alerts.desktop
        self._plain: list[LineFilter] = []
        print_in_ascii(self.settings.ascii)
        if self.settings.ascii:
            from tui.drawing.ascii_filter import PlainCharacters

            self.add_class("-ascii")
            self._plain = [PlainCharacters()]
        for theme in OWN_THEMES:
            self.register_theme(theme)
        chosen = self.settings.theme or remembered("theme")
        self.kept_theme = chosen if chosen in self.available_themes else DARK
        start_with_theme(self, self.kept_theme)
        self._make_first = _first_screen(self, start)

    def get_default_screen(self) -> Screen[Any]:
        """Return what the arguments say; nothing lies below it."""
        screen = self._make_first()
        allow_switching(self, screen)
        # Textual reads those of the screens that come later, and only of those.
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
        self.theme_changed_signal.subscribe(self, lambda theme: flows.settings.keep_theme(self))
        # At once: what is said of a change itself comes after it.
        self.screen_change_signal.subscribe(self, self._clear_toasts, immediate=True)
        self._toasted_screen = self.screen
        # What others wrote meanwhile is painted over.
        self.app_resume_signal.subscribe(self, lambda app: self.screen.refresh())
        # Style sheets of the screens that may come are read once the first one is painted: one
        # that is read when its screen opens has Textual read all others again.
        read = partial(self.stylesheet.read_all, sorted(_STYLE_SHEETS.glob("*/**/*.tcss")))
        self.call_later(self.call_after_refresh, read)

    async def on_unmount(self) -> None:
        """End all connections, what runs there goes on; stop what the sweeps still run."""
        await asyncio.gather(
            *(connection.close() for connection in self.connections),
            *(run.close() for run in self.sweeps),
        )

    @on(requests.Request)
    def answer(self, request: requests.Request) -> None:
        """Have a flow do what a screen asks for."""
        flow = partial(_flows()[type(request)], self, request)
        if iscoroutinefunction(flow):
            self.run_worker(flow)
        else:
            flow()

    # ---- the screens ----

    @property
    def usual_directory(self) -> Path | None:
        """Where sessions are kept that name no place; None where there is none."""
        chosen = self.settings.log_dir
        try:
            return log_directory(None if chosen is None else Path(chosen))
        except LogError:
            return None

    @property
    def running_sweep(self) -> SweepRun | None:
        """The sweep that makes its runs now, of which there is one at most."""
        run = None if self.sweep_screen is None else self.sweep_screen.run
        return None if run is None or run.ended else run

    def is_first(self, screen: Screen[Any]) -> bool:
        """Return whether a screen lies on none: who leaves it leaves dlmon."""
        return screen in self.screen_stack[:1]

    def uncover(self, screen: Screen[Any]) -> None:
        """Take off what lies on top of a screen: a palette, the help, sessions.

        Nothing lies on one that is gone.
        """
        while screen in self.screen_stack and self.screen is not screen:
            self.close_top_screen()

    def close_top_screen(self) -> None:
        """Take off the topmost screen, and let go of what it is for."""
        screen = self.screen
        self.workers.cancel_node(screen)
        screen.dismiss()
        self.clean_up(screen)

    def clean_up(self, screen: Screen[Any]) -> None:
        """Let go of what a screen is for that is gone."""
        self.cleanups.pop(screen, lambda: None)()

    def show_notice(self, sentence: str) -> None:
        self.notify(sentence, markup=False)

    def show_error(self, reason: str) -> None:
        """Show for a while why something can't be done."""
        self.notify(clean(reason, _ERROR_LENGTH), severity="error", markup=False, timeout=10)

    def _clear_toasts(self, screen: Screen[object]) -> None:
        """Take toasts away with the screen that they were about; a question lies over the same."""
        if isinstance(screen, ModalScreen) or screen is self._toasted_screen:
            return
        self._toasted_screen = screen
        self.clear_notifications()

    # ---- what keys do on every screen ----

    async def action_quit(self) -> None:
        """Leave; what would stop with us is asked about first."""
        flows.stack.quit_app(self)

    def action_help(self) -> None:
        flows.settings.explain(self)

    def action_change_theme(self) -> None:
        self.run_worker(partial(flows.settings.choose_theme, self))

    def action_watch(self) -> None:
        self.push_screen(flows.stack.machine_screen(self, self.settings.run.interval))

    def action_hosts(self) -> None:
        flows.hosts.pick_hosts(self)

    def action_script(self) -> None:
        self.run_worker(partial(flows.runs.run_script, self))

    def action_sessions(self) -> None:
        """List the sessions where the one that is shown was recorded.

        Of one of another machine, what is here is a copy, which doesn't tell whether it still runs.
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
        """Name a key; in words where its sign can't be drawn."""
        display = super().get_key_display(binding)
        return _KEYS_IN_WORDS.get(display, display) if self.settings.ascii else display

    # ---- the terminal ----

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Let nothing but ASCII through where that was asked for."""
        return [*super().get_line_filters(), *self._plain]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give charts their hues in Textual's own themes too."""
        return chart_hues(self.current_theme)

    async def on_event(self, event: events.Event) -> None:
        """Clean what is pasted, whichever field takes it; all of them have one line.

        Behind the message that there is no room, nothing is typed; a question has a layout for
        less. Only the keys that leave dlmon do that there, and `q` where it is no letter.
        """
        typed = isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded
        if typed and is_too_small(self.size) and not _fits_any_size(self.screen):
            if not isinstance(event, events.Key):
                return
            if event.key in _WAYS_OUT:
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
        """Cover every screen that has no room; a question has a layout for less."""
        for screen in self.screen_stack:
            if not _fits_any_size(screen):
                cover_without_room(screen, event.size)

    def run_to_exit_code(self) -> int:
        """Run the app, say what became of its sessions, and return the exit code."""
        try:
            code = self.run()
        except Exception:
            self.leave_all_running()
            raise
        from dlmon.render.summary import print_exit_message, print_sweep_exit_message

        for run in self.sweeps:
            print_sweep_exit_message(run, self.usual_directory)
        if code is None and self.return_code:
            # An error ended it, which Textual has shown.
            self.leave_all_running()
            return FAILED
        # What was not left running on purpose stops.
        starting = [] if self.starting is None else [self.starting.launch]
        for launch in (*starting, *(shown.launch for shown in self.shown_sessions)):
            if launch is not None:
                launch.release()
        if self.refused is not None:
            print(f"dlmon: {clean(self.refused)}", file=sys.stderr)
        for shown in self.shown_sessions:
            print_exit_message(shown.follower, stops=shown.needs_us, usual=self.usual_directory)
        return self.return_code or 0 if code is None else code

    def leave_all_running(self) -> None:
        """Have what we started go on though an error ends us, and say how to come back to it."""
        from dlmon.render.summary import leave_running

        if self.starting is not None:
            self.starting.launch.send("detach")
            self.starting.launch.release()
            print("dlmon: the session still starts; dlmon attach shows it", file=sys.stderr)
        for shown in self.shown_sessions:
            if shown.launch is not None and shown.needs_us:
                leave_running(shown.follower, shown.launch, self.usual_directory)
                shown.screen.detached = True


def _first_screen(app: DlmonApp, start: Start) -> Callable[[], Screen[Any]]:
    """Return what makes the first screen; a LogError where no log can be read for it."""
    if start.log is not None:
        from dlmon.log.directory import read_entry

        # Its header and result stand there while what reads the rest is imported.
        follow = partial(app.sources.follow, start.log, launch=start.started)
        entry = read_entry(start.log)
        return partial(flows.sessions.reading_screen, app, entry, follow, start.started)
    if len(start.replayed) == 1:
        source = app.sources.replay(start.replayed[0])
        source.host = next(iter(start.replayed_hosts), None)
        return partial(flows.recordings.replay_screen, app, source)
    if start.replayed:
        replay = app.sources.host_replay(start.replayed, start.replayed_hosts or None)
        return partial(flows.recordings.host_replay_screen, replay)
    if start.started is not None:
        return partial(flows.runs.starting_screen, app, flows.runs.Starting(start.started))
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
    """Give the supervisors that will stop with us the reason, and have other machines stop."""
    for run in app.sweeps:
        run.stop()
    for shown in app.shown_sessions:
        if shown.launch is not None and shown.needs_us:
            shown.launch.send(TERMINAL_CLOSED)


def _leave_terminal(app: DlmonApp, stop: bool) -> None:
    """Leave the terminal at each SIGTSTP, and take it again at each SIGCONT.

    Textual does the first within the signal, wherever the main thread is. While that holds the
    lock of what is to be written, it would wait for itself, for ever. And after a SIGSTOP,
    which no process can handle, Textual would start a second thread that reads the keys, and
    would leave the terminal as an app has it.
    """
    loop = asyncio.get_running_loop()
    with app.suspend():
        if stop:
            # The terminal is taken again below already.
            loop.remove_signal_handler(signal.SIGCONT)
            os.kill(os.getpid(), signal.SIGSTOP)
            loop.add_signal_handler(signal.SIGCONT, _leave_terminal, app, False)


def _fits_any_size(screen: Screen[Any]) -> bool:
    return getattr(screen, "fits_any_size", False)


def _flows() -> dict[type[requests.Request], Callable[[DlmonApp, Any], _Flow | None]]:
    """Return what answers each request; what waits for something is a coroutine."""
    return {
        requests.GoBack: flows.stack.leave,
        requests.TellEnd: flows.hosts.end_session,
        requests.TellAlert: flows.settings.tell_alert,
        requests.Train: flows.runs.train,
        requests.TrainAgain: flows.runs.train_again,
        requests.TrainSeveral: flows.runs.train_several,
        requests.ShowSession: flows.sessions.show_session,
        requests.ShowHostSession: flows.hosts.show_host_session,
        requests.ShowSweptSession: flows.runs.show_swept_session,
        requests.ShowSweep: flows.runs.show_sweep,
        requests.ShowHost: flows.hosts.show_host,
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
        requests.KeepColumns: flows.settings.keep_columns,
    }
