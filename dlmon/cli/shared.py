"""Steps that several commands share, and the error of what a user can fix."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dlmon.alerts.alert_settings import AddressError
from dlmon.exit_codes import DONE, FAILED, WRONG_ARGUMENTS
from dlmon.log.folder import LogError, location_options, log_directory
from dlmon.options.option import UnreadableOption
from dlmon.options.read import read_arguments
from dlmon.options.settings import Settings, SettingsError, read_settings
from dlmon.records.sanitize import SHOWN_LENGTH, clean

if TYPE_CHECKING:
    from dlmon.cli.start import ShowScreen
    from dlmon.options.run_options import RunOptions
    from workloads.catalog import Workload

ASCII_HELP = "Draw with plain characters."
COMPLETE_VARIABLE = "_DLMON_COMPLETE"
"""The environment variable by which a shell asks for the completions of a word."""

Answer = TypeVar("Answer")


class UserError(Exception):
    """A problem that a user can fix: one sentence, and an exit code."""

    def __init__(self, message: str, exit_code: int = WRONG_ARGUMENTS) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def refuse_script(name: str) -> None:
    """Refuse a Python script in place of a command or a workload.

    Raises:
        UserError: it is one; the message has the command that runs it.
    """
    if name.endswith(".py"):
        name = clean(name, SHOWN_LENGTH)
        raise UserError(f"{name} is a script of your own: dlmon exec -- python {name}")


def user_errors() -> tuple[type[Exception], ...]:
    """Return the errors whose message tells the user in one sentence what to fix."""
    from dlmon.comparison.published import PublishedError
    from dlmon.comparison.sides import NotComparable
    from dlmon.launch.exporter_process import ServeError
    from dlmon.log.directory import NoSuchLog
    from dlmon.protocol.control import NotControlled
    from dlmon.remote.host_names import HostError
    from dlmon.remote.ssh import HostRefusal, SshError
    from dlmon.render.files import ReportError
    from dlmon.render.script import ScriptRefused
    from dlmon.slurm.commands import SlurmError
    from dlmon.sweep.plan import SweepError
    from workloads.catalog import UnknownWorkload

    of_logs = (LogError, NoSuchLog, NotComparable, PublishedError, ReportError)
    of_processes = (SshError, HostRefusal, NotControlled, ScriptRefused, SlurmError)
    of_values = (UnreadableOption, UnknownWorkload, SettingsError, HostError, AddressError)
    return (UserError, SweepError, ServeError, *of_logs, *of_processes, *of_values)


def read_checked(
    texts: Mapping[str, str | None],
    settings: Settings,
    workload: Workload | None = None,
    here: bool = True,
) -> RunOptions:
    """Return the options of the command line, else those of the settings.

    Args:
        texts: the text of each option by its name; None if it was not typed.
        settings: the defaults.
        workload: without one, only what holds for every workload is checked.
        here: the session runs on this machine.

    Raises:
        UnreadableOption: an option is wrong.
    """
    options = read_arguments(texts, settings.run)
    problem = options.problem(workload, here, texts)
    if problem is not None:
        raise UnreadableOption(problem)
    return options


def settings_of(ascii: bool | None) -> Settings:
    """Return the user's settings, with `ascii` as the command line or the terminal needs it.

    Lines are printed in ASCII from then on, too.
    """
    settings = read_settings()
    if ascii is None:
        # The Linux console has no font for the other characters.
        ascii = settings.ascii or os.environ.get("TERM") == "linux" or not _takes_utf_8()
    if ascii:
        from dlmon.render.console import print_in_ascii

        print_in_ascii(True)
    return replace(settings, ascii=ascii)


def _takes_utf_8() -> bool:
    """Return whether the terminal reads UTF-8, by the locale and the encoding of our stream.

    The stream is not enough: Python writes UTF-8 even if LC_ALL is C, or is not installed.
    """
    values = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next(filter(None, values), "").partition("@")[0]
    _, has_codeset, codeset = locale.partition(".")
    if locale in ("C", "POSIX") or (has_codeset and not _is_utf_8(codeset)):
        return False
    # Textual draws on stderr.
    return sys.stderr is None or _is_utf_8(getattr(sys.stderr, "encoding", None) or "utf-8")


def _is_utf_8(encoding: str) -> bool:
    return encoding.lower().replace("-", "") == "utf8"


def chosen_log_directory(typed: Path | None, settings: Settings | None = None) -> Path:
    """Return the log directory: the typed one, else that of the settings, else the default.

    Raises:
        LogError: the directory can't be determined.
    """
    settings = settings or read_settings()
    if typed is None and settings.log_dir is not None:
        typed = Path(settings.log_dir)
    return log_directory(typed)


def recorded_in(options: RunOptions, settings: Settings) -> Path:
    """Return the log directory of a session with these options; empty if it runs on another host.

    Raises:
        LogError: the directory can't be determined.
    """
    if options.host is not None:
        return Path()
    return chosen_log_directory(Path(options.log_dir) if options.log_dir else None, settings)


def in_terminal() -> bool:
    """Return whether a screen can be drawn, on stderr, and keys can be read."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def on_host(log_dir: Path | None) -> str | None:
    """Return the log directory on another host; None for its default."""
    return None if log_dir is None else str(log_dir)


