"""A screen of panes that the user hides, for later starts too, or shows alone."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from dlmon.options.settings import remember, remembered
from tui.screens.base import BaseScreen, hidden

_HIDDEN = "hidden-panes"
_MOST_PANES = 9
_TOGGLE = "toggle_pane"
_IN_CAPITALS = {"cpu": "CPU", "gpus": "GPUs"}

ALONE = Binding("enter", "show_alone", "Alone", tooltip="Show the chosen pane alone, or all again")
PANE_KEYS: tuple[BindingType, ...] = (
    hidden("tab", "choose_pane(1)", "Next pane", "Choose a pane; Enter shows it alone"),
    hidden("shift+tab", "choose_pane(-1)", "Previous pane", "Choose the pane before"),
    *(hidden(str(n), f"{_TOGGLE}({n})", f"Pane {n}") for n in range(1, _MOST_PANES + 1)),
)


class PanesScreen(BaseScreen):
    """A screen of panes: Tab chooses one, Enter shows it alone, and digits hide them."""

    AUTO_FOCUS = ""

    @property
    def panes(self) -> tuple[str, ...]:
        """The names of the panes that can be hidden, in the order of the digits."""
        raise NotImplementedError

    def arrange_panes(self) -> None:
        raise NotImplementedError

    @property
    def hidden_panes(self) -> frozenset[str]:
        """The names of the hidden panes; none if all would be hidden."""
        if self._hidden is None:
            self._hidden = frozenset(remembered(_HIDDEN).split())
        hidden_here = self._hidden.intersection(self.panes)
        return hidden_here if len(hidden_here) < len(self.panes) else frozenset()

    _hidden: frozenset[str] | None = None

    def name_of_action(self, action: str) -> str:
        if action == "show_alone" and self.maximized is not None:
            return "All panes"
        if not action.startswith(_TOGGLE):
            return super().name_of_action(action)
        name = self._pane_of(action)
        return f"{'Show' if name in self.hidden_panes else 'Hide'} {_IN_CAPITALS.get(name, name)}"

    def tooltip_of_action(self, action: str) -> str:
        if not action.startswith(_TOGGLE):
            return super().tooltip_of_action(action)
        name = self._pane_of(action)
        return f"Hide the {_IN_CAPITALS.get(name, name)}, or show it again; dlmon remembers that"

    def _pane_of(self, action: str) -> str:
        number = int(action.removeprefix(_TOGGLE).strip("()"))
        return dict(enumerate(self.panes, 1)).get(number, "")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only digits that have a pane, and to show a pane alone only if one is chosen."""
        if action == _TOGGLE:
            return parameters[0] in range(1, len(self.panes) + 1)
        if action == "show_alone":
            return self.maximized is not None or self.focused is not None
        return super().check_action(action, parameters)

    def action_choose_pane(self, step: int) -> None:
        for pane in self.query(".panel"):
            pane.can_focus = True
        if self.maximized is None:
            (self.focus_next if step > 0 else self.focus_previous)(".panel")

    def action_show_alone(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused, container=False)

    def action_toggle_pane(self, number: int) -> None:
        name = self.panes[number - 1]
        toggled = self.hidden_panes ^ {name}
        if len(toggled) == len(self.panes):
            self.notify("one pane has to stay", severity="warning")
            return
        # Another screen, or another dlmon, may have hidden other panes meanwhile.
        self._hidden = frozenset(remembered(_HIDDEN).split()).difference(self.panes) | toggled
        try:
            remember(_HIDDEN, " ".join(sorted(self._hidden)))
        except OSError as error:
            self.notify(f"what is hidden can't be saved: {error}", severity="error", markup=False)
        self.set_focus(None)
        self.arrange_panes()
        self.refresh_bindings()

    def watch_maximized(self) -> None:
        if self.is_mounted:
            self.arrange_panes()
            self.refresh_bindings()
