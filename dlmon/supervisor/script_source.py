"""Which code a script was: the hash of its file, and the git commit that is checked out there.

Nothing is run to find out: git itself may run what a repository's settings name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from dlmon.files import read_regular
from dlmon.launch.script_name import NamedScript, named_script
from dlmon.log.folder import reason_of
from dlmon.records.record import record
from dlmon.records.sanitize import clean

MOST_BYTES = 16 * 2**20
_MOST_BYTES_OF_GIT = 4 * 2**20
_MOST_FOLDERS = 64
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = re.compile(r"ref: (refs/(?!.*\.\.)[^\n]{1,500})")
_LONGEST_REASON = 200


@record(frozen=True)
class ScriptSource:
    """What is known of a script's code; `why` says for each that is not why."""

    sha256: str | None
    commit: str | None
    why: dict[str, str]


def script_source(command: tuple[str, ...], directory: str | None) -> ScriptSource:
    """Return which code a command runs.

    Args:
        command: its words.
        directory: where it runs.
    """
    folder, why = Path(directory or "."), dict[str, str]()
    sha256 = commit = None
    around = folder
    try:
        file, content = _script(command, folder)
        sha256, around = hashlib.sha256(content).hexdigest(), file.parent
    except _NOT_KNOWN as error:
        why["script_sha256"] = _reason(error)
    try:
        commit = _commit(around)
    except _NOT_KNOWN as error:
        why["git_commit"] = _reason(error)
    return ScriptSource(sha256, commit, why)


class _Unknown(Exception):
    """What is asked for isn't there; the message says why."""


# A name that no file can have is a ValueError.
_NOT_KNOWN = (OSError, ValueError, _Unknown)


def _reason(error: Exception) -> str:
    return reason_of(error) if isinstance(error, OSError) else clean(str(error), _LONGEST_REASON)


def _script(command: tuple[str, ...], folder: Path) -> tuple[Path, bytes]:
    """Return the file of a command's script, or of a command that is one, and what it holds.

    Raises:
        OSError, ValueError: it can't be read.
        _Unknown: the command names none.
    """
    named = named_script(command)
    if named is not None:
        file = _file_of(named, folder)
        return file, read_regular(file, MOST_BYTES)
    # Not such as the Python of `python -c`.
    if command and os.sep in command[0]:
        file = folder / command[0]
        content = read_regular(file, MOST_BYTES)
        if content.startswith(b"#!"):
            return file, content
    raise _Unknown("the command names no script")


def _file_of(named: NamedScript, folder: Path) -> Path:
    if not named.is_module:
        return folder / named.word
    path = folder.joinpath(*named.word.split("."))
    for file in (path.with_name(f"{path.name}.py"), path / "__main__.py"):
        if file.is_file():
            return file
    raise _Unknown(f"the module {named.word} is not in the directory of the run")


def _commit(folder: Path) -> str:
    """Return the commit that is checked out in the repository around a folder.

    Raises:
        OSError, ValueError: one of git's files can't be read.
        _Unknown: there is none.
    """
    git = next((path for path in _around(folder) if path.exists()), None)
    if git is None:
        raise _Unknown("not in a git repository")
    if git.is_file():
        # Of a worktree or a submodule.
        git = git.parent / _text(git).removeprefix("gitdir: ")
    head = _text(git / "HEAD")
    branch = _BRANCH.fullmatch(head)
    if branch is None:
        return _checked(head)
    common = git / "commondir"
    homes = [git, git / _text(common)] if common.exists() else [git]
    if any((home / "reftable").exists() for home in homes):
        raise _Unknown("its repository keeps branches as reftable, which is not read")
    for home in homes:
        if (home / branch[1]).is_file():
            return _checked(_text(home / branch[1]))
    for home in homes:
        if (home / "packed-refs").is_file():
            for line in _text(home / "packed-refs").splitlines():
                commit, _, name = line.partition(" ")
                if name == branch[1]:
                    return _checked(commit)
    raise _Unknown("nothing was committed yet")


def _around(folder: Path) -> Iterator[Path]:
    folder = folder.absolute()
    for each in (folder, *folder.parents)[:_MOST_FOLDERS]:
        yield each / ".git"


def _checked(commit: str) -> str:
    if _COMMIT.fullmatch(commit) is None:
        raise _Unknown("git's files name no commit")
    return commit


def _text(path: Path) -> str:
    text = read_regular(path, _MOST_BYTES_OF_GIT).decode("utf-8", "replace").strip()
    if "\0" in text:
        raise _Unknown("git's files name no commit")
    return text
