"""Which code a script was: its file with its hash, and the git repository and commit it is in.

Nothing is run to find out: git itself may run what a repository's settings name.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from dlmon.files import read_regular
from dlmon.log.folder import reason_of
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.script_name import NamedScript, named_script

MOST_BYTES = 16 * 2**20
_MOST_BYTES_OF_GIT = 4 * 2**20
_MOST_FOLDERS = 64
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = re.compile(r"ref: (refs/(?!.*\.\.)[^\n]{1,500})")
_ORIGIN = re.compile(
    r'^\[remote "origin"\][ \t]*$(?:\n(?!\[).*)*?\n[ \t]*url[ \t]*=[ \t]*(\S.*?)[ \t]*$',
    re.MULTILINE,
)
# As in https://name:password@host/path, ssh://git@host:22/path and git@host:path.
_REMOTE = re.compile(r"(?:[a-z+]+://)?(?:[^@/]*@)?(\w[\w.-]*)(?::\d+(?=/))?[:/]+(.+?)(?:\.git)?/*")
_LONGEST_REASON = 200


@record(frozen=True)
class ScriptSource:
    """What is known of a script's code; `why` says for hash and commit why they are not known."""

    sha256: str | None
    commit: str | None
    why: dict[str, str]
    path: str | None = None
    repository: str | None = None
    path_in_repository: str | None = None


def script_source(command: tuple[str, ...], directory: str | None) -> ScriptSource:
    """Return which code a command runs.

    Args:
        command: its words.
        directory: where it runs.
    """
    folder, why = Path(directory or "."), dict[str, str]()
    sha256 = commit = repository = path_in_repository = file = None
    try:
        named, content = _script(command, folder)
        file, sha256 = named.resolve(), hashlib.sha256(content).hexdigest()
    except _NOT_KNOWN as error:
        why["script_sha256"] = _reason(error)
    try:
        git = _git_around(folder if file is None else file.parent)
        if file is not None:
            path_in_repository = str(file.relative_to(git.parent.resolve()))
        homes = _homes(git)
        repository = _repository(homes[-1])
        commit = _commit(homes)
    except _NOT_KNOWN as error:
        why["git_commit"] = _reason(error)
    path = None if file is None else str(file)
    return ScriptSource(sha256, commit, why, path, repository, path_in_repository)


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


def _git_around(folder: Path) -> Path:
    """Return the `.git` of the repository around a folder.

    Raises:
        _Unknown: there is none.
    """
    folder = folder.absolute()
    for each in (folder, *folder.parents)[:_MOST_FOLDERS]:
        if (each / ".git").exists():
            return each / ".git"
    raise _Unknown("not in a git repository")


def _homes(git: Path) -> list[Path]:
    """Return the folders in which git keeps what is checked out, and last its branches.

    Raises:
        OSError, ValueError: one of git's files can't be read.
    """
    if git.is_file():
        # Of a worktree or a submodule.
        git = git.parent / _text(git).removeprefix("gitdir: ")
    common = git / "commondir"
    return [git, git / _text(common)] if common.exists() else [git]


def _repository(home: Path) -> str:
    """Return where a repository was cloned from, without a user and a password, else its path.

    The same host and path are one repository, by whichever protocol it was cloned.

    Raises:
        OSError, ValueError: its settings can't be read.
    """
    settings = home / "config"
    origin = _ORIGIN.search(_text(settings)) if settings.exists() else None
    if origin is not None and origin[1].startswith("/"):
        return clean(origin[1])
    remote = None if origin is None else _REMOTE.fullmatch(origin[1])
    return str(home.resolve()) if remote is None else clean(f"{remote[1]}/{remote[2]}")


def _commit(homes: list[Path]) -> str:
    """Return the commit that is checked out in a repository.

    Raises:
        OSError, ValueError: one of git's files can't be read.
        _Unknown: there is none.
    """
    head = _text(homes[0] / "HEAD")
    branch = _BRANCH.fullmatch(head)
    if branch is None:
        return _checked(head)
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


def _checked(commit: str) -> str:
    if _COMMIT.fullmatch(commit) is None:
        raise _Unknown("git's files name no commit")
    return commit


def _text(path: Path) -> str:
    text = read_regular(path, _MOST_BYTES_OF_GIT).decode("utf-8", "replace").strip()
    if "\0" in text:
        raise _Unknown("git's files name no commit")
    return text
