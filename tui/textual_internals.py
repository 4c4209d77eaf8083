"""Every use of what Textual keeps private: where to look when a new version breaks something."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from rich.console import Console
from rich.control import Control
from textual import events
from textual._compositor import ChopsUpdate, Compositor
from textual.app import App, ReturnType
from textual.await_complete import AwaitComplete
from textual.command import CommandPalette
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.timer import Timer, TimerCallback
from textual.widget import Widget
from textual.widgets import OptionList
from textual.worker import Worker


class Background(DOMNode):
    """What runs coroutine functions in the background.

    Textual's own takes a coroutine too, and Python warns of one that is cancelled before it begins.
    """

    def run_worker(  # type: ignore[override]
        self, work: Callable[[], Coroutine[Any, Any, None]], **options: Any
    ) -> Worker[None]:
        """Await what a function returns, unless this is taken off before."""

        async def begin() -> None:
            await work()

        worker: Worker[None] = super().run_worker(begin, **options)
        return worker


class SteadyScreen(Screen[ScreenResultType], Background):
    """A screen that takes only the newest of several sizes, and that is dismissed once.

    Textual's own answers each resize by one of that size to itself: two that wait in its queue
    follow each other for ever. And dismissed a second time, it takes off what lies below.
    """

    has_content = True
    """Whether the terminal is sent anything: Textual's own begins with the widgets as they are."""

    def _compositor_refresh(self) -> None:
        if self.has_content:
            super()._compositor_refresh()

    async def on_event(self, event: events.Event) -> None:
        """Leave out a size that the terminal no longer has: that which it has follows."""
        if not isinstance(event, events.Resize) or event.size == self.app.size:
            await super().on_event(event)

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Answer and be taken off, unless something else is on top by now."""
        return super().dismiss(result) if self.is_active else AwaitComplete()


class Dialog(ModalScreen[ScreenResultType], SteadyScreen[ScreenResultType]):
    """What asks something over another screen, and is answered once."""


class _SpansUpdate(ChopsUpdate):
    """An update that sends each span from where it begins.

    Textual's own begins at the left of the widget that the span lies in: three times the bytes,
    where charts grow at their right.
    """

    def render_segments(self, console: Console) -> str:
        """Return what is written to the terminal."""
        parts = []
        for y, first, last in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                start, end = max(first, x), min(last, end)
                if strip is not None and start < end:
                    parts.append(Control.move_to(start, y).segment.text)
                    parts.append(strip.crop(start - x, end - x).simplify().render(console))
        return "".join(parts)


class _SpansCompositor(Compositor):
    """A compositor whose partial updates are short."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """Return what changed, None for nothing."""
        update = super().render_partial_update()
        return update and _SpansUpdate(update.chops, update.spans, update.chop_ends)


def send_short_updates(screen: Screen[Any]) -> None:
    """Have a screen send the terminal what changed in a row, not all that lies left of it as well.

    A screen takes no compositor as a parameter. Call this where it is made.
    """
    screen._compositor = _SpansCompositor()


class PunctualApp(App[ReturnType], Background):
    """An app whose timers fire however busy the machine is.

    A timer of Textual's that is to fire once takes the moment as missed, and never fires, where its
    start is held up for as long as it waits. After a resize that is 8 ms, and the app then stays at
    the old size for ever: it waits for that timer with each later resize.
    """

    def set_timer(
        self,
        delay: float,
        callback: TimerCallback | None = None,
        *,
        name: str | None = None,
        pause: bool = False,
    ) -> Timer:
        """Call a function after a delay, in seconds."""
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        # Its task has not begun yet.
        timer._skip = False
        return timer


def _is_laid_out(options: OptionList) -> bool:
    """Return whether a list may be paged through: else Textual's own ends the app."""
    return bool(options._index_to_line)


class SteadyOptionList(OptionList):
    """A list that may be paged through before it is laid out, and where it has no room."""

    def _move_page(self, direction: Any) -> None:
        if _is_laid_out(self):
            super()._move_page(direction)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows the options need; Textual's own ends the app without a column."""
        padding = self.get_component_styles("option-list--option").padding.width
        return super().get_content_height(container, viewport, max(width, padding + 1))


class Palette(CommandPalette, SteadyScreen[None]):
    """A command palette that may be paged through before it is laid out, and closed while it looks.

    Textual's own does a command as often as it is chosen. The list in it is Textual's too.
    """

    async def _on_message(self, message: Message) -> None:
        if self.is_active or message.control is None:
            await super()._on_message(message)

    def _on_mount(self, event: events.Mount) -> None:
        if not self.is_active:
            # Closed by now: no screen lies below it that could have commands.
            event.prevent_default()

    def _gather_commands(self, search_value: str) -> Any:
        # What it would show them in is soon gone.
        return super()._gather_commands(search_value) if self.is_active else None

    def _action_command_list(self, action: str) -> None:
        if not action.startswith("page_") or _is_laid_out(self.query_one(OptionList)):
            super()._action_command_list(action)


def put_border_titles(widget: Widget, title: Content, subtitle: Content) -> None:
    """Set both titles of a border, and repaint nothing.

    The public attributes would repaint the whole widget, twice a second for one number.
    """
    widget._border_title, widget._border_subtitle = title, subtitle


def write_to_terminal(app: App[Any], sequence: str) -> None:
    """Send the terminal an escape sequence that Textual has no method for, if there is one."""
    if app._driver is not None:
        app._driver.write(sequence)


def allow_switching(app: App[Any], screen: Screen[Any]) -> None:
    """Let the app's default screen be replaced as any other; Textual forgets to prepare it."""
    screen._push_result_callback(app, None)


def start_with_theme(app: App[Any], name: str) -> None:
    """Choose the theme before the app runs, without reading every style sheet a second time."""
    app.set_reactive(App.theme, name)
    theme = app.current_theme
    app.set_class(theme.dark, "-dark-mode", update=False)
    app.set_class(not theme.dark, "-light-mode", update=False)
    app.stylesheet.set_variables(app.get_css_variables())
    app._refresh_truecolor_filter(app.ansi_theme)
