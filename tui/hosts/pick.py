"""The screen that picks hosts to watch, from the groups of the settings and ~/.ssh/config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, OptionList, Static

from dlmon.records.sanitize import clean
from dlmon.remote.host_names import GROUP_MARK
from tui.messages import WatchHosts
from tui.screens.base import BACK, BaseScreen
from tui.textual_internals import SteadyOptionList
from tui.widgets.lines import fit
from tui.widgets.text_field import TextField

_LONGEST_NAME = 32
_NOTHING = """Watch other machines: their GPUs, who is on them, what dlmon trains there.
Nothing has to be installed there.

Type below what you would type after ssh, and press Enter:

  gpu1              a host
  anna@10.0.0.7     a user and an address
  gpu1 gpu2 gpu3    several at once

Hosts of ~/.ssh/config and groups of [hosts] in config.toml are listed here."""


class _HostField(TextField):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Watch", tooltip="Watch the hosts that are typed"),
        Binding("escape", "screen.leave_field", "Back", tooltip="Go back"),
    ]


class HostPicker(BaseScreen):
    """A list of groups and hosts to pick from."""

    DEFAULT_CSS = """
    HostPicker #choices {
        width: 100%;
        height: 1fr;
        padding: 0 1;
        background: $background;
    }
    HostPicker OptionList {
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    HostPicker Static#choices { height: auto; }
    HostPicker #typed { margin: 0 1; }
    """
    AUTO_FOCUS = "#choices, #typed"
    # With priority: otherwise the list would take these keys to choose a single host.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "watch",
            "Watch",
            priority=True,
            tooltip="Watch what is marked, or highlighted",
        ),
        Binding(
            "space",
            "mark",
            "Mark",
            priority=True,
            tooltip="Mark or unmark what is highlighted; so does a click",
        ),
        Binding("b", "type", "By name", tooltip="Type a host that is not in the list"),
        *BACK,
    ]
    HELP_PAGES = (Path(__file__).with_name("pick.md"),)

    def __init__(self, groups: Mapping[str, Sequence[str]], hosts: Sequence[str]) -> None:
        super().__init__()
        members = {f"{GROUP_MARK}{name}": ", ".join(hosts) for name, hosts in groups.items()}
        self._members = {**members, **dict.fromkeys(hosts, "")}
        self._marked: dict[str, None] = {}
        prompts = map(self._prompt, self._members)
        self._choices = SteadyOptionList(*prompts, id="choices", classes="panel")
        self._field = _HostField(
            placeholder="another host: NAME or USER@NAME, as ssh takes it", id="typed"
        )

    def compose_parts(self) -> ComposeResult:
        nothing = Static(_NOTHING, id="choices", classes="panel", markup=False)
        shown = self._choices if self._members else nothing
        shown.border_title = "Hosts"
        yield shown
        yield self._field

    def _prompt(self, name: str) -> Content:
        mark = "●" if name in self._marked else " "
        members = (clean(self._members[name]), "$text-muted 60%")
        label = fit(clean(name), _LONGEST_NAME)
        return Content.assemble((f"{mark} ", "bold $text-accent"), f"{label}  ", members)

    def _toggle(self, index: int) -> None:
        name = list(self._members)[index]
        if name in self._marked:
            del self._marked[name]
        else:
            self._marked[name] = None
        self._choices.replace_option_prompt_at_index(index, self._prompt(name))
        self._choices.border_subtitle = f"{len(self._marked)} marked" if self._marked else ""

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        self._toggle(message.option_index)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        words = tuple(message.value.split())
        if words:
            self.post_message(WatchHosts(words))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to mark and to watch only if the list has the focus."""
        in_list = bool(self._members) and not self._field.has_focus
        return action not in ("mark", "watch", "type") or in_list

    def action_watch(self) -> None:
        highlighted = self._choices.highlighted
        if self._marked or highlighted is not None:
            names = tuple(self._marked) or (list(self._members)[highlighted or 0],)
            self.post_message(WatchHosts(names))

    def action_mark(self) -> None:
        """Mark or unmark the highlighted choice, and highlight the next one."""
        choices = self._choices
        if choices.highlighted is not None:
            self._toggle(choices.highlighted)
            if choices.highlighted < choices.option_count - 1:
                choices.action_cursor_down()

    def action_type(self) -> None:
        self.set_focus(self._field)

    def action_leave_field(self) -> None:
        """Go back to the list, or leave."""
        if self._members and self._field.has_focus:
            self.set_focus(self._choices)
        else:
            self.action_leave()
