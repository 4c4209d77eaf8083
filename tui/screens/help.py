"""What every panel and figure of a screen means, and its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.screens.base import BaseScreen
from tui.widgets.explanations import Explanations, Topic


class HelpScreen(BaseScreen):
    """The keys of a screen, then its panels and figures, a sentence each.

    It covers the other screen, which would have to be drawn again behind it otherwise.

    Args:
        keys: each key with what it does.
        topics: each panel or figure with what it means.
        first: what to know before all else.
    """

    CSS_PATH = "help.tcss"
    USES_SENSORS_BELOW = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "close", "Close", key_display="esc"),
        Binding("ctrl+c,ctrl+q", "close", show=False),
        Binding("up,k", "scroll(-1)", "Scroll", key_display="↑↓"),
        Binding("down,j", "scroll(1)", "Scroll down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home", "page(-1000)", "Go to start", show=False),
        Binding("end", "page(1000)", "Go to end", show=False),
    ]

    def __init__(
        self, keys: Sequence[Topic], topics: Sequence[Topic], first: Sequence[Topic] = ()
    ) -> None:
        super().__init__()
        in_short = [("In short", first, 0)] if first else []
        self._explanations = Explanations(
            (*in_short, ("Keys", keys, 0), ("On this screen", topics, 1)), id="help"
        )

    def compose_parts(self) -> ComposeResult:
        """Lay out the explanations in a box that scrolls."""
        self._explanations.set_titles("Help")
        yield self._explanations

    def on_resize(self) -> None:
        """Offer to scroll where there is more than fits, once that is known."""
        self.call_after_refresh(self.refresh_bindings)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to scroll only where there is more than fits."""
        return action not in ("scroll", "page") or self._explanations.scrolls

    def action_scroll(self, lines: int) -> None:
        self._explanations.scroll_lines(lines)

    def action_page(self, pages: int) -> None:
        """Scroll by a page; up is negative."""
        self._explanations.scroll_pages(pages)

    def action_close(self) -> None:
        self.dismiss()
