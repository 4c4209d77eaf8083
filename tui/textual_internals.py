"""Every use of what Textual keeps private: where to look when a new version breaks something."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.control import Control
from textual import events
from textual._compositor import ChopsUpdate, Compositor
from textual.app import App, ReturnType
from textual.await_complete import AwaitComplete
from textual.command import CommandPalette
from textual.content import Content
from textual.css.styles import RenderStyles
from textual.dom import DOMNode
from textual.geometry import Region
from textual.message import Message
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.strip import Strip
from textual.timer import Timer, TimerCallback
from textual.widget import Widget
from textual.widgets import OptionList


class SteadyScreen(Screen[ScreenResultType]):
    """A screen that takes only the newest of several sizes, and that is dismissed once.

    Textual's own answers each resize by one of that size to itself: two that wait in its queue
    follow each other for ever. And dismissed a second time, it takes off what lies below.
    """

    async def on_event(self, event: events.Event) -> None:
        """Leave out a size that the terminal no longer has: that which it has follows."""
        if not isinstance(event, events.Resize) or event.size == self.app.size:
            await super().on_event(event)

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Answer and be taken off, unless something else is on top by now."""
        return super().dismiss(result) if self.is_active else AwaitComplete()


class Dialog(ModalScreen[ScreenResultType], SteadyScreen[ScreenResultType]):
    """What asks something over another screen, and is answered once."""

    async def _on_message(self, message: Message) -> None:
        """Leave out what its widgets have yet to say when it is closed: a second answer."""
        if self.is_active or message.control is None:
            await super()._on_message(message)


class _Palette(CommandPalette, Dialog[None]):
    """A command palette that may be paged through before it is laid out, and closed while it looks.

    Textual's own ends the app.
    """

    def _on_mount(self, event: events.Mount) -> None:
        if not self.is_active:
            # Closed by now: no screen lies below it that could have commands.
            event.prevent_default()

    def _gather_commands(self, search_value: str) -> Any:
        # What it would show them in is soon gone.
        return super()._gather_commands(search_value) if self.is_active else None

    def _pop_result_callback(self) -> None:
        super()._pop_result_callback()
        self.workers.cancel_node(self)

    def _action_command_list(self, action: str) -> None:
        is_laid_out = bool(self.query_one(OptionList)._index_to_line)
        if is_laid_out or not action.startswith("page_"):
            super()._action_command_list(action)


def ended_by_error(app: App[Any]) -> bool:
    """Return whether an exception ended an app, which has shown it."""
    return app._exception is not None


def open_palette(app: App[Any]) -> None:
    """Open the command palette, unless it is; one that was closed may not be gone yet."""
    if not isinstance(app.screen, _Palette):
        app.push_screen(_Palette())


class SpansUpdate(ChopsUpdate):
    """An update that sends each span from where it begins.

    Textual's own begins at the left of the widget that the span lies in: several
    times the bytes, where a chart grows at its right.
    """

    def render_segments(self, console: Console) -> str:
        """Return what is written to the terminal."""
        parts = []
        for y, first, last in self.spans:
            strips = self.chops[y].items()
            for end, (x, strip) in zip(self.chop_ends[y], strips, strict=False):
                start, end = max(first, x), min(last, end)
                if strip is not None and start < end:
                    parts.append(Control.move_to(start, y).segment.text)
                    parts.append(strip.crop(start - x, end - x).simplify().render(console))
        return "".join(parts)


class _SpansCompositor(Compositor):
    """A compositor whose partial updates are short, and render no more than they send.

    Textual's own renders each widget that overlaps a region around all changes, which on a screen
    with a change in two corners is every widget.
    """

    _spans: list[_Span] | None = None

    def render_partial_update(self) -> ChopsUpdate | None:
        """Return what changed, None for nothing."""
        self._spans = list(self._regions_to_spans(self._dirty_regions))
        try:
            update = super().render_partial_update()
        finally:
            self._spans = None
        if update is None:
            return None
        return SpansUpdate(update.chops, update.spans, update.chop_ends)

    def _get_renders(
        self, crop: Region | None = None
    ) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """Yield the place of each widget that is needed, its clip, and its rows within that."""
        if self._spans is None:
            yield from super()._get_renders(crop)
            return
        uncovered = self._spans
        # The front comes first; what it covers needs no widget behind it.
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            ys = [y for y, start, end in uncovered if _meets(seen, y, start, end)]
            if not ys:
                continue
            rows = Region(seen.x, ys[0], seen.width, ys[-1] + 1 - ys[0])
            yield region, rows, widget.render_lines(rows.translate(-region.offset))
            uncovered = [rest for span in uncovered for rest in _without(seen, span)]
            if not uncovered:
                return


