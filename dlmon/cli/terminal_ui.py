"""`dlmon` without a command: the terminal UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlmon.cli.shared import UserError, chosen_log_directory, in_terminal, settings_of

if TYPE_CHECKING:
    from dlmon.cli.start import ShowScreen


def open_terminal_ui(show: ShowScreen, ascii: bool | None) -> int:
    """Open the home screen, and return the exit code once it is left."""
    if not in_terminal():
        raise UserError(
            "the terminal UI needs a terminal; use dlmon run WORKLOAD --plain, or dlmon --help"
        )
    from dlmon.cli.start import Start

    settings = settings_of(ascii)
    directory = chosen_log_directory(None, settings)
    return show(Start(directory, settings))
