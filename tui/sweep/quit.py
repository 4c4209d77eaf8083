"""Ask before a sweep is left, or stopped, that is not at its end."""

from __future__ import annotations

from typing import ClassVar

from tui.screens.question import ONCE_MORE, Answer, QuestionScreen, stay

_NOW = Answer("stop", "s", "Stop now", "the current run counts as not run", "error", "Now")
_LATER = "the current run is completed, and no other starts"
_AFTER = Answer("after", "e", "Finish, then stop", _LATER, "primary", "Finish")


class SweepQuitScreen(QuestionScreen):
    """Answers `stop`, `after` or `stay`."""

    QUESTION = "The sweep is still running."
    ANSWERS = (_NOW, _AFTER, stay("Stay"))
    ON_CTRL_C = "stop"
    AFTER: ClassVar[tuple[tuple[str, str], ...]] = (ONCE_MORE,)


class SweepStopScreen(SweepQuitScreen):
    """Answers `stop`, `after` or `stay`."""

    QUESTION = "Stop this sweep?"
    ANSWERS = (_NOW, _AFTER, stay("Go on"))
    AFTER = ()


class SweepGoOnScreen(QuestionScreen):
    """Asks where the sweep stops soon anyway; answers `stop`, `go_on` or `stay`."""

    QUESTION = "The sweep stops after the current run."
    ANSWERS = (
        _NOW,
        Answer("go_on", "m", "Finish the sweep", "the sweep goes on", "primary", "Finish"),
        stay("No change", _LATER, "As is"),
    )
