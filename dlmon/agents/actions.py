"""What an agent may do where `--allow run` was typed: start runs, stop and profile them."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from dlmon.agents.questions import LONGEST_ID, CannotAnswer, Place
from dlmon.agents.reply import Reply
from dlmon.agents.script_text import ScriptText
from dlmon.figures.sections import Note
from dlmon.figures.session.tables import describe_profile
from dlmon.log.directory import list_sessions
from dlmon.log.folder import id_of, location_options
from dlmon.records import Profile, Status
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.sweep.log import list_sweeps

_START_S, _LOOK_S = 60.0, 0.2


@record(frozen=True)
class Starter:
    """Starts what goes on without us.

    Attributes:
        place: where it is recorded.
        command: the words that run dlmon.
        started: how to come back to each that was started, by id.
    """

    place: Place
    command: tuple[str, ...]
    started: dict[str, str] = field(default_factory=dict)

    def words(self, name: str, options: Mapping[str, Any], *words: str) -> list[str]:
        """Return the command line of a subcommand, with the options that have a value."""
        flags = [
            f"--{key.replace('_', '-')}{'' if value is True else f'={value}'}"
            for key, value in {"log_dir": self.place.log_dir, **options}.items()
            if value is not None and value is not False
        ]
        return [*self.command, name, *flags, "--", *words]

    def typed(self, name: str, options: Mapping[str, Any], *words: str) -> str:
        """Run a subcommand to its end, and return what it prints."""
        command, pipe = self.words(name, options, *words), subprocess.PIPE
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, timeout=_START_S
            )
        except subprocess.TimeoutExpired:
            raise CannotAnswer(f"it did not answer within {_START_S:g} s") from None
        if done.returncode:
            raise CannotAnswer(_sentence_of(done.stderr))
        return done.stdout.decode(errors="replace")

    def start(self, name: str, options: Mapping[str, Any], *words: str) -> Reply:
        """Run a subcommand that leaves a session running, and say which."""
        printed = self.typed(name, {**options, "detach": True, "json": True}, *words)
        id, host = json.loads(printed)["session"], options.get("host")
        where, asked = location_options(self.place.log_dir, host), f", host={host!r}" * bool(host)
        shows = f"dlmon attach{where} {id} shows it, dlmon stop{where} {id} ends it"
        asks = (f"session({id!r}{asked}) in a minute", f"stop({id!r}{asked})")
        return self.reply(id, shows, asks)

    def reply(self, id: str, how_to_return: str, asks: tuple[str, ...]) -> Reply:
        """Note what was started, and say so."""
        self.started[id] = f"{id} goes on; {how_to_return}"
        sentence = f"{id} is running, and goes on when this connection ends."
        return Reply((Note((sentence,), "verdict"),), ScriptText(), asks)

    def left_running(self) -> list[str]:
        """Return how to come back to each that was started, but for sessions that are over."""
        entries, sweeps = list_sessions(self.place.directory), list_sweeps(self.place.directory)
        over = {id_of(entry.path) for entry in entries if entry.result is not None}
        over |= {id_of(sweep.path) for sweep in sweeps if sweep.status is not Status.RUNNING}
        return [sentence for id, sentence in self.started.items() if id not in over]


def run(
    starter: Starter,
    workload: str,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    host: str | None = None,
) -> Reply:
    """Train one of the networks that come with dlmon; it goes on in the background."""
    return starter.start("run", {**(options or {}), "name": name, "host": host}, workload)


def exec_script(
    starter: Starter,
    command: Sequence[str],
    directory: str | None = None,
    name: str | None = None,
    host: str | None = None,
) -> Reply:
    """Run a training script unchanged, and watch it; it goes on in the background."""
    options = {"directory": directory, "name": name, "host": host}
    return starter.start("exec", options, *command)


def ab(
    starter: Starter,
    command: Sequence[str],
    vary: str,
    directory: str | None = None,
    to: str | None = None,
    for_time: str | None = None,
    window: str | None = None,
) -> Reply:
    """Prove which of two commits or settings of a script is faster, in pairs of runs.

    It goes on in the background.
    """
    options = {"vary": vary, "directory": directory, "to": to, "for": for_time, "window": window}
    words = starter.words("ab", {**options, "plain": True}, *command)
    null, deadline = subprocess.DEVNULL, time.monotonic() + _START_S
    with tempfile.TemporaryFile() as errors:
        # With a session of its own and no pipe to us, it goes on when we end.
        process = subprocess.Popen(
            words, stdin=null, stdout=null, stderr=errors, start_new_session=True
        )
        while process.poll() is None and time.monotonic() < deadline:
            begun = (e for e in list_sweeps(starter.place.directory) if e.pid == process.pid)
            if (entry := next(begun, None)) is not None:
                id = id_of(entry.path)
                ends = f"dlmon stop{location_options(starter.place.log_dir)} {id} ends it"
                verdict = f"session({id!r}) in some minutes: has it a verdict?"
                return starter.reply(id, ends, (verdict, f"stop({id!r})"))
            time.sleep(_LOOK_S)
        process.terminate()
        errors.seek(0)
        raise CannotAnswer(_sentence_of(errors.read()))


def _sentence_of(stderr: bytes) -> str:
    """Return the sentence of a command that failed."""
    lines = stderr.decode(errors="replace").split("\n")
    said = [line.removeprefix("dlmon: ") for line in lines if line.strip()]
    return said[-1] if said else "dlmon did not start it, and said no reason"


def stop(starter: Starter, session: str, host: str | None = None) -> Reply:
    """Stop a run, which may save first, or an experiment of ab."""
    sentence = starter.typed("stop", {"host": host}, session).strip()
    return Reply((Note((f"{sentence}.",), "verdict"),), ScriptText(), (f"session({session!r})",))


def profile(starter: Starter, session: str, steps: int = 5, host: str | None = None) -> Reply:
    """Have the framework's own profiler watch the next steps of a run that is training."""
    header, records = starter.place.ask(session, host, {"ask": "profile", "steps": steps})
    text, id = ScriptText(), clean(header.id, LONGEST_ID)
    [profiled] = [text.record(record) for record in records if isinstance(record, Profile)]
    assert isinstance(profiled, Profile)
    sections = tuple(describe_profile(profiled, f"Profile of {id}"))
    return Reply(sections, text, (f"session({id!r})",))