_Span = tuple[int, int, int]
"""A row of the screen, the first cell of what changed in it, and the cell after the last."""


def _meets(region: Region, y: int, start: int, end: int) -> bool:
    return region.y <= y < region.bottom and start < region.right and region.x < end


def _without(region: Region, span: _Span) -> list[_Span]:
    """Return the parts of a span that lie outside of a region."""
    y, start, end = span
    if not _meets(region, y, start, end):
        return [span]
    sides = ((y, start, region.x), (y, region.right, end))
    return [(y, first, last) for y, first, last in sides if first < last]


def send_short_updates(screen: Screen[Any]) -> None:
    """Have a screen send the terminal what changed in a row, not all that lies left of it as well.

    A screen takes no compositor as a parameter. Call this where it is made.
    """
    screen._compositor = _SpansCompositor()


class StyledOnUse(Widget):
    """A widget whose component classes are styled once they are drawn with.

    Textual styles all of them with each change of the widget's own style: on a screen of charts,
    hundreds that nothing is drawn with, a third of what a first paint costs.
    """

    def _get_component_classes(self) -> frozenset[str]:  # type: ignore[override]
        # Asked for when the style sheets are applied: what is in use follows them.
        return frozenset(self._component_styles)

    def get_component_styles(self, *names: str) -> RenderStyles:
        """Return the style of component classes; a KeyError where one is not declared."""
        declared = type(self)._declared_component_classes()
        for name in declared.intersection(names).difference(self._component_styles):
            self._component_styles[name] = self._component_style(name)
        return super().get_component_styles(*names)

    def _component_style(self, name: str) -> RenderStyles:
        sheet = self.app.stylesheet
        # Reading its rules parses what was added. Without that, apply looks for the rules of the
        # old text among those of the new one after a file was read, and finds none.
        _ = sheet.rules
        node = DOMNode(classes=name)
        node._attach(self)
        sheet.apply(node)
        return node.styles

    @classmethod
    def _declared_component_classes(cls) -> frozenset[str]:
        return super()._get_component_classes()


class PunctualApp(App[ReturnType]):
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


def put_border_titles(widget: Widget, title: Content, subtitle: Content) -> None:
    """Set both titles of a border, and repaint nothing.

    The public attributes would repaint the whole widget, twice a second for one number.
    """
    widget._border_title, widget._border_subtitle = title, subtitle


@contextlib.contextmanager
def hidden(screen: Screen[Any], selector: str) -> Iterator[None]:
    """Lay a screen out at once without some of its widgets, and with them again at the end.

    Nothing of that is sent to the terminal.
    """
    widgets = screen.query(selector)
    with screen.app.batch_update():
        widgets.set(visible=False)
        screen._refresh_layout()
        try:
            yield
        finally:
            widgets.set(visible=True)
            screen._refresh_layout()


def write_to_terminal(app: App[Any], sequence: str) -> None:
    """Send the terminal an escape sequence that Textual has no method for, if there is one."""
    if app._driver is not None:
        app._driver.write(sequence)


def give_and_take_terminal(app: App[Any]) -> None:
    """Leave the terminal at each SIGTSTP and take it again at each SIGCONT; call this on the loop.

    Textual does the first within the signal, wherever the main thread is. While that holds the lock
    of what is to be written, it would wait for itself, for ever. And after a SIGSTOP, which no
    process can handle, Textual would start a second thread that reads the keys, and would leave
    the terminal as an app has it.
    """
    driver: Any = app._driver
    if driver is None or not driver.can_suspend:
        return

    def leave() -> None:
        if driver._auto_restart and not driver._must_signal_resume:
            driver.suspend_application_mode()
            driver._must_signal_resume = True

    def suspend() -> None:
        leave()
        os.kill(os.getpid(), signal.SIGSTOP)

    def resume() -> None:
        if driver._auto_restart:
            leave()
            driver.resume_application_mode()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTSTP, suspend)
    loop.add_signal_handler(signal.SIGCONT, resume)


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
