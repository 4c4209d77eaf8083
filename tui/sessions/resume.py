"""Ask before the runs that a sweep lacks are trained."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from dlmon.figures import units
from tui.screens.quit import Answer, QuestionScreen


class ResumeScreen(QuestionScreen):
    """Answers `resume` or `stay`.

    Args:
        name: what the sweep is called.
        left: how many runs it lacks.
    """

    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("resume", "Resume (y)", "primary"),
        ("stay", "Back (esc)", "default"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('resume')", "Resume"),
        Binding("ctrl+c,ctrl+q", "answer('stay')", show=False),
        Binding("escape", "answer('stay')", "Back"),
    ]

    def __init__(self, name: str, left: int) -> None:
        super().__init__()
        self._called, self._left = name, left

    @property
    def question(self) -> str:
        return f"Train what is left: {units.counted(self._left, 'run')}?"

    @property
    def consequences(self) -> tuple[tuple[str, str], ...]:
        return (
            ("Resume", "they are trained now"),
            ("Back", "nothing changes"),
            ("Sweep", self._called),
        )
