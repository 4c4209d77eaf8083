"""Ask before a sweep is left, or stopped, that is not at its end."""

from __future__ import annotations

from tui.screens.question import Answer, QuestionScreen, stay

_NOW = Answer("stop", "s", "Stop now", "the current run counts as not run", "error", "Now")
_LATER = "the current run is completed, and no other starts"


class SweepStopScreen(QuestionScreen):
    """Answers `stop`, `after` or `stay`."""

    QUESTION = "Stop this sweep?"
    ANSWERS = (
        _NOW,
        Answer("after", "e", "Finish, then stop", _LATER, "primary", "Finish"),
        stay("Go on"),
    )
    ON_CTRL_C = "stop"


class SweepGoOnScreen(QuestionScreen):
    """Asks where the sweep stops soon anyway; answers `stop`, `go_on` or `stay`."""

    QUESTION = "The sweep stops after the current run."
    ANSWERS = (
        _NOW,
        Answer("go_on", "m", "Finish the sweep", "the sweep goes on", "primary", "Finish"),
        stay("No change", _LATER, "As is"),
    )
