"""Ask before recorded sessions are deleted for good."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.screens.quit import Answer, QuestionScreen


class DeleteScreen(QuestionScreen):
    """Answers `delete` or `stay`.

    Args:
        what: what would be deleted, in words.
        names: of several, what they are called.
    """

    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("delete", "Delete (y)", "error"),
        ("stay", "Keep (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Delete", "permanently: this cannot be undone"),
        ("Keep", "nothing changes"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('delete')", "Delete"),
        Binding("ctrl+c,ctrl+q", "answer('stay')", show=False),
        Binding("escape", "answer('stay')", "Keep"),
    ]

    def __init__(self, what: str, names: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._what, self._names = what, names

    @property
    def question(self) -> str:
        return f"Delete {self._what}?"

    @property
    def consequences(self) -> tuple[tuple[str, str], ...]:
        headings = ("Chosen", *[""] * (len(self._names) - 1))
        return (*zip(headings, self._names, strict=False), *self.CONSEQUENCES)
