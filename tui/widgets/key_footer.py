"""The keys of a screen in its last row, as many as have room, and how to see the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import ActiveBinding
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget

_HELP, _WAY_OUT = "app.help", "leave"


class _Part(NamedTuple):
    """A stretch of the row: a key, which a click presses, or the name of a group of keys."""

    content: Content
    key: ActiveBinding | None = None


class KeyFooter(Widget):
    """One row of keys and what they do; one that would be cut at the right end is left out.

    Where some are left out, the row ends with the key that lists them all: "… ? all keys". The one
    that leaves the screen is always among the others.

    It looks as Textual's own footer does, which is a widget for each key, made again
    whenever the focus moves.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "key-footer--key",
        "key-footer--description",
        "key-footer--hover",
    }
    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom;
        height: 1;
        color: $footer-foreground;
        background: $footer-background;

        & > .key-footer--key {
            color: $footer-key-foreground;
            background: $footer-key-background;
            text-style: bold;
        }
        & > .key-footer--description {
            color: $footer-description-foreground;
            background: $footer-description-background;
        }
        & > .key-footer--hover {
            color: $footer-key-foreground;
            background: $block-hover-background;
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[ActiveBinding] = []
        """What can be pressed now, with or without room for it."""
        self._parts: list[_Part] = []
        self._pointed: ActiveBinding | None = None

    def on_mount(self) -> None:
        """Follow what the keys of the screen are."""
        self.screen.bindings_updated_signal.subscribe(self, self._show_keys)

    def _show_keys(self, screen: Screen[object]) -> None:
        if not screen.app.app_focus or screen is not self.screen:
            return
        offered = [active for active in screen.active_bindings.values() if active.binding.show]
        if offered != self.offered:
            self.offered = offered
            self.refresh()

    def render(self) -> Content:
        self._parts = self._fitting()
        return Content("").join(part.content for part in self._parts)

    def _fitting(self) -> list[_Part]:
        """Return what the row has room for; the name of a group stands after its keys."""
        width = self.size.width
        groups = self._groups()
        # The blank after the last key may be cut.
        if sum(map(_cells, groups)) <= width + 1:
            return [part for together in groups for part in together]
        help_key = next((key for key in self.offered if key.binding.action == _HELP), None)
        end = self._end(help_key)
        fitting = self._first(groups, help_key, width + 1 - _cells(end))
        if not fitting:
            return end if _cells(end) <= width + 1 else []
        room = width + 1 - _cells(fitting) - _cells(end)
        return [*fitting, _Part(Content(" " * room)), *end]

    def _first(
        self, groups: list[list[_Part]], help_key: ActiveBinding | None, room: int
    ) -> list[_Part]:
        """Return what comes first and has room, and the way out."""
        kept = [group for group in groups if help_key is None or group[0].key != help_key]
        way_out = next((group for group in kept if _leaves(group)), [])
        fitting: list[_Part] = []
        left = room - _cells(way_out)
        for group in kept:
            left -= 0 if group is way_out else _cells(group)
            if left < 0:
                break
            fitting += group
        is_out = not way_out or way_out[0] in fitting
        return fitting if is_out or _cells(way_out) > room else [*fitting, *way_out]

    def _end(self, help_key: ActiveBinding | None) -> list[_Part]:
        """Return what stands at the right end where keys are left out."""
        style = self.get_visual_style("key-footer--description")
        more = _Part(Content.assemble(("… ", style)))
        if help_key is None:
            return [more]
        return [more, self._part(help_key, "", " all keys ")]

    def _groups(self) -> list[list[_Part]]:
        """Return what is shown or left out together, in the order of the bindings."""
        first_of: dict[str, ActiveBinding] = {}
        for active in self.offered:
            first_of.setdefault(active.binding.action, active)
        parts = []
        for group, members in groupby(first_of.values(), lambda active: active.binding.group):
            keys = [*members]
            if group is None or len(keys) == 1:
                parts += [[self._part(key, " ", f"{key.binding.description} ")] for key in keys]
                continue
            blank = _Part(Content(" "))
            style = self.get_visual_style("key-footer--description")
            name = _Part(Content.assemble((f"{group.description} ", style)))
            parts.append([blank, *(self._part(key) for key in keys), blank, name])
        return parts

    def _part(self, key: ActiveBinding, around: str = "", description: str = "") -> _Part:
        text = f"{around}{self.app.get_key_display(key.binding)}{around}"
        names = ("hover", "hover") if key == self._pointed else ("key", "description")
        styles = [self.get_visual_style(f"key-footer--{name}") for name in names]
        dim = Style() if key.enabled else Style(dim=True)
        return _Part(Content.assemble((text, styles[0] + dim), (description, styles[1] + dim)), key)

    def on_click(self, event: events.Click) -> None:
        """Press the key that lies under the mouse."""
        key = self._key_at(event.x)
        if key is None:
            return
        if key.enabled:
            self.app.simulate_key(key.binding.key)
        else:
            self.app.bell()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Explain the key that lies under the mouse."""
        self._point_at(self._key_at(event.x))

    def on_leave(self) -> None:
        self._point_at(None)

    def _point_at(self, key: ActiveBinding | None) -> None:
        if key != self._pointed:
            self._pointed = key
            self.tooltip = None if key is None else key.tooltip or key.binding.description
            self.refresh()

    def _key_at(self, column: int) -> ActiveBinding | None:
        for part in self._parts:
            column -= part.content.cell_length
            if column < 0:
                return part.key
        return None


def _leaves(group: list[_Part]) -> bool:
    return any(part.key is not None and part.key.binding.action == _WAY_OUT for part in group)


def _cells(parts: Sequence[_Part]) -> int:
    return sum(part.content.cell_length for part in parts)
