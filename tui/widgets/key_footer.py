"""The keys of a screen in its last row, as many as have room."""

from __future__ import annotations

from itertools import zip_longest

from textual.widget import Widget
from textual.widgets import Footer

from tui.textual_internals import names_a_group


class KeyFooter(Footer):
    """Textual's own footer, less the key that would be cut at the right end."""

    def __init__(self) -> None:
        """Leave the key of the command palette to the screens."""
        super().__init__(show_command_palette=False)

    async def recompose(self) -> None:
        """Offer other keys."""
        await super().recompose()
        self.call_after_refresh(self._hide_what_is_cut)

    def on_resize(self) -> None:
        """Offer as many as have room now."""
        self.call_after_refresh(self._hide_what_is_cut)

    def _hide_what_is_cut(self) -> None:
        keys = list(self.children)
        for key, after in zip_longest(keys, keys[1:]):
            # The name of a group stands after its keys.
            named = after is None or not names_a_group(after) or self._fits(after)
            key.visible = self._fits(key) and named

    def _fits(self, key: Widget) -> bool:
        blank = 0 if names_a_group(key) else 1
        return key.region.right - blank <= self.region.right
