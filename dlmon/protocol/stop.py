"""Who asks a session to stop: by a line on its lifeline, or by a signal to its supervisor."""

from __future__ import annotations

import signal

from dlmon.records.words import StopCause

# What a viewer sends on the lifeline that it holds.
FROM_SCREEN = "stop"
BY_CTRL_C = "stop ctrl-c"
BY_SWEEP = "stop sweep"
TERMINAL_CLOSED = "stop terminal-closed"
VIEWER_TERMINATED = "stop viewer-terminated"

CAUSE_BY_WORD = {
    FROM_SCREEN: StopCause.LIVE_SCREEN,
    BY_CTRL_C: StopCause.CTRL_C,
    BY_SWEEP: StopCause.SWEEP,
    TERMINAL_CLOSED: StopCause.TERMINAL_CLOSED,
    VIEWER_TERMINATED: StopCause.VIEWER_TERMINATED,
}

ASKS_TO_END = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
"""Of what is passed on to a script, these ask it to end; it may go on."""

PASS_ON = b"signal"
"""What a viewer sends, with its number, for a signal that is meant for a script."""

# What a dlmon sends that holds no lifeline; a supervisor that knows them handles them.
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
"""Why a session stopped, in words; of an unknown cause there are none."""

# Errors of a write: what writes hears of them.
_WRITE_ERRORS = {signal.SIGPIPE, signal.SIGXFSZ}
# A fault comes again as soon as its handler returns, so it ends a process as ever.
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
"""The signals that would end a process that doesn't handle them, and may be handled."""


def cause_of_signal(number: int) -> tuple[StopCause, str]:
    """Return who asked by a signal to the process that records, and the same in words."""
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
