"""The exit codes of dlmon, and what each means."""

from __future__ import annotations

DONE = 0
"""What was asked for is done."""

FAILED = 1
"""The workload failed or was ended by a signal, or something could not be written."""

WRONG_ARGUMENTS = 2
"""What was asked for can't be, and nothing was started."""

INTERRUPTED_BY_USER = 130
"""Ctrl-C, as the shell says of a program that it ended (128 and SIGINT)."""

READER_LEFT = 141
"""Nobody reads the pipe any more, as the shell says of it (128 and SIGPIPE)."""