def result_of(request: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine, such as a request to another process or host, and return its result."""
    # Imported here: completion needs no asyncio.
    import asyncio

    return asyncio.run(request)


def report_failures(answers: Mapping[str, object]) -> int:
    """Print why hosts did not answer; return the exit code, of the first failure if all failed."""
    failures = [answer for answer in answers.values() if isinstance(answer, Exception)]
    for failure in failures:
        print(f"dlmon: {clean(str(failure))}", file=sys.stderr)
    if failures and len(failures) == len(answers):
        return getattr(failures[0], "exit_code", FAILED)
    return FAILED if failures else DONE


def copies_of(host: str, sessions: str, log_dir: Path | None, traces: bool = False) -> list[Path]:
    """Copy the named sessions of another host, show the progress, and return the logs.

    With `traces`, copy the traces of their profiles beside them.

    Raises:
        SshError: the host can't be reached.
        HostRefusal: the host has no such session.
        LogError: the copies can't be written.
    """
    from dlmon.remote.host_requests import copy_remote
    from dlmon.render.reading_progress import reading_progress

    with reading_progress() as on_read:
        return result_of(copy_remote(host, sessions, on_host(log_dir), on_read, traces))


def open_terminal_ui(show: ShowScreen, ascii: bool | None) -> int:
    """Open the home screen, and return the exit code."""
    if not in_terminal():
        raise UserError(
            "the terminal UI needs a terminal; use dlmon run WORKLOAD --plain, or dlmon --help"
        )
    from dlmon.cli.start import Start

    settings = settings_of(ascii)
    return show(Start(chosen_log_directory(None, settings), settings))


def log_of(session: str, log_dir: Path | None) -> Path:
    """Return the log of a session of this machine.

    Raises:
        NoSuchLog: no session matches, or several do.
    """
    from dlmon.log.directory import find_session

    path = find_session(session, chosen_log_directory(log_dir), location_options(log_dir))
    _say_skipped(session, log_dir)
    return path


def _say_skipped(sessions: str, log_dir: Path | None) -> None:
    """Say which sessions `last~N` leaves out, as failed ones."""
    from dlmon.log.directory import skipped_text

    if "~" in sessions and (text := skipped_text(sessions, chosen_log_directory(log_dir))):
        print(f"dlmon: {text}", file=sys.stderr)


def logs_of(sessions: Iterable[str], log_dir: Path | None, host: str | None = None) -> list[Path]:
    """Return the logs of all named sessions, each once; copy those of a host first.

    Raises:
        NoSuchLog: a name matches no session.
        SshError: the host can't be reached.
        HostRefusal: the host has no such session.
    """
    from dlmon.log.directory import find_sessions

    def find(names: str) -> list[Path]:
        if host is not None:
            return copies_of(host, names, log_dir)
        paths = find_sessions(names, chosen_log_directory(log_dir), location_options(log_dir))
        _say_skipped(names, log_dir)
        return paths

    return list(dict.fromkeys(path for names in sessions for path in find(names)))
