"""The identity of a script: many have the same name, such as train.py. Pure."""

from __future__ import annotations

import os.path

from dlmon.records import SessionHeader
from dlmon.records.record import record
from dlmon.script_name import named_script


@record(frozen=True)
class Script:
    """The identity of a script.

    Attributes:
        name: of its file or module.
        path: of its file; None if not known, as for an installed module.
        directory: the working directory of the run.
        words: the program, and the code that it was given in place of a file.
        git_repository, git_path, git_commit: as in `SessionHeader`.
    """

    name: str
    path: str | None
    directory: str | None
    words: tuple[str, ...] = ()
    git_repository: str | None = None
    git_path: str | None = None
    git_commit: str | None = None

    @property
    def place(self) -> str:
        """Its path or else its working directory, which tells it from others of its name."""
        return self.path or self.directory or ""

    def is_same(self, other: Script) -> bool:
        """Return whether another run was of this script, or of a copy in another clone."""
        if self.name != other.name:
            return False
        if self.path is None or other.path is None:
            return (self.directory, self.words) == (other.directory, other.words)
        if self.path == other.path:
            return True
        if self.git_path is None or self.git_path != other.git_path:
            return False
        # A clone without an origin has another repository path, but the same commit.
        return any(
            ours == theirs is not None
            for ours, theirs in (
                (self.git_repository, other.git_repository),
                (self.git_commit, other.git_commit),
            )
        )


def is_same_work(ours: SessionHeader, theirs: SessionHeader) -> bool:
    """Return whether two sessions ran the same script, or the same workload.

    A script that dlmon set something in is not the script as it is.
    """
    if ours.injected != theirs.injected:
        return False
    script, other = script_of(ours), script_of(theirs)
    if script is None or other is None:
        return script is other and ours.workload == theirs.workload
    return script.is_same(other)


def script_of(header: SessionHeader) -> Script | None:
    """Return the script that a session ran; None for a workload."""
    command = header.command
    if command is None:
        return None
    path = header.script_path
    words: tuple[str, ...] = ()
    named = named_script(command)
    if path is None and named is not None and not named.is_module and header.directory is not None:
        # Older logs have only the words.
        path = os.path.normpath(os.path.join(header.directory, named.word))  # noqa: PTH118
    if named is None:
        words = command[: command.index("-c") + 2 if "-c" in command else 1]
    return Script(
        name=header.workload,
        path=path,
        directory=header.directory,
        words=words,
        git_repository=header.git_repository,
        git_path=header.git_path,
        git_commit=header.git_commit,
    )
