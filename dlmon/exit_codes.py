"""The exit codes of dlmon, and what each means."""

from __future__ import annotations

DONE = 0
"""The command has done what it was asked for."""

FAILED = 1
"""The workload failed or was ended by a signal, or something could not be written."""

WRONG_ARGUMENTS = 2
"""The arguments are wrong, and nothing was started."""

UNREACHABLE = 3
"""A host could not be reached."""

END_UNKNOWN = 124
"""A script was started, but its supervisor was killed, so its exit code is unknown."""

NOT_STARTED = 125
"""A script could not be started; any code but this and `END_UNKNOWN` is the script's own."""

INTERRUPTED_BY_USER = 130
"""Ctrl-C; a shell reports 128 + SIGINT for a program that it ended."""

READER_LEFT = 141
"""The reader of our output is gone; a shell reports 128 + SIGPIPE for that."""


def code_of_script(returned: int | None) -> int:
    """Return the exit code of a script's process as a shell gives it: 128 + n for signal n.

    Args:
        returned: its return code, negative for a signal; None if it was not started.
    """
    if returned is None:
        return NOT_STARTED
    return 128 - returned if returned < 0 else returned
