"""Ask what becomes of a sweep that is not at its end."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.screens.quit import Answer, QuitScreen


class SweepQuitScreen(QuitScreen, inherit_bindings=False):
    """Answers `stop`, `after` or `stay`."""

    QUESTION = "The sweep is not at its end."
    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("stop", "Stop now (s)", "error"),
        ("after", "After this run (a)", "primary"),
        ("stay", "Stay (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Now", "the run that is being made counts as not run"),
        ("After", "this run ends as it would, and no further one begins"),
        ("Stay", "nothing changes"),
        ("", "What is left is run by  dlmon sweep --resume last"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "answer('stop')", "Stop now"),
        Binding("ctrl+c,ctrl+q", "answer('stop')", show=False),
        Binding("a", "answer('after')", "Stop after this run"),
        Binding("escape", "answer('stay')", "Stay"),
        Binding("n,q", "answer('stay')", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]
