"""Every use of Textual's private names: look here when a new version breaks something."""

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


def arrange_again(container: Widget) -> None:
    """Lay out a container whose arrangement changed, though its size and its children did not.

    By these Textual keeps the arrangement, and drops it only if a child asks for a layout.
    """
    container._clear_arrangement_cache()
    container.refresh(layout=True)


class Background(DOMNode):
    """A node whose workers are coroutine functions.

    Textual also takes coroutines, but Python warns if one is cancelled before it begins.
    """

    def run_worker(  # type: ignore[override]
        self, work: Callable[[], Coroutine[Any, Any, None]], **options: Any
    ) -> Worker[None]:
        """Call and await a function in the background, until the node is removed."""

        async def begin() -> None:
            await work()

        worker: Worker[None] = super().run_worker(begin, **options)
        return worker


class SteadyScreen(Screen[ScreenResultType], Background):
    """A screen that ignores outdated sizes, and can be dismissed only once.

    Textual's screen answers each resize with one of the same size to itself: two of them in its
    queue alternate for ever. And if it is dismissed twice, the screen below is closed too.
    """

    has_content = True
    """Paint the screen; Textual paints widgets before they have content."""

    def _compositor_refresh(self) -> None:
        if self.has_content:
            super()._compositor_refresh()

    async def on_event(self, event: events.Event) -> None:
        """Ignore a size that the terminal no longer has: an event with its size follows."""
        if not isinstance(event, events.Resize) or event.size == self.app.size:
            await super().on_event(event)

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the screen with a result, unless another screen is on top."""
        return super().dismiss(result) if self.is_active else AwaitComplete()


class Dialog(ModalScreen[ScreenResultType], SteadyScreen[ScreenResultType]):
    """A modal screen that returns one result."""


class _SpansUpdate(ChopsUpdate):
    """An update that sends only the changed spans.

    Textual begins each span at the left edge of its widget, which takes three times the bytes if a
    chart grows at its right.
    """

    def render_segments(self, console: Console) -> str:
        parts = []
        for y, first, last in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                start, end = max(first, x), min(last, end)
                if strip is not None and start < end:
                    parts.append(Control.move_to(start, y).segment.text)
                    parts.append(strip.crop(start - x, end - x).simplify().render(console))
        return "".join(parts)


class _SpansCompositor(Compositor):
    """A compositor with short partial updates."""

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return update and _SpansUpdate(update.chops, update.spans, update.chop_ends)


def send_short_updates(screen: Screen[Any]) -> None:
    """Let a screen send only the changed part of a row; call this in its `__init__`."""
    screen._compositor = _SpansCompositor()


class PunctualApp(App[ReturnType], Background):
    """An app whose timers fire however busy the machine is.

    A one-shot timer of Textual never fires if its task starts later than its delay. The delay after
    a resize is 8 ms: if that timer is lost, the app keeps the old size for ever.
    """

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """Do what a key is bound to; if none of that can be done, let the screen say why."""
        is_done = await super()._check_bindings(key, priority)
        if not is_done and not priority:
            for binding in self.screen._bindings.key_to_bindings.get(key, ()):
                if self.explain_refusal(binding.action):
                    break
        return is_done

    def explain_refusal(self, action: str) -> bool:
        """Say why the top screen can't do an action now; return whether there was a reason."""
        return False

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
        # In time, as the timer's task has not begun yet.
        timer._skip = False
        return timer


def _is_laid_out(options: OptionList) -> bool:
    """Return whether a list is laid out; before that, paging through it would crash the app."""
    return bool(options._index_to_line)


class SteadyOptionList(OptionList):
    """A list that can be paged through before it is laid out, and can be too narrow."""

    def _move_page(self, direction: Any) -> None:
        if _is_laid_out(self):
            super()._move_page(direction)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the rows that the options need; Textual would crash at a width of zero."""
        padding = self.get_component_styles("option-list--option").padding.width
        return super().get_content_height(container, viewport, max(width, padding + 1))


class Palette(CommandPalette, SteadyScreen[None]):
    """A command palette that can be paged through before its layout, and closed during a search.

    It runs a command once, even if the user chose it twice.
    """

    async def _on_message(self, message: Message) -> None:
        if self.is_active or message.control is None:
            await super()._on_message(message)

    def _on_mount(self, event: events.Mount) -> None:
        if not self.is_active:
            # Closed already: there is no screen below to take commands from.
            event.prevent_default()

    def _gather_commands(self, search_value: str) -> Any:
        # Once closed, the list for the commands is about to be removed.
        return super()._gather_commands(search_value) if self.is_active else None

    def _action_command_list(self, action: str) -> None:
        if not action.startswith("page_") or _is_laid_out(self.query_one(OptionList)):
            super()._action_command_list(action)


def put_border_titles(widget: Widget, titles: dict[int, Content]) -> None:
    """Set the titles of a border, above (0) and below (1), without the repaint of all of it."""
    for at, title in titles.items():
        setattr(widget, ("_border_title", "_border_subtitle")[at], title)


def write_to_terminal(app: App[Any], sequence: str) -> None:
    """Write an escape sequence to the terminal, if there is one."""
    if app._driver is not None:
        app._driver.write(sequence)


def allow_switching(app: App[Any], screen: Screen[Any]) -> None:
    """Let `switch_screen` replace the app's default screen, which Textual doesn't prepare."""
    screen._push_result_callback(app, None)


def start_with_theme(app: App[Any], name: str) -> None:
    """Set the theme before the app runs, so that style sheets are parsed only once."""
    app.set_reactive(App.theme, name)
    theme = app.current_theme
    app.set_class(theme.dark, "-dark-mode", update=False)
    app.set_class(not theme.dark, "-light-mode", update=False)
    app.stylesheet.set_variables(app.get_css_variables())
    app._refresh_truecolor_filter(app.ansi_theme)
