"""Ask before a run is left, stopped, or started once more."""

from __future__ import annotations

from tui.screens.question import ONCE_MORE, Answer, QuestionScreen, stay

_AFTER_BATCH = "after the current batch; its results are kept"
_AS_CTRL_C = "interrupted as by Ctrl-C; ended after 5 s more"


def stop(follows: str) -> Answer:
    """Return the answer that stops what is asked about."""
    return Answer("stop", "s", "Stop it", follows, "error", "Stop")


def leave(follows: str) -> Answer:
    """Return the answer that leaves it running."""
    return Answer("leave", "d", "Leave it running", follows, "primary", "Leave")


def again(follows: str) -> Answer:
    """Return the answer that stops it and starts the same once more."""
    return Answer("again", "a", "Stop it and run again", follows, "error", "Again")


class QuitScreen(QuestionScreen):
    """Answers `stop`, `leave` or `stay`."""

    QUESTION = "The session is still running."
    ANSWERS = (
        stop(_AFTER_BATCH),
        leave("it keeps training; dlmon attach shows it again"),
        stay("Stay"),
    )
    ON_CTRL_C = "stop"
    AFTER = (ONCE_MORE,)


class QuitScriptScreen(QuitScreen):
    """Answers `stop`, `leave` or `stay`, of a script of a person's own."""

    QUESTION = "The script is still running."
    ANSWERS = (
        stop(_AS_CTRL_C),
        leave("the script goes on; dlmon attach shows it again"),
        stay("Stay"),
    )


class StopScreen(QuestionScreen):
    """Answers `stop` or `stay`."""

    QUESTION = "Stop this run?"
    ANSWERS = (stop(_AFTER_BATCH), stay("Go on"))
    ON_CTRL_C = "stop"


class StopScriptScreen(StopScreen):
    """Answers `stop` or `stay`, of a script of a person's own."""

    QUESTION = "Stop this script?"
    ANSWERS = (stop(_AS_CTRL_C), stay("Go on"))


class AgainScreen(QuestionScreen):
    """Answers `again` or `stay`."""

    QUESTION = "This run is still in progress."
    ANSWERS = (
        again(f"it stops {_AFTER_BATCH}"),
        stay("Go on"),
    )
    AFTER = (("Then", "a new run starts with the same options"),)


class AgainScriptScreen(AgainScreen):
    """Answers `again` or `stay`, of a script of a person's own."""

    QUESTION = "This script is still running."
    ANSWERS = (
        again(f"it is {_AS_CTRL_C}"),
        stay("Go on"),
    )
    AFTER = (("Then", "the same command starts again, in the same directory"),)


ENDS_SERIES = ("", "once; no other run of this series follows")
"""What follows as well where the script is one of several runs that follow each other."""
