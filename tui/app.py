"""The app: settings, themes, the command palette, what goes to the terminal, and signals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import SystemCommand
from textual.binding import ActiveBinding, Binding, BindingType
from textual.screen import ModalScreen, Screen

from dlmon.cli.start import Start
from dlmon.exit_codes import FAILED
from dlmon.figures.glyphs import ASCII, UNICODE, use_glyphs
from dlmon.options.settings import remember_theme, remembered_theme
from dlmon.records.sanitize import clean
from dlmon.render.exit_messages import leave_running, print_exit_message, print_sweep_exit_message
from dlmon.signals import end_with_terminal
from tui.drawing.themes import DARK, OWN_THEMES, chart_hues, theme_names
from tui.navigation import NavigatingApp
from tui.palette import Command, Commands
from tui.textual_internals import Palette, start_with_theme, write_to_terminal
from tui.widgets.too_small import TooSmall, is_too_small

# Screens are imported when they are first shown.
if TYPE_CHECKING:
    from textual.filter import LineFilter

    from tui.live.screen import LiveScreen
    from tui.screens.session_controls import SessionControls
    from tui.sweep.screen import SweepScreen

_STYLE_SHEETS = Path(__file__).parent

_KEYS_IN_WORDS = {"⏎": "enter", "↑↓": "up/down"}

_PALETTE_CLOSES_S = 0.2
_PALETTE_ITSELF = "app.command_palette"

# What there may be at the end of a run.
_BELL, _NOTIFICATION = "bell", "desktop notification"

# What leaves dlmon in a terminal that has no room for a screen.
_WAYS_OUT = ("ctrl+q", "ctrl+c")

# What every screen of Textual is bound to, and what its own help explains.
_TEXTUALS_OWN = ("app.focus_next", "app.focus_previous", "screen.copy_text")


class DlmonApp(NavigatingApp):
    """dlmon on a screen."""

    CSS_PATH = "dlmon.tcss"
    COMMANDS = {Commands}  # noqa: RUF012 - Textual declares it so
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

    def __init__(self, start: Start) -> None:
        no_color = os.environ.get("NO_COLOR")
        # With NO_COLOR nothing but the terminal's own two colours is used.
        super().__init__(start, ansi_color=True if no_color is not None else None)
        if no_color is not None:
            # Textual takes it away; what we start should see it as well.
            os.environ["NO_COLOR"] = no_color
        at_end = self.settings.notification or self.settings.alerts.desktop
        self._at_end = {_BELL: self.settings.bell, _NOTIFICATION: at_end}
        self._looks_at_themes = False
        self._toasted_screen: Screen[object] | None = None
        self._plain: list[LineFilter] = []
        use_glyphs(ASCII if self.settings.ascii else UNICODE)
        if self.settings.ascii:
            from tui.drawing.ascii_filter import PlainCharacters

            self.add_class("-ascii")
            self._plain = [PlainCharacters()]
        for theme in OWN_THEMES:
            self.register_theme(theme)
        chosen = self.settings.theme or remembered_theme()
        self._kept_theme = chosen if chosen in self.available_themes else DARK
        start_with_theme(self, self._kept_theme)

    def on_mount(self) -> None:
        # Without this, a SIGTERM would leave the terminal in the alternate screen.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit, 1)
        if not self.is_headless:
            end_with_terminal(self.report_closed_terminal)
            self._give_and_take_terminal()
        self.theme_changed_signal.subscribe(self, lambda theme: self._keep_theme())
        # At once: what is said of a change itself comes after it.
        self.screen_change_signal.subscribe(self, self._clear_toasts, immediate=True)
        self._toasted_screen = self.screen
        # What others wrote meanwhile is painted over.
        self.app_resume_signal.subscribe(self, lambda app: self.screen.refresh())
        self.call_later(self.call_after_refresh, self._read_style_sheets)

    def _give_and_take_terminal(self) -> None:
        """Leave the terminal at each SIGTSTP, and take it again at each SIGCONT.

        Textual does the first within the signal, wherever the main thread is. While that holds the
        lock of what is to be written, it would wait for itself, for ever. And after a SIGSTOP,
        which no process can handle, Textual would start a second thread that reads the keys, and
        would leave the terminal as an app has it.
        """

        def leave(stop: bool = False) -> None:
            with self.suspend():
                if stop:
                    os.kill(os.getpid(), signal.SIGSTOP)

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, leave, True)
        loop.add_signal_handler(signal.SIGCONT, leave)

    def _clear_toasts(self, screen: Screen[object]) -> None:
        """Take toasts away with the screen that they were about; a question lies over the same."""
        if isinstance(screen, ModalScreen) or screen is self._toasted_screen:
            return
        self._toasted_screen = screen
        self.clear_notifications()

    def _read_style_sheets(self) -> None:
        """Read those of the screens that may come, once the first one is painted.

        One that is read when its screen opens has Textual read all others again.
        """
        self.stylesheet.read_all(sorted(_STYLE_SHEETS.glob("*/**/*.tcss")))

    def run_to_exit_code(self) -> int:
        """Run the app, say what became of its sessions, and return the exit code."""
        try:
            code = self.run()
        except Exception:
            self.leave_all_running()
            raise
        for run in self._sweeps:
            print_sweep_exit_message(run, self.usual_directory())
        if code is None and self.return_code:
            # An error ended it, which Textual has shown.
            self.leave_all_running()
            return FAILED
        self.release()
        if self._refused is not None:
            print(f"dlmon: {clean(self._refused.reason)}", file=sys.stderr)
        for shown in self._shown:
            print_exit_message(shown.follower, stops=shown.needs_us, usual=self.usual_directory())
        return self.return_code or 0 if code is None else code

    def leave_all_running(self) -> None:
        """Have what we started go on though an error ends us, and say how to come back to it."""
        if self._starting is not None:
            self._starting.launch.send("detach")
            self._starting.launch.release()
            print("dlmon: the session still starts; dlmon attach shows it", file=sys.stderr)
        for shown in self._shown:
            if shown.launch is not None and shown.needs_us:
                leave_running(shown.follower, shown.launch, self.usual_directory())
                shown.screen.detached = True

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Let nothing but ASCII through where that was asked for."""
        return [*super().get_line_filters(), *self._plain]

    async def on_event(self, event: events.Event) -> None:
        """Clean what is pasted, whichever field takes it; all of them have one line.

        Behind the message that there is no room, nothing is typed.
        """
        typed = isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded
        if typed and self._is_covered:
            await self._leave_if_asked(event)
            return
        if isinstance(event, events.Paste):
            lines = event.text.strip().splitlines()
            event = events.Paste(clean(lines[0]) if lines else "")
        await super().on_event(event)

    @property
    def _is_covered(self) -> bool:
        """Whether all that is seen says that there is no room; a question has a layout for less."""
        return is_too_small(self.size) and not _fits_any_size(self.screen)

    async def _leave_if_asked(self, event: events.Event) -> None:
        """Leave dlmon by its keys for that, by `q` where that is no letter; ignore all else."""
        if not isinstance(event, events.Key):
            return
        if event.key in _WAYS_OUT:
            await self.run_action("app.quit")
        elif event.key == "q" and not (self.focused and self.focused.check_consume_key("q", "q")):
            await super().on_event(event)

    def on_resize(self, event: events.Resize) -> None:
        """Cover what lies over a screen as well, where that has no room; questions have."""
        if is_too_small(event.size):
            for screen in self.screen_stack:
                covers = isinstance(screen, ModalScreen) and not _fits_any_size(screen)
                if covers and not screen.query(TooSmall):
                    screen.mount(TooSmall())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give charts their hues in Textual's own themes too."""
        return chart_hues(self.current_theme)

    def get_key_display(self, binding: Binding) -> str:
        """Name a key; in words where its sign can't be drawn."""
        display = super().get_key_display(binding)
        return _KEYS_IN_WORDS.get(display, display) if self.settings.ascii else display

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Return what the palette offers, as Textual would have it."""
        for command in self.commands_of(screen):
            yield SystemCommand(command.name, command.sentence, command.run)

    def action_command_palette(self) -> None:
        """Open the palette, unless it is."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def commands_of(self, screen: Screen[object]) -> Iterable[Command]:
        """Offer every action of the screen, then what holds on all of them; each of them once."""
        actives: dict[str, list[ActiveBinding]] = {}
        for active in _own_bindings(screen):
            if active.enabled and active.binding.action != _PALETTE_ITSELF:
                actives.setdefault(active.binding.action, []).append(active)
        names = set()
        for action, bound in actives.items():
            described = next((one for one in bound if one.binding.description), None)
            if described is None or described.binding.description in names:
                continue
            names.add(described.binding.description)
            yield Command(
                described.binding.description,
                described.tooltip,
                " ".join(dict.fromkeys(self.get_key_display(one.binding) for one in bound)),
                partial(self.run_action, action, default_namespace=screen),
            )
        if "app.change_theme" not in actives:
            yield Command("Theme", "Choose other colours", "", self.action_change_theme)
        for name, is_on in self._at_end.items():
            yield Command(
                f"Turn the {name} {_on_or_off(not is_on)}",
                "At the end of a run; config.toml sets the default",
                "",
                partial(self._toggle_at_end, name),
            )
        # Once the palette is gone from the screen.
        save = partial(self.set_timer, _PALETTE_CLOSES_S, self.save_picture)
        yield Command("Screenshot", "Save this screen as SVG in the working directory", "", save)

    def action_change_theme(self) -> None:
        """Have another theme chosen; each is shown meanwhile."""
        from tui.screens.themes import ThemesScreen

        def take(chosen: str | None) -> None:
            self._looks_at_themes = False
            if chosen is not None:
                self.theme = chosen
                self._keep_theme()

        self._looks_at_themes = True
        self.push_screen(ThemesScreen(theme_names(), self.theme), take)

    def _keep_theme(self) -> None:
        """Remember the theme for the next start, unless it is but looked at."""
        if self.theme == self._kept_theme or self._looks_at_themes:
            return
        self._kept_theme = self.theme
        try:
            remember_theme(self.theme)
        except OSError as error:
            self.show_error(f"the theme can't be saved: {error}")

    def on_live_screen_ended(self, message: LiveScreen.Ended) -> None:
        """Notify that a session is over; during a sweep, only its end is notified."""
        if not self._sweep_runs:
            self._notify_end(message.text)
        shown = self.shown_on(message.screen)
        if shown is not None:
            self.run_again(shown)

    def on_sweep_screen_ended(self, message: SweepScreen.Ended) -> None:
        self._notify_end(message.text)

    def _notify_end(self, text: str) -> None:
        if self._at_end[_BELL]:
            self.bell()
        if self._at_end[_NOTIFICATION]:
            self._notify_desktop(text)

    def on_session_controls_alerted(self, message: SessionControls.Alerted) -> None:
        if self.settings.alerts.desktop:
            self._notify_desktop(message.text)

    def _notify_desktop(self, text: str) -> None:
        from dlmon.notification import desktop_notification, notify_send

        if not (self.settings.alerts.desktop and notify_send(text)):
            write_to_terminal(self, desktop_notification(text))

    def _toggle_at_end(self, name: str) -> None:
        self._at_end[name] = not self._at_end[name]
        self.show_notice(f"{name} at the end of a run: {_on_or_off(self._at_end[name])}")

    def action_help(self) -> None:
        from tui.screens.help import HelpScreen

        topics = getattr(self.screen, "topics", ())
        if topics:
            if self.settings.ascii:
                topics = tuple((_in_ascii(name), _in_ascii(text)) for name, text in topics)
            keys = self._keys()
            known = {key for names, _ in keys for key in names.split()}
            steps = getattr(self.screen, "first_steps", ())
            first = tuple(step for step in steps if len(step[0]) > 1 or step[0] in known)
            self.push_screen(HelpScreen(keys, topics, first))

    def _keys(self) -> list[tuple[str, str]]:
        """Return the keys of the topmost screen, those of one action together, and what they do."""
        keys: dict[str, dict[str, None]] = {}
        descriptions: dict[str, str] = {}
        own = _own_bindings(self.screen)
        displays = {self.get_key_display(active.binding) for active in own}
        for active in own:
            action, display = active.binding.action, self.get_key_display(active.binding)
            # The footer may name one key beside another; here that one has a row of its own.
            names = [name for name in display.split() if name == display or name not in displays]
            keys.setdefault(action, {})[" ".join(names)] = None
            descriptions[action] = (
                descriptions.get(action) or active.tooltip or active.binding.description
            )
        return [
            (" ".join(keys[action]), descriptions[action])
            for action in keys
            if descriptions[action]
        ]


def _fits_any_size(screen: Screen[Any]) -> bool:
    return getattr(screen, "fits_any_size", False)


def _own_bindings(screen: Screen[object]) -> list[ActiveBinding]:
    """Return what keys do on a screen, the keys that its footer shows first."""
    own = [
        active
        for active in screen.active_bindings.values()
        if active.node is screen and active.binding.action not in _TEXTUALS_OWN
    ]
    return sorted(own, key=lambda active: not active.binding.show)


def _in_ascii(text: str) -> str:
    """Write with several characters what ASCII has no single one for."""
    for glyph, plain in (
        (UNICODE.plus_minus, ASCII.plus_minus),
        (UNICODE.ellipsis, ASCII.ellipsis),
    ):
        text = text.replace(glyph, plain)
    return text


def _on_or_off(value: bool) -> str:
    return "on" if value else "off"
