"""Ask what becomes of a sweep that is not at its end."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Label, Static

from tui.screens.quit import QuitScreen

_CONSEQUENCES = (
    ("Now", "the run that is being made counts as not run"),
    ("After", "this run ends as it would, and no further one begins"),
    ("Stay", "nothing changes"),
)


class SweepQuitScreen(QuitScreen, inherit_bindings=False):
    """Answers `stop`, `after` or `stay`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,ctrl+c,ctrl+q", "answer('stop')", "Stop now"),
        Binding("a", "answer('after')", "Stop after this run"),
        Binding("escape,n,q", "answer('stay')", "Stay"),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the question, its three answers, and what follows from each."""
        with Vertical(id="question"):
            yield Label("The sweep is not at its end.")
            with Horizontal():
                yield Button("Stop now (s)", id="stop", variant="error")
                yield Button("After this run (a)", id="after", variant="primary")
                yield Button("Stay (esc)", id="stay")
            lines = [
                Content.assemble((f"{answer:<7}", "bold"), told) for answer, told in _CONSEQUENCES
            ]
            lines.append(Content("What is left is run by  dlmon sweep --resume last"))
            yield Static(Content("\n").join(lines), id="consequences")
