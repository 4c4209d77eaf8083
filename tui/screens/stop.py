"""Ask before what runs is left, stopped, or started once more."""

from __future__ import annotations

from typing import NamedTuple

from dlmon.records import SessionHeader
from tui.screens.question import ONCE_MORE, Answer, QuestionScreen, stay


class _Wording(NamedTuple):
    """How a question names what runs, and what follows for it from each answer."""

    runs: str
    stop: str
    stopped: str
    left: str
    again: str = ""


_RUN = _Wording(
    "The session is still running.",
    "Stop this run?",
    "after the current batch; its results are kept",
    "it keeps training; dlmon attach shows it again",
    "a new run starts with the same options",
)
_SCRIPT = _Wording(
    "The script is still running.",
    "Stop this script?",
    "interrupted as by Ctrl-C; ended after 5 s more",
    "the script goes on; dlmon attach shows it again",
    "the same command starts again, in the same directory",
)
_RECORDING = _Wording(
    "The machine is still being recorded.",
    "Stop this recording?",
    "what is recorded is kept",
    "it goes on; dlmon attach shows it again",
)
_STOP = Answer("stop", "s", "Stop it", "", "error", "Stop")


def _wording_of(header: SessionHeader) -> _Wording:
    if header.is_machine_recording:
        return _RECORDING
    return _SCRIPT if header.is_script else _RUN


class QuitScreen(QuestionScreen):
    """Answers `stop`, `leave` or `stay`."""

    ANSWERS = (
        _STOP,
        Answer("leave", "d", "Leave it running", "", "primary", "Leave"),
        stay("Stay"),
    )
    ON_CTRL_C = "stop"
    AFTER = (ONCE_MORE,)

    def __init__(self, header: SessionHeader) -> None:
        words = _wording_of(header)
        super().__init__(words.runs, follows=(words.stopped, words.left))


class StopScreen(QuestionScreen):
    """Answers `stop` or `stay`."""

    ANSWERS = (_STOP, stay("Go on"))
    ON_CTRL_C = "stop"

    def __init__(self, header: SessionHeader) -> None:
        words = _wording_of(header)
        super().__init__(words.stop, follows=(words.stopped,))


class AgainScreen(QuestionScreen):
    """Answers `again` or `stay`.

    Args:
        header: of what runs.
        ends_series: it is one of several runs that follow each other.
    """

    ANSWERS = (Answer("again", "a", "Stop it and run again", "", "error", "Again"), stay("Go on"))

    def __init__(self, header: SessionHeader, ends_series: bool = False) -> None:
        words = _wording_of(header)
        after = [("Then", words.again)]
        if ends_series:
            after.append(("", "once; no other run of this series follows"))
        super().__init__(words.runs, after=after, follows=(words.stopped,))
