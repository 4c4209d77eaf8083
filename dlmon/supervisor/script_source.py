"""The version of a script: the hash of its file, its git repository and the commit."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from dlmon.log.folder import reason_of
from dlmon.records.sanitize import clean
from dlmon.script_name import NamedScript, named_script
from dlmon.system.files import read_regular
from dlmon.system.git import GitError, git

MOST_BYTES = 16 * 2**20
# As in https://name:password@host/path, ssh://git@host:22/path and git@host:path.
_REMOTE = re.compile(r"(?:[a-z+]+://)?(?:[^@/]*@)?(\w[\w.-]*)(?::\d+(?=/))?[:/]+(.+?)(?:\.git)?/*")
_LONGEST_REASON = 200


def script_source(
    command: tuple[str, ...], directory: str | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a script's version as fields of the session's header, and why some are unknown."""
    folder, why = Path(directory or "."), dict[str, str]()
    sha256 = commit = repository = path_in_repository = file = None
    try:
        named, content = _script(command, folder)
        file, sha256 = named.resolve(), hashlib.sha256(content).hexdigest()
    except _ERRORS as error:
        why["script_sha256"] = _reason(error)
    folder = folder if file is None else file.parent
    try:
        top, git_dir = _git(folder, "rev-parse", "--show-toplevel", "--git-common-dir").split("\n")
        repository = _repository(_git(folder, "config", "--default", "", "remote.origin.url"))
        repository = repository or str((folder / git_dir).resolve())
        if file is not None:
            path_in_repository = clean(str(file.relative_to(Path(top).resolve())))
        commit = _git(folder, "rev-parse", "--verify", "HEAD")
    except _ERRORS as error:
        why["git_commit"] = _reason(error)
    fields = {
        "script_sha256": sha256,
        "git_commit": commit,
        "script_path": None if file is None else str(file),
        "git_repository": repository,
        "git_path": path_in_repository,
    }
    return fields, why


class _Unknown(Exception):
    """Raised if a script or repository has no version; the message says why."""


# An impossible file name raises ValueError.
_ERRORS = (OSError, ValueError, _Unknown)


def _reason(error: Exception) -> str:
    return reason_of(error) if isinstance(error, OSError) else clean(str(error), _LONGEST_REASON)


def _script(command: tuple[str, ...], folder: Path) -> tuple[Path, bytes]:
    """Return the file of a command's script, which may be the command itself, and its content.

    Raises:
        OSError, ValueError: it can't be read.
        _Unknown: the command names none.
    """
    named = named_script(command)
    if named is not None:
        file = _file_of(named, folder)
        return file, read_regular(file, MOST_BYTES)
    # The command itself may be a script, unless it is a program such as Python.
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


def _git(folder: Path, *words: str) -> str:
    """Return the cleaned output of a git command in a folder.

    Raises:
        _Unknown: the folder is in no repository, or git fails.
    """
    try:
        output = git(folder, *words)
    except GitError as error:
        errors = str(error)
        if "not a git repository" in errors:
            raise _Unknown("not in a git repository") from None
        unborn = "Needed a single revision" in errors
        raise _Unknown("nothing was committed yet" if unborn else errors) from None
    return "\n".join(map(clean, output.decode("utf-8", "replace").splitlines()))


def _repository(url: str) -> str | None:
    """Return the host and path of a remote's URL, without protocol, user and password.

    The path of a local remote is returned as it is.
    """
    remote = _REMOTE.fullmatch(url)
    if url.startswith("/") or remote is None:
        return url if url.startswith("/") else None
    return f"{remote[1]}/{remote[2]}"
