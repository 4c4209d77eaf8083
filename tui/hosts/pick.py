"""Pick the hosts to watch: groups of the settings, and names of ~/.ssh/config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from dlmon.records.sanitize import clean
from dlmon.remote.hosts import GROUP_MARK
from tui.requests import WatchHosts
from tui.screens.base import HELP, PALETTE, QUIT, THEME, BaseScreen, hidden
from tui.widgets.lines import ACCENT, MUTED, PLAIN, wrapped
from tui.widgets.row_list import RowList
from tui.widgets.rows import TextRow, fit
from tui.widgets.text_field import TextField

_LONGEST_NAME = 32
_NOTHING = (
    "No host is known yet: type one below.",
    "Those that ~/.ssh/config names, and groups below [hosts] in config.toml, are listed here.",
)


class HostChoices(RowList):
    """Groups with their hosts, then hosts; some are marked.

    Args:
        groups: hosts by the name of their group.
        hosts: the others.
    """

    def __init__(self, groups: Mapping[str, Sequence[str]], hosts: Sequence[str]) -> None:
        super().__init__(id="choices")
        named = {f"{GROUP_MARK}{name}": ", ".join(members) for name, members in groups.items()}
        self._known: list[tuple[str, str]] = [*named.items(), *((host, "") for host in hosts)]
        self._marked: dict[str, None] = {}
        self.set_titles("Hosts", "")

    @property
    def count(self) -> int:
        return len(self._known)

    @property
    def chosen(self) -> tuple[str, ...]:
        """What is marked; where nothing is, what is highlighted."""
        if self._marked or not self._known:
            return tuple(self._marked)
        return (self._known[self.index][0],)

    def toggle_mark(self) -> None:
        """Mark what is highlighted, or mark it no more; then go on."""
        if self._known:
            name = self._known[self.index][0]
            if name in self._marked:
                del self._marked[name]
            else:
                self._marked[name] = None
            self.set_titles("Hosts", f"{len(self._marked)} marked" if self._marked else "")
            self.move(1)

    def heading(self, width: int) -> TextRow:
        has_groups = any(members for _, members in self._known)
        return (
            (f"   {fit('host', _LONGEST_NAME, self.ellipsis)}  {'group of' * has_groups}", MUTED),
        )

    def row_of(self, index: int, width: int) -> TextRow:
        name, members = self._known[index]
        mark = self.glyphs.dot if name in self._marked else " "
        return (
            (f" {mark} ", ACCENT),
            (f"{fit(clean(name), _LONGEST_NAME, self.ellipsis)}  ", PLAIN),
            (clean(members), MUTED),
        )

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Say where hosts are named."""
        lines = [line for text in _NOTHING for line in wrapped(text, width, height, self.ellipsis)]
        styles = [PLAIN, *[MUTED] * len(lines)]
        rows: list[TextRow] = [((line, style),) for line, style in zip(lines, styles, strict=False)]
        return rows[:height]


class _HostField(TextField):
    """Where hosts are typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Watch", tooltip="Watch the hosts that are typed"),
        Binding("escape", "screen.leave_field", "Back", tooltip="Go back"),
    ]


class HostPicker(BaseScreen):
    """Groups and hosts, of which some are picked.

    Args:
        groups: hosts by the name of their group, from the settings.
        hosts: those that ~/.ssh/config names.
    """

    DEFAULT_CSS = """
    HostPicker #choices { height: 1fr; }
    HostPicker #typed { margin: 0 1; }
    """
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "watch", "Watch", tooltip="Watch what is marked, or highlighted"),
        Binding("space", "mark", "Mark", tooltip="Mark what is highlighted, or no more"),
        Binding("b", "type", "By name", tooltip="Type a host that is not in the list"),
        HELP,
        Binding("q", "leave", "Back", tooltip="Go back"),
        THEME,
        hidden("escape", "leave", "Back"),
        PALETTE,
        QUIT,
        hidden("up", "move(-1)", "Host above"),
        hidden("down", "move(1)", "Host below"),
        hidden("pageup", "move_page(-1)", "Page up"),
        hidden("pagedown", "move_page(1)", "Page down"),
        hidden("home", "move(-1000000)", "First host"),
        hidden("end", "move(1000000)", "Last host"),
    ]
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            "Hosts",
            "Groups of hosts from the settings, then the hosts that ~/.ssh/config names. Enter "
            "watches those that are marked, where none is the highlighted one: GPUs, who is on "
            "them, and what dlmon trains there.",
        ),
        (
            "Another host",
            "Any that ssh reaches: NAME, USER@NAME or ssh://USER@NAME:PORT; several with blanks "
            "between them. b goes there, esc back to the list.",
        ),
    )

    def __init__(self, groups: Mapping[str, Sequence[str]], hosts: Sequence[str]) -> None:
        super().__init__()
        self._choices = HostChoices(groups, hosts)

    def compose_parts(self) -> ComposeResult:
        yield self._choices
        yield _HostField(placeholder="another host: NAME or USER@NAME, as ssh takes it", id="typed")

    @property
    def _typed(self) -> TextField:
        return self.query_one("#typed", TextField)

    def on_mount(self) -> None:
        """Start in the list, or where a host is typed if there is nothing to choose."""
        self.set_focus(None if self._choices.count else self._typed)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Ask for the cards of the hosts that were typed."""
        words = tuple(message.value.split())
        if words:
            self.post_message(WatchHosts(words))

    def on_row_list_chosen(self) -> None:
        self.action_watch()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to mark and to watch only where there is something, and nobody types."""
        in_list = bool(self._choices.count) and not self._typed.has_focus
        return action not in ("mark", "watch", "type") or in_list

    def action_watch(self) -> None:
        """Ask for the cards of what is marked, or highlighted."""
        if self._choices.chosen:
            self.post_message(WatchHosts(self._choices.chosen))

    def action_type(self) -> None:
        self.set_focus(self._typed)
        self.refresh_bindings()

    def action_leave_field(self) -> None:
        """Go back to the list, or leave."""
        if self._typed.has_focus and self._choices.count:
            self.set_focus(None)
            self.refresh_bindings()
        else:
            self.action_leave()

    def action_mark(self) -> None:
        self._choices.toggle_mark()

    def action_move(self, steps: int) -> None:
        self._choices.move(steps)

    def action_move_page(self, direction: int) -> None:
        self._choices.move_page(direction)
