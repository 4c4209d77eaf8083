"""The words that code goes by: each set of them is closed, and stands in records as text."""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """One of a few words; a `StrEnum`, which Python 3.10 lacks."""

    __str__ = str.__str__


class Status(Word):
    """How a session, or a sweep, stands."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> Status:
        """Take what a newer version wrote as unknown."""
        return cls.UNKNOWN


class RunStatus(Word):
    """How a run of a sweep stands; one that was stopped or interrupted is not run."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    IMPOSSIBLE = "impossible"
    NOT_RUN = "not run"
    RUNNING = "running"


class FailureKind(Word):
    """What made a run fail."""

    REFUSED = "refused"
    OUT_OF_MEMORY = "out_of_memory"
    EXCEPTION = "exception"
    KILLED = "killed"
    SIGNAL = "signal"
    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> FailureKind:
        """Take what a newer version wrote as unknown."""
        return cls.UNKNOWN
