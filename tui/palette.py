"""The commands of the command palette, with their keys, and the keys of the help."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.binding import ActiveBinding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen

from dlmon.records.record import record
from dlmon.render.wrap import first_words
from tui.messages import Export
from tui.screens.key_groups import KeyHelp, group_of, without_function_keys
from tui.widgets.lines import fit

if TYPE_CHECKING:
    from tui.base_app import BaseApp

_NAME, _KEYS, _FRAME, _WIDTH = 20, 10, 6, 80
# What people look for first, on any screen.
_COMMON = ("log", "metrics", "compare", "stacks", "profile", "processes", "gpus", "sessions")
_TOGGLE_PANE = "toggle_pane"
# The groups from the most wanted command to those that stop what runs.
_ORDER = ("Look", "Share", "Time", "Move", "Run")
_WANTED = ("Look", "Share")
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
            row = _row(Content(command.name), command, self.screen.size.width)
            yield DiscoveryHit(row, command.run, command.name)

    async def search(self, query: str) -> Hits:
        """Offer commands with a word that begins so; one of the sentence has half the score."""
        matcher, words = self.matcher(query), re.compile(rf"\b{re.escape(query)}", re.IGNORECASE)
        for command in self._commands():
            in_name = words.search(command.name)
            if in_name or words.search(command.sentence):
                name = matcher.highlight(command.name) if in_name else Content(command.name)
                row = _row(name, command, self.screen.size.width)
                yield Hit(1.0 if in_name else 0.5, row, command.run, text=command.name)

    def _commands(self) -> Iterable[Command]:
        app: BaseApp = self.app  # type: ignore[assignment]
        return commands_of(app, self.screen)


def _row(name: Content, command: Command, width: int) -> Content:
    """Return a row of the palette: the name, the keys, and as much of the sentence as fits."""
    gap = " " * max(2, _NAME - cell_len(command.name))
    keys = fit(command.keys, _KEYS)
    room = max(1, min(_WIDTH, width) - _NAME - _KEYS - _FRAME)
    sentence = first_words(_first_clauses(command.sentence, room), room)
    return Content.assemble(name, gap, (keys, "$text-accent"), (sentence, "$text-muted"))


def _first_clauses(sentence: str, width: int) -> str:
    """Return the clauses of a sentence that fit, at least the first."""
    clauses = re.split(r"(?=[,;] )", sentence)
    while len(clauses) > 1 and cell_len("".join(clauses)) > width:
        clauses.pop()
    return "".join(clauses)


def commands_of(app: BaseApp, screen: Screen[object]) -> Iterable[Command]:
    """Yield the commands of a screen and of all screens, then what moves in it and what stops."""
    actives: dict[str, list[ActiveBinding]] = {}
    for active in _screen_bindings(screen):
        if active.enabled and active.binding.action != _PALETTE:
            actives.setdefault(active.binding.action, []).append(active)
    offered: dict[str, Command] = {}
    navigation: dict[str, Command] = {}
    for action, bound in actives.items():
        described = next((active for active in bound if active.binding.description), None)
        if described is None:
            continue
        name = described.binding.description
        displays = [app.get_key_display(active.binding) for active in bound]
        keys = " ".join(dict.fromkeys(without_function_keys(displays)))
        run = partial(app.run_action, action, default_namespace=screen)
        # What one does with keys or the mouse, and what stops a run, comes last.
        is_wanted = group_of(action) in _WANTED and not action.startswith(_TOGGLE_PANE)
        of = offered if is_wanted else navigation
        if name not in offered and name not in navigation:
            of[name] = Command(name, described.tooltip, keys, run)
    yield from offered.values()
    if "app.change_theme" not in actives:
        yield Command("Theme", "Choose other colours", "", app.action_change_theme)
    for name, attribute in (
        ("bell", "rings_at_end"),
        ("notification", "notifies_at_end"),
    ):
        yield Command(
            f"Turn {name} {_on_or_off(not getattr(app, attribute))}",
            "At the end of a run; config.toml sets the default",
            "",
            partial(_toggle, app, name, attribute),
        )
    # After the palette is gone from the screen.
    save = partial(app.set_timer, _CLOSES_S, partial(app.post_message, Export("picture", ())))
    yield Command("Screenshot", "Save this screen as SVG, in the working directory", "", save)
    yield from navigation.values()


def _toggle(app: BaseApp, name: str, attribute: str) -> None:
    is_on = not getattr(app, attribute)
    setattr(app, attribute, is_on)
    app.show_notice(f"{name} at the end of a run: {_on_or_off(is_on)}")


def keys_of(app: BaseApp) -> list[KeyHelp]:
    """Return the keys of each action of the top screen; one that takes a number is one action."""
    bindings = [b for b in _screen_bindings(app.screen) if b.tooltip or b.binding.description]
    displays = {app.get_key_display(active.binding) for active in bindings}
    by_action: dict[str, list[ActiveBinding]] = {}
    for active in bindings:
        by_action.setdefault(active.binding.action.partition("(")[0], []).append(active)
    key_help = []
    for action, actives in by_action.items():
        shown = [app.get_key_display(active.binding) for active in actives]
        # A footer's entry may name several keys; leave out those that have a row of their own.
        keys = dict.fromkeys(
            key for text in shown for key in text.split() if key == text or key not in displays
        )
        names = {active.binding.description for active in actives if active.binding.description}
        first = actives[0]
        name = action.replace("_", " ").capitalize() if len(names) > 1 else "".join(names)
        sentence = name if len(names) > 1 else first.tooltip
        key_help.append(KeyHelp(group_of(action), " ".join(keys), name, sentence or name))
    return key_help


def _screen_bindings(screen: Screen[Any]) -> list[ActiveBinding]:
    """Return a screen's bindings: the common, those of its footer, the others, those that stop."""
    bindings = [
        active
        for active in screen.active_bindings.values()
        if active.node is screen and active.binding.action not in _TEXTUAL_ACTIONS
    ]

    def order(active: ActiveBinding) -> tuple[bool, bool, int, bool, int]:
        action = active.binding.action
        group, is_toggle = group_of(action), action.startswith(_TOGGLE_PANE)
        common = _COMMON.index(action) if action in _COMMON else len(_COMMON)
        is_hidden = not active.binding.show
        return group == _ORDER[-1], is_toggle, common, is_hidden, _ORDER.index(group)

    return sorted(bindings, key=order)


def _on_or_off(value: bool) -> str:
    return "on" if value else "off"
