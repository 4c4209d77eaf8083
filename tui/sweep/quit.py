"""Ask before a sweep is left, or stopped, that is not at its end."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.screens.quit import ONCE_MORE, Answer, QuestionScreen

# What is said of the current run, and of several.
_PLURALS = (
    ("the current run counts", "the current runs count"),
    ("this run finishes", "these runs finish"),
    ("this run", "these runs"),
)


class SweepQuestionScreen(QuestionScreen):
    """Asks about the current runs.

    Args:
        runs: how many there are.
        resume: the command that runs the rest of the sweep.
    """

    def __init__(self, runs: int = 1, resume: str = "") -> None:
        super().__init__()
        self._runs, self._resume = runs, resume

    def worded(self, text: str) -> str:
        for one, several in _PLURALS if self._runs > 1 else ():
            text = text.replace(one, several)
        return text


class SweepQuitScreen(SweepQuestionScreen):
    """Answers `stop`, `after` or `stay`."""

    QUESTION = "The sweep is still running."
    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("stop", "Stop now (s)", "error"),
        ("after", "After this run (e)", "primary"),
        ("stay", "Stay (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Now", "the current run counts as not run"),
        ("After", "this run finishes, and no other one starts"),
        ("Stay", "nothing changes"),
        ONCE_MORE,
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "answer('stop')", "Stop now"),
        Binding("ctrl+c,ctrl+q", "answer('stop')", show=False),
        Binding("e", "answer('after')", "Stop after this run"),
        Binding("escape", "answer('stay')", "Stay"),
    ]

    @property
    def consequences(self) -> tuple[tuple[str, str], ...]:
        """What follows from each answer, and how the rest is run later."""
        return (*self.CONSEQUENCES, ("", f"The rest is run by  {self._resume}"))


class SweepStopScreen(SweepQuitScreen):
    """Answers `stop`, `after` or `stay`."""

    QUESTION = "Stop this sweep?"
    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        *SweepQuitScreen.ANSWERS[:2],
        ("stay", "Go on (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        *SweepQuitScreen.CONSEQUENCES[:2],
        ("Go on", "nothing changes"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "answer('stay')", "Go on")]


class SweepGoOnScreen(SweepQuestionScreen):
    """Asks where the sweep stops after this run anyway; answers `stop`, `go_on` or `stay`."""

    QUESTION = "The sweep stops after this run."
    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("stop", "Stop now (s)", "error"),
        ("go_on", "Finish the sweep (m)", "primary"),
        ("stay", "No change (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Now", "the current run counts as not run"),
        ("Finish", "the sweep continues after this run"),
        ("As is", "this run finishes, and no other one starts"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "answer('stop')", "Stop now"),
        Binding("ctrl+c,ctrl+q", "answer('stop')", show=False),
        Binding("m", "answer('go_on')", "Finish the sweep"),
        Binding("escape", "answer('stay')", "No change"),
    ]
