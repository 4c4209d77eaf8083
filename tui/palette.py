"""The commands of the command palette, with their keys, and the keys of the help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.binding import ActiveBinding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen

from dlmon.records.record import record
from tui.messages import Export

if TYPE_CHECKING:
    from tui.base_app import BaseApp

_APART = "  "
_CLOSES_S = 0.2
_PALETTE = "app.command_palette"
# Actions that every screen of Textual has.
_TEXTUAL_ACTIONS = ("app.focus_next", "app.focus_previous", "screen.copy_text")


@record(frozen=True)
class Command:
    """A command of the palette: its name, an explanation, its keys, and its action."""

    name: str
    sentence: str
    keys: str
    run: Callable[[], Any]


class Commands(Provider):
    """Offers the commands of the top screen."""

    async def discover(self) -> Hits:
        for command in self._commands():
            name = _with_keys(Content(command.name), command.keys)
            yield DiscoveryHit(name, command.run, command.name, command.sentence)

    async def search(self, query: str) -> Hits:
        """Offer commands whose name matches; a match of the sentence has half the score."""
        matcher = self.matcher(query)
        for command in self._commands():
            score, name = matcher.match(command.name), matcher.highlight(command.name)
            if score <= 0:
                score, name = matcher.match(command.sentence) / 2, Content(command.name)
            if score > 0:
                yield Hit(
                    score,
                    _with_keys(name, command.keys),
                    command.run,
                    text=command.name,
                    help=command.sentence,
                )

    def _commands(self) -> Iterable[Command]:
        app: BaseApp = self.app  # type: ignore[assignment]
        return sorted(commands_of(app, self.screen), key=lambda command: command.name)


def _with_keys(name: Content, keys: str) -> Content:
    return Content.assemble(name, _APART, (keys, "$text-accent")) if keys else name


def commands_of(app: BaseApp, screen: Screen[object]) -> Iterable[Command]:
    """Yield a command for each action of a screen, then the commands of all screens."""
    actives: dict[str, list[ActiveBinding]] = {}
    for active in _screen_bindings(screen):
        if active.enabled and active.binding.action != _PALETTE:
            actives.setdefault(active.binding.action, []).append(active)
    names = set()
    for action, bound in actives.items():
        described = next((active for active in bound if active.binding.description), None)
        if described is None or described.binding.description in names:
            continue
        names.add(described.binding.description)
        yield Command(
            described.binding.description,
            described.tooltip,
            " ".join(dict.fromkeys(app.get_key_display(active.binding) for active in bound)),
            partial(app.run_action, action, default_namespace=screen),
        )
    if "app.change_theme" not in actives:
        yield Command("Theme", "Choose other colours", "", app.action_change_theme)
    for name, attribute in (
        ("bell", "rings_at_end"),
        ("desktop notification", "notifies_at_end"),
    ):
        yield Command(
            f"Turn the {name} {_on_or_off(not getattr(app, attribute))}",
            "At the end of a run; config.toml sets the default",
            "",
            partial(_toggle, app, name, attribute),
        )
    # After the palette is gone from the screen.
    save = partial(app.set_timer, _CLOSES_S, partial(app.post_message, Export("picture", ())))
    yield Command("Screenshot", "Save this screen as SVG in the working directory", "", save)


def _toggle(app: BaseApp, name: str, attribute: str) -> None:
    is_on = not getattr(app, attribute)
    setattr(app, attribute, is_on)
    app.show_notice(f"{name} at the end of a run: {_on_or_off(is_on)}")


def keys_of(app: BaseApp) -> list[tuple[str, str]]:
    """Return the keys of each action of the top screen, with a sentence that explains it."""
    keys: dict[str, dict[str, None]] = {}
    descriptions: dict[str, str] = {}
    bindings = _screen_bindings(app.screen)
    displays = {app.get_key_display(active.binding) for active in bindings}
    for active in bindings:
        action, display = active.binding.action, app.get_key_display(active.binding)
        # A footer's entry may name several keys; leave out those that have a row of their own.
        names = [name for name in display.split() if name == display or name not in displays]
        keys.setdefault(action, {})[" ".join(names)] = None
        descriptions[action] = (
            descriptions.get(action) or active.tooltip or active.binding.description
        )
    return [(" ".join(keys[action]), words) for action, words in descriptions.items() if words]


def _screen_bindings(screen: Screen[Any]) -> list[ActiveBinding]:
    """Return a screen's bindings, first those that its footer shows."""
    bindings = [
        active
        for active in screen.active_bindings.values()
        if active.node is screen and active.binding.action not in _TEXTUAL_ACTIONS
    ]
    return sorted(bindings, key=lambda active: not active.binding.show)


def _on_or_off(value: bool) -> str:
    return "on" if value else "off"
