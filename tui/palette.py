"""The command palette: each command with the key that does the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

if TYPE_CHECKING:
    from tui.app import DlmonApp

_APART = "  "


@dataclass(frozen=True)
class Command:
    """What can be chosen: its name, what it does, its keys in words, and what does it."""

    name: str
    sentence: str
    keys: str
    run: Callable[[], Any]


class Commands(Provider):
    """Offers the commands of the topmost screen by their names."""

    async def discover(self) -> Hits:
        """Offer all of them, by name."""
        for command in self._commands():
            shown = _with_keys(Content(command.name), command.keys)
            yield DiscoveryHit(shown, command.run, command.name, command.sentence)

    async def search(self, query: str) -> Hits:
        """Offer those whose name matches, or whose sentence does, which count less."""
        matcher = self.matcher(query)
        for command in self._commands():
            score, shown = matcher.match(command.name), matcher.highlight(command.name)
            if score <= 0:
                score, shown = matcher.match(command.sentence) / 2, Content(command.name)
            if score > 0:
                yield Hit(
                    score,
                    _with_keys(shown, command.keys),
                    command.run,
                    text=command.name,
                    help=command.sentence,
                )

    def _commands(self) -> Iterable[Command]:
        app: DlmonApp = self.app  # type: ignore[assignment]
        return sorted(app.commands_of(self.screen), key=lambda command: command.name)


def _with_keys(name: Content, keys: str) -> Content:
    return Content.assemble(name, _APART, (keys, "$text-accent")) if keys else name
