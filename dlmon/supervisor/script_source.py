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
_BRANCH = re.compile(r"ref: (refs/(?!.*\.\.)[^\0\n]{1,500})")
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
    file = _file_of(command, folder)
    if file is None:
        why["script_sha256"] = "the command names no file of Python or of a shell"
    else:
        try:
            sha256 = hashlib.sha256(read_regular(file, MOST_BYTES)).hexdigest()
        except OSError as error:
            why["script_sha256"] = reason_of(error)
    try:
        commit = _commit(folder)
    except (OSError, ValueError) as error:
        why["git_commit"] = reason_of(error) if isinstance(error, OSError) else str(error)
    return ScriptSource(sha256, commit, why)


def _file_of(command: tuple[str, ...], folder: Path) -> Path | None:
    """Return the script that a command names: its file, or that of a module."""
    for word, following in zip(command, (*command[1:], ""), strict=False):
        if word.endswith(_FILE_TYPES) and not word.startswith("-"):
            return folder / word
        if word == "-m" and following:
            path = folder.joinpath(*following.split("."))
            found = (path.with_name(f"{path.name}.py"), path / "__main__.py")
            file = next((each for each in found if each.is_file()), None)
            if file is not None:
                return file
    return None


def _commit(folder: Path) -> str:
    """Return the commit that is checked out in the repository around a folder.

    Raises:
        OSError: one of git's files can't be read.
        ValueError: there is none; the message says why.
    """
    git = next((path for path in _around(folder) if path.exists()), None)
    if git is None:
        raise ValueError("the directory is in no git repository")
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
    raise ValueError("nothing was committed yet")


def _around(folder: Path) -> Iterator[Path]:
    folder = folder.absolute()
    for each in (folder, *folder.parents)[:_MOST_FOLDERS]:
        yield each / ".git"


def _checked(commit: str) -> str:
    if _COMMIT.fullmatch(commit) is None:
        raise ValueError("git's files name no commit")
    return commit


def _text(path: Path) -> str:
    return read_regular(path, _MOST_BYTES_OF_GIT).decode("utf-8", "replace").strip()
