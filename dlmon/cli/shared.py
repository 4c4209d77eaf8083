"""What several commands do before they begin, and how they refuse what a user can fix."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dlmon.exit_codes import DONE, FAILED, WRONG_ARGUMENTS
from dlmon.options.settings import Settings, read_settings

# Whoever asks for help, or completes a word, pays for none of what starts a session.
if TYPE_CHECKING:
    from dlmon.cli.start import ShowScreen, Start
    from dlmon.launch.job import Job, Started
    from dlmon.launch.lifeline import Lifeline
    from dlmon.remote.start import RemoteStart

Answer = TypeVar("Answer")


class UserError(Exception):
    """Something a user can fix: one sentence, and the exit code."""

    def __init__(self, message: str, exit_code: int = WRONG_ARGUMENTS) -> None:
        super().__init__(message)
        self.exit_code = exit_code


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
    from dlmon.log.folder import log_directory

    settings = settings or read_settings()
    if chosen is None and settings.log_dir is not None:
        chosen = Path(settings.log_dir)
    return log_directory(chosen)


def in_terminal() -> bool:
    """Return whether a screen can be drawn and keys be read; Textual draws on stderr."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def answer_of(started: Lifeline) -> Started:
    """Wait until a session has begun.

    Raises:
        UserError: its supervisor refused to start it.
    """
    from dlmon.launch.job import Refused

    answer = started.answer()
    if isinstance(answer, Refused):
        raise UserError(answer.reason, answer.exit_code)
    return answer


def called(session: str, name: str | None) -> str:
    """Return the id of a session, with its name where it has one."""
    return session if name is None else f"{session} ({name})"


def leave_running(started: Lifeline, name: str | None, as_json: bool, log_dir: Path | None) -> None:
    """Leave a session that was started to itself, and say how to come back to it.

    Args:
        started: it.
        name: what it is called, where it has a name.
        as_json: say it as JSON.
        log_dir: where a person asked for it to be kept; None for the usual place.

    Raises:
        UserError: its supervisor refused to start it.
    """
    import json

    from dlmon.log.folder import place_options

    answer = answer_of(started)
    started.send("detach")
    started.release()
    if as_json:
        print(json.dumps({**asdict(answer), "name": name}))
    else:
        meant = f"{place_options(log_dir)} {answer.session}"
        print(f"{called(answer.session, name)} is running; dlmon attach{meant} shows it")


def start_on_host(host: str, job: Job, as_json: bool) -> None:
    """Start a session on another machine, leave it to itself, and say how to come back to it.

    Raises:
        SshError: the host can't be reached.
        RefusedRequest: it can't start what is asked for.
    """
    import json

    from dlmon.log.folder import place_options
    from dlmon.remote.requests import start_remote

    session = result_of(start_remote(host, job))
    if as_json:
        print(json.dumps({"session": session, "host": host, "name": job.name}))
    else:
        where = f"{place_options(job.log_dir or None, host)} {session}"
        print(f"{called(session, job.name)} is running on {host}; dlmon attach{where} shows it")


def end_before_start(what: str) -> None:
    """Have a signal that comes before a session has begun end us with a sentence."""

    def end(number: int, frame: object) -> None:
        # Without its lifeline the supervisor starts nothing.
        raise UserError(f"{what} was ended by a signal before it started", FAILED)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


def on_host(log_dir: Path | None) -> str | None:
    """Return the log directory that is meant on another machine; None for its usual one."""
    return None if log_dir is None else str(log_dir)


def result_of(asked: Coroutine[Any, Any, Answer]) -> Answer:
    """Wait for what is asked of another machine."""
    # Who completes a word asks for nothing.
    import asyncio

    return asyncio.run(asked)


def report_failures(answers: Mapping[str, object]) -> int:
    """Say why hosts gave no answer, and return the exit code: of the first where none gave one."""
    from dlmon.records.sanitize import clean

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
        RefusedRequest: none is meant there.
        LogError: the copies can't be kept.
    """
    from dlmon.remote.requests import copy_remote
    from dlmon.render.progress import ReadingProgress

    with ReadingProgress() as on_read:
        return result_of(copy_remote(host, meant, on_host(log_dir), on_read, traces))


def open_screen(start: Start) -> int:
    """Show a screen until it is left, and return the exit code."""
    import click

    show: ShowScreen = click.get_current_context().find_root().obj
    return show(start)


def show_remote(
    start: RemoteStart, settings: Settings, *, plain: bool, as_json: bool = False
) -> int:
    """Show a session of another machine, on the live screen or in lines; return the exit code."""
    if plain or as_json or not in_terminal():
        from dlmon.render.follow import follow_on_host

        return follow_on_host(start, as_json, settings.alerts.desktop)
    from dlmon.cli.start import Start
    from dlmon.remote.mirror import mirror_directory

    shown = Start(mirror_directory(start.host), settings, remote=start)
    return open_screen(shown)
