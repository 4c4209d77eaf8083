"""The footer: the keys of a screen in its last row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from textual.binding import ActiveBinding
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Static

_HELP = "app.help"


class KeyFooter(Static):
    """The keys that fit, and always, at the right end, the help key.

    Textual's footer has a widget for each key, and makes them all again when a binding changes.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom;
        height: 1;
        color: $footer-description-foreground;
        background: $footer-background;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.auto_links = False
        self.offered: list[ActiveBinding] = []
        """The bindings that can be pressed now, whether or not they fit."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._show_keys)

    def _show_keys(self, screen: Screen[object]) -> None:
        if not screen.app.app_focus or screen is not self.screen:
            return
        offered = [active for active in screen.active_bindings.values() if active.binding.show]
        if offered != self.offered:
            self.offered = offered
            self.refresh()

    def render(self) -> Content:
        keys: dict[str, ActiveBinding] = {}
        for active in self.offered:
            keys.setdefault(active.binding.action, active)
        help_key = keys.pop(_HELP, None)
        end = self._part([help_key]) if help_key is not None else Content("")
        row, room = Content(""), self.size.width + 1 - end.cell_length
        parts = (
            self._part(part)
            for group, members in groupby(keys.values(), lambda active: active.binding.group)
            for part in ([[*members]] if group is not None else [[key] for key in members])
        )
        for part in parts:
            if row.cell_length + part.cell_length > room:
                break
            row = Content.assemble(row, part)
        return Content.assemble(row.pad_right(max(0, room - row.cell_length - 1)), end)

    def _part(self, keys: Sequence[ActiveBinding]) -> Content:
        """Return keys side by side, which a click presses, and what they do."""
        first = keys[0].binding
        name = first.group.description if first.group and len(keys) > 1 else first.description
        signs = [
            Content.styled(
                self.app.get_key_display(key.binding),
                Style.parse("bold $footer-key-foreground")
                + Style.from_meta({"@click": f"app.simulate_key('{key.binding.key}')"}),
            )
            for key in keys
        ]
        press = Style.from_meta({"@click": f"app.simulate_key('{first.key}')"})
        return Content.assemble(" ", *signs, (f" {name} ", press if len(keys) == 1 else ""))
