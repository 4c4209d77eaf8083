"""Which code a script was: the hash of its file, and the git commit that lies around it.

Nothing is run to find out: git itself may run what a repository's settings name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from dlmon.files import read_regular
from dlmon.log.folder import reason_of
from dlmon.records.record import record

MOST_BYTES = 16 * 2**20
_MOST_BYTES_OF_GIT = 4 * 2**20
_MOST_FOLDERS = 64
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = re.compile(r"ref: (refs/(?!.*\.\.)[^\n]{1,500})")
_FILE_TYPES = (".py", ".sh")


@record(frozen=True)
class ScriptSource:
    """What is known of a script's code; `why` says for each that is not why."""

    sha256: str | None
    commit: str | None
    why: dict[str, str]


def script_source(command: tuple[str, ...], directory: str | None) -> ScriptSource:
    """Return which code a command runs.

    Args:
        command: its words; the first that is a Python or shell script's file is the script.
        directory: where it runs.
    """
    folder, why = Path(directory or "."), dict[str, str]()
    sha256 = commit = None
    try:
        sha256 = hashlib.sha256(read_regular(_file_of(command, folder), MOST_BYTES)).hexdigest()
    except (OSError, _Unknown) as error:
        why["script_sha256"] = _reason(error)
    try:
        commit = _commit(folder)
    except (OSError, _Unknown) as error:
        why["git_commit"] = _reason(error)
    return ScriptSource(sha256, commit, why)


class _Unknown(Exception):
    """What is asked for isn't there; the message says why."""


def _reason(error: OSError | _Unknown) -> str:
    return reason_of(error) if isinstance(error, OSError) else str(error)


def _file_of(command: tuple[str, ...], folder: Path) -> Path:
    """Return the script that a command names: its file, or that of a module.

    Raises:
        OSError: where it would lie can't be looked into.
        _Unknown: it names none.
    """
    for word, following in zip(command, (*command[1:], ""), strict=False):
        if word.endswith(_FILE_TYPES) and not word.startswith("-"):
            return folder / word
        if word == "-m" and following:
            path = folder.joinpath(*following.split("."))
            found = (path.with_name(f"{path.name}.py"), path / "__main__.py")
            file = next((each for each in found if each.is_file()), None)
            if file is not None:
                return file
    raise _Unknown("the command names no file of Python or of a shell")


def _commit(folder: Path) -> str:
    """Return the commit that is checked out in the repository around a folder.

    Raises:
        OSError: one of git's files can't be read.
        _Unknown: there is none.
    """
    git = next((path for path in _around(folder) if path.exists()), None)
    if git is None:
        raise _Unknown("the directory is in no git repository")
    if git.is_file():
        # Of a worktree or a submodule.
        git = git.parent / _text(git).removeprefix("gitdir: ")
    head = _text(git / "HEAD")
    branch = _BRANCH.fullmatch(head)
    if branch is None:
        return _checked(head)
    common = git / "commondir"
    homes = [git, git / _text(common)] if common.exists() else [git]
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
