"""`dlmon` without a command: the terminal UI."""

from __future__ import annotations

from tui.commands.shared import UserError, chosen_log_directory, in_terminal, settings_of


def open_terminal_ui(ascii: bool | None) -> int:
    """Open the home screen, and return the exit code once it is left."""
    if not in_terminal():
        raise UserError(
            "the terminal UI needs a terminal; use dlmon run WORKLOAD --plain, or dlmon --help"
        )
    from tui.app import DlmonApp
    from tui.navigation import Start

    settings = settings_of(ascii)
    directory = chosen_log_directory(None, settings)
    return DlmonApp(Start(directory, settings)).run_to_exit_code()
