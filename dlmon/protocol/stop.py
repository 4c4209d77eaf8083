"""Requests to stop or suspend a session: a line on the viewer's pipe, or a signal."""

from __future__ import annotations

import signal

from dlmon.records.words import StopCause

# Lines that a viewer sends to its supervisor.
DETACH = "detach"
"""The session goes on without its viewer."""
FROM_SCREEN = "stop"
BY_CTRL_C = "stop ctrl-c"
BY_SWEEP = "stop sweep"
TERMINAL_CLOSED = "stop terminal-closed"
VIEWER_TERMINATED = "stop viewer-terminated"
SUSPEND = "suspend"
"""All processes of the run are suspended, until `RESUME` or any other end of it."""
RESUME = "resume"

CAUSE_BY_WORD = {
    FROM_SCREEN: StopCause.LIVE_SCREEN,
    BY_CTRL_C: StopCause.CTRL_C,
    BY_SWEEP: StopCause.SWEEP,
    TERMINAL_CLOSED: StopCause.TERMINAL_CLOSED,
    VIEWER_TERMINATED: StopCause.VIEWER_TERMINATED,
}

ASKS_TO_END = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
"""The signals to a script that ask it to end; it may go on."""

PASS_ON = b"signal"
"""The word before the number of a signal that the viewer passes on to the script."""

# Signals to a supervisor from a dlmon that has no pipe to it.
BY_OTHER_SCREEN = signal.SIGUSR1
BY_COMMAND = signal.SIGUSR2

_CAUSE_BY_SIGNAL: dict[int, StopCause] = {
    BY_OTHER_SCREEN: StopCause.OTHER_SCREEN,
    BY_COMMAND: StopCause.COMMAND,
}

CAUSE_TEXT = {
    StopCause.LIVE_SCREEN: "asked from the live screen",
    StopCause.OTHER_SCREEN: "asked from a live screen that follows it",
    StopCause.CTRL_C: "asked by Ctrl-C",
    StopCause.COMMAND: "asked with dlmon stop",
    StopCause.SWEEP: "asked by its sweep",
    StopCause.TERMINAL_CLOSED: "its terminal was closed",
    StopCause.VIEWER_TERMINATED: "its viewer got SIGTERM",
    StopCause.VIEWER_GONE: "its viewer is gone",
    StopCause.SIGNAL: "by a signal",
    StopCause.TIME_LIMIT: "its time limit was near",
    StopCause.PREEMPTED: "Slurm gave its place to another job",
    StopCause.REQUEUED: "Slurm put it back into the queue",
    StopCause.CANCELLED: "its job was cancelled",
}
"""The reason of a stop in words; an unknown cause has no entry."""

# A write reports these as errors.
_WRITE_ERRORS = {signal.SIGPIPE, signal.SIGXFSZ}
# A fault is raised again as soon as its handler returns, so leave its default.
_FAULTS = {
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
}
_NOT_FATAL = {
    signal.SIGCHLD,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGURG,
    signal.SIGWINCH,
}
_NEVER_HANDLED = {signal.SIGKILL, signal.SIGSTOP}

STOP_SIGNALS = tuple(
    sorted(signal.valid_signals() - _WRITE_ERRORS - _FAULTS - _NOT_FATAL - _NEVER_HANDLED)
)
"""The signals that end a process unless it handles them."""


def cause_of_signal(number: int) -> tuple[StopCause, str]:
    """Return the cause of a stop by a signal to the supervisor, and the cause in words."""
    cause = _CAUSE_BY_SIGNAL.get(number)
    if cause is None:
        return StopCause.SIGNAL, f"the process that records it got {signal_name(number)}"
    return cause, CAUSE_TEXT[cause]


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGTERM."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
