"""Read a git repository, which may be anybody's, without running a program that it names."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from threading import Timer

COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""The whole hash of a commit."""

_LONGEST_S = 2.0
_MOST_BYTES = 2**20
# No pager, no file watcher, and nothing fetched from another machine for a partial clone.
_SETTINGS = ("safe.directory=*", "core.fsmonitor=false", "protocol.allow=never")
_ENVIRONMENT = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}


class GitError(Exception):
    """Raised if git can't answer; the message says why, and may hold foreign text."""


def git(
    folder: Path, *words: str, most_bytes: int = _MOST_BYTES, longest_s: float = _LONGEST_S
) -> bytes:
    """Return the output of a git command in a folder.

    Args:
        folder: a folder of the repository.
        words: the command, which must run no program that the settings of the repository name.
        most_bytes: a longer output is an error.
        longest_s: the command is ended after this time.

    Raises:
        GitError: the folder is in no repository, or git can't be run, fails or takes too long.
    """
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    try:
        process = subprocess.Popen(
            ["git", "--no-pager", *settings, "-C", folder, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment | _ENVIRONMENT,
        )
    except FileNotFoundError:
        raise GitError("git is not installed") from None
    except (OSError, ValueError) as error:
        # A folder with a null character in its name is a ValueError.
        raise GitError(getattr(error, "strerror", None) or str(error)) from None
    too_late = Timer(longest_s, process.kill)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        too_late.start()
        try:
            output = process.stdout.read(most_bytes + 1)
            if len(output) > most_bytes:
                process.kill()
            errors = process.stderr.read(_MOST_BYTES).decode("utf-8", "replace").strip()
            code = process.wait()
        finally:
            too_late.cancel()
    if len(output) > most_bytes:
        raise GitError("git printed too much")
    if code:
        raise GitError(errors or f"git took more than {longest_s:.0f} s")
    return output
