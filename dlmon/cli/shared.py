"""What several commands do before they begin, and how they refuse what a user can fix."""

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
from dlmon.records.sanitize import clean

if TYPE_CHECKING:
    from dlmon.cli.start import ShowScreen
    from dlmon.options.run_options import RunOptions
    from workloads.catalog import Workload

COMPLETE_VARIABLE = "_DLMON_COMPLETE"
"""The environment variable with which a shell asks how to complete a word."""

Answer = TypeVar("Answer")


class UserError(Exception):
    """Something a user can fix: one sentence, and the exit code."""

    def __init__(self, message: str, exit_code: int = WRONG_ARGUMENTS) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def user_errors() -> tuple[type[Exception], ...]:
    """Return the errors whose message is a sentence that says what a user can fix."""
    from dlmon.comparison.published import PublishedError
    from dlmon.comparison.sides import NotComparable
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
    return (UserError, SweepError, *of_logs, *of_processes, *of_values)


def read_checked(
    texts: Mapping[str, str | None],
    settings: Settings,
    workload: Workload | None = None,
    here: bool = True,
) -> RunOptions:
    """Return the options that a command line gives, by their names, else those of the settings.

    An option that was not typed is None. Without a workload, only what holds for any is checked.

    Raises:
        UnreadableOption: one of them can't be.
    """
    options = read_arguments(texts, settings.run)
    problem = options.problem(workload, here, texts)
    if problem is not None:
        raise UnreadableOption(problem)
    return options


def settings_of(ascii: bool | None) -> Settings:
    """Return the user's settings, with what the command line says of plain characters."""
    settings = read_settings()
    if ascii is None:
        # The console of Linux has no font for what is drawn otherwise.
        ascii = settings.ascii or os.environ.get("TERM") == "linux" or not _takes_utf_8()
    return replace(settings, ascii=ascii)


def _takes_utf_8() -> bool:
    """Return whether the terminal reads UTF-8, as far as the locale and our stream say.

    Where LC_ALL is C, or names a locale that is not installed, Python writes UTF-8 all the same.
    """
    chosen = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    named = next(filter(None, chosen), "").partition("@")[0]
    _, has_codeset, codeset = named.partition(".")
    if named in ("C", "POSIX") or (has_codeset and not _is_utf_8(codeset)):
        return False
    # Textual draws on stderr.
    return sys.stderr is None or _is_utf_8(getattr(sys.stderr, "encoding", None) or "utf-8")


def _is_utf_8(encoding: str) -> bool:
    return encoding.lower().replace("-", "") == "utf8"


def chosen_log_directory(chosen: Path | None, settings: Settings | None = None) -> Path:
    """Return where sessions live: as the command line says, else the settings, else as usual.

    Raises:
        LogError: no such place can be named.
    """
    settings = settings or read_settings()
    if chosen is None and settings.log_dir is not None:
        chosen = Path(settings.log_dir)
    return log_directory(chosen)


def recorded_in(options: RunOptions, settings: Settings) -> Path:
    """Return where a session with these options is recorded; another machine knows its own place.

    Raises:
        LogError: no such place can be named.
    """
    if options.host is not None:
        return Path()
    return chosen_log_directory(Path(options.log_dir) if options.log_dir else None, settings)


def in_terminal() -> bool:
    """Return whether a screen can be drawn and keys be read; Textual draws on stderr."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def on_host(log_dir: Path | None) -> str | None:
    """Return the log directory that is meant on another machine; None for its usual one."""
    return None if log_dir is None else str(log_dir)


def result_of(asked: Coroutine[Any, Any, Answer]) -> Answer:
    """Wait for what is asked of another process or machine."""
    # Completion needs no asyncio.
    import asyncio

    return asyncio.run(asked)


def report_failures(answers: Mapping[str, object]) -> int:
    """Say why hosts gave no answer, and return the exit code: of the first where none gave one."""
    failures = [answer for answer in answers.values() if isinstance(answer, Exception)]
    for failure in failures:
        print(f"dlmon: {clean(str(failure))}", file=sys.stderr)
    if failures and len(failures) == len(answers):
        return getattr(failures[0], "exit_code", FAILED)
    return FAILED if failures else DONE


def copies_of(host: str, meant: str, log_dir: Path | None, traces: bool = False) -> list[Path]:
    """Return copies of the sessions of another machine that are meant, and say how it goes.

    With `traces`, those of their profiles lie beside them.

    Raises:
        SshError: the host can't be reached.
        HostRefusal: none is meant there.
        LogError: the copies can't be kept.
    """
    from dlmon.remote.host_requests import copy_remote
    from dlmon.render.reading_progress import reading_progress

    with reading_progress() as on_read:
        return result_of(copy_remote(host, meant, on_host(log_dir), on_read, traces))


def open_terminal_ui(show: ShowScreen, ascii: bool | None) -> int:
    """Do what `dlmon` alone does: open the home screen; return the exit code once it is left."""
    if not in_terminal():
        raise UserError(
            "the terminal UI needs a terminal; use dlmon run WORKLOAD --plain, or dlmon --help"
        )
    from dlmon.cli.start import Start

    settings = settings_of(ascii)
    return show(Start(chosen_log_directory(None, settings), settings))


def log_of(session: str, log_dir: Path | None) -> Path:
    """Return the log of the session of this machine that is meant.

    Raises:
        NoSuchLog: none is, or several are.
    """
    from dlmon.log.directory import find_session

    return find_session(session, chosen_log_directory(log_dir), location_options(log_dir))


def logs_of(sessions: Iterable[str], log_dir: Path | None, host: str | None = None) -> list[Path]:
    """Return the logs of all sessions that are meant, each once; those of a host are copied first.

    Raises:
        NoSuchLog: none is meant by one of the texts.
        SshError: the host can't be reached.
        HostRefusal: none is meant there.
    """
    from dlmon.log.directory import find_sessions

    def find(meant: str) -> list[Path]:
        if host is not None:
            return copies_of(host, meant, log_dir)
        return find_sessions(meant, chosen_log_directory(log_dir), location_options(log_dir))

    return list(dict.fromkeys(path for meant in sessions for path in find(meant)))
