"""Read the form for a user's script into the arguments of `dlmon exec`."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlmon.numbers import whole_number
from dlmon.options.read import read_options
from dlmon.options.run_options import RunOptions, as_typed
from dlmon.options.settings import remember, remembered
from dlmon.script_name import missing_command

MOST_REPEATS = 1000
SCRIPT_OPTIONS = ("interval", "price", "to", "host")
"""The options of `run` that the runs of a script in a sweep share."""
_OF_A_SHELL = frozenset(("|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&>"))


@dataclass(frozen=True)
class ScriptRun:
    """The arguments of `dlmon exec`.

    Attributes:
        command: the command.
        directory: its working directory; None for the current one.
        name: the name of its sessions.
        repeat: the number of runs, one after another.
        alert: the address for alerts; None for those in the settings.
    """

    command: tuple[str, ...]
    directory: str | None = None
    name: str | None = None
    repeat: int = 1
    alert: str | None = None

    @property
    def command_line(self) -> str:
        """The shell command that does the same."""
        options = {"directory": self.directory, "name": self.name, "alert": self.alert}
        texts = {name: text or "" for name, text in options.items()}
        return shell_command(
            {**texts, "repeat": str(self.repeat), "command": shlex.join(self.command)}
        )


def shell_command(typed: Mapping[str, str]) -> str:
    """Return the shell command for the texts of the form's fields, right or wrong."""
    command, names = "exec", ["directory", "name", "alert"]
    if typed["repeat"] not in ("", "1"):
        command, names = "sweep", [*names, "repeat"]
    options = as_typed({name: typed[name] for name in names if typed[name]})
    return f"{shlex.join(['dlmon', command, *options, '--'])} {typed['command']}"


_LAST_SCRIPT, _COMMANDS = "last-script", "commands"
_MOST_COMMANDS = 20


def remember_script(command: tuple[str, ...], directory: str | None) -> None:
    """Keep a command and its working directory for the home screen, if that can be written."""
    typed = shlex.join(command)
    commands = [typed, *(earlier for earlier in earlier_commands() if earlier != typed)]
    with contextlib.suppress(OSError):
        remember(_LAST_SCRIPT, json.dumps([directory, *command]))
        remember(_COMMANDS, json.dumps(commands[:_MOST_COMMANDS]))


def earlier_commands() -> list[str]:
    """Return the commands that were run here, as typed, newest first."""
    try:
        commands = json.loads(remembered(_COMMANDS))
    except ValueError:
        return []
    return [text for text in commands if isinstance(text, str)] if type(commands) is list else []


def last_script() -> ScriptRun | None:
    """Return the last script that was run here; a log, which may be anybody's, doesn't tell it."""
    try:
        directory, *command = json.loads(remembered(_LAST_SCRIPT))
    except (ValueError, TypeError):
        return None
    words = [directory, *command] if command else [None]
    return ScriptRun(tuple(command), directory) if all(isinstance(w, str) for w in words) else None


class UnreadableScript(Exception):
    """The form can't be run; the message is one sentence, `field` the name of the wrong field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def read_script(typed: Mapping[str, str]) -> ScriptRun | None:
    """Read the texts of the form's fields; None without a command.

    Raises:
        UnreadableScript: they can't be run here.
    """
    directory = _directory(typed.get("directory", "").strip())
    texts = {name: typed.get(name, "") for name in ("name", "alert")}
    options = read_options(texts, RunOptions()).options
    for field, problem in options.problems(None, names=texts).items():
        raise UnreadableScript(field, problem)
    repeat = _repeat(typed.get("repeat", "").strip())
    command = _command(typed.get("command", ""), Path(directory or "."))
    return ScriptRun(command, directory, options.name, repeat, options.alert) if command else None


def _command(text: str, directory: Path) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        problem = "a backslash ends the line" if "escape" in str(error) else "a quote is not closed"
        raise UnreadableScript("command", f"{problem}: {_brief(text.strip())}") from None
    if not words:
        return ()
    shell = next((word for word in words if word in _OF_A_SHELL), None)
    if shell is not None:
        raise UnreadableScript(
            "command", f"{shell} needs a shell: run bash -c '…', with all of it between the quotes"
        )
    first = words[0]
    if "=" in first and first.partition("=")[0].isidentifier():
        raise UnreadableScript(
            "command", f"to set {first.partition('=')[0]}, write env in front: env {_brief(text)}"
        )
    # No shell expands a tilde for us.
    words = tuple(_at_home(word) for word in words)
    missing = missing_command(words[0], directory)
    if missing is not None:
        raise UnreadableScript("command", missing)
    return words


def _directory(text: str) -> str | None:
    if not text:
        return None
    directory = _at_home(text)
    if not Path(directory).is_dir():
        raise UnreadableScript("directory", f"there is no directory {_brief(text)}")
    return directory


def _repeat(text: str) -> int:
    try:
        number = whole_number(text or "1")
    except (ValueError, OverflowError):
        number = 0
    if not 1 <= number <= MOST_REPEATS:
        raise UnreadableScript(
            "repeat", f"repeat takes a whole number from 1 to {MOST_REPEATS:,}, not {_brief(text)}"
        )
    return number


def _at_home(path: str) -> str:
    return str(Path(path).expanduser()) if path == "~" or path.startswith("~/") else path


def _brief(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
