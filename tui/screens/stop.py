"""Ask before a run is stopped: for good, or to launch the same once more."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.screens.quit import Answer, QuestionScreen


class StopScreen(QuestionScreen):
    """Answers `stop` or `stay`."""

    QUESTION = "Stop this run?"
    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("stop", "Stop it (s)", "error"),
        ("stay", "Go on (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Stop", "after the current batch; its results are kept"),
        ("Go on", "nothing changes"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "answer('stop')", "Stop it"),
        Binding("ctrl+c,ctrl+q", "answer('stop')", show=False),
        Binding("escape", "answer('stay')", "Go on"),
    ]


class StopScriptScreen(StopScreen):
    """Answers `stop` or `stay`, of a script of a person's own."""

    QUESTION = "Stop this script?"
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Stop", "interrupted as by Ctrl-C; ended after 5 s more"),
        ("Go on", "nothing changes"),
    )


class AgainScreen(QuestionScreen):
    """Answers `again` or `stay`."""

    QUESTION = "This run is still in progress."
    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("again", "Stop it and run again (a)", "error"),
        ("stay", "Go on (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Again", "this run stops after the current batch; its results are kept"),
        ("", "then a new run starts with the same options"),
        ("Go on", "nothing changes"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "answer('again')", "Stop it and run again"),
        Binding("ctrl+c,ctrl+q", "answer('stay')", show=False),
        Binding("escape", "answer('stay')", "Go on"),
    ]


class AgainScriptScreen(AgainScreen):
    """Answers `again` or `stay`, of a script of a person's own.

    Args:
        of_series: whether the run is one of several that follow each other.
    """

    QUESTION = "This script is still running."
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Again", "it is interrupted as by Ctrl-C, and ended after 5 s more"),
        ("", "then the same command starts again, in the same directory"),
        ("Go on", "nothing changes"),
    )

    def __init__(self, of_series: bool = False) -> None:
        super().__init__()
        self._of_series = of_series

    @property
    def consequences(self) -> tuple[tuple[str, str], ...]:
        """What follows from each answer, and what no longer does."""
        if not self._of_series:
            return self.CONSEQUENCES
        *again, stay = self.CONSEQUENCES
        return (*again, ("", "once; no other run of this series follows"), stay)
