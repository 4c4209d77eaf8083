"""Which runs are of the same script: a name alone, such as train.py, many scripts have. Pure."""

from __future__ import annotations

import os.path

from dlmon.records import SessionHeader
from dlmon.records.record import record
from dlmon.script_name import named_script


@record(frozen=True)
class Script:
    """What tells a script from others.

    Attributes:
        name: its file's name, or that of its module.
        path: of its file; None where that isn't known, as of a module that is installed.
        directory: where it ran.
        words: the program, and the code that it was given in place of a file.
        git_repository, git_path: as in `SessionHeader`.
        git_commit: the same.
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
        """Where it lies, or else ran: what tells it from others of its name on one machine."""
        return self.path or self.directory or ""

    def is_same(self, other: Script) -> bool:
        """Return whether another run was of this script, be it in a copy of its repository."""
        if self.name != other.name:
            return False
        if self.path is None or other.path is None:
            return (self.directory, self.words) == (other.directory, other.words)
        if self.path == other.path:
            return True
        if self.git_path is None or self.git_path != other.git_path:
            return False
        # A copy without an origin has a path of its own, and the commit that it was copied at.
        repositories = {self.git_repository, other.git_repository}
        commits = {self.git_commit, other.git_commit}
        return any(len(each) == 1 and None not in each for each in (repositories, commits))


def is_same_work(ours: SessionHeader, theirs: SessionHeader) -> bool:
    """Return whether two sessions ran the same script, or the same workload."""
    script, other = script_of(ours), script_of(theirs)
    if script is None or other is None:
        return script is other and ours.workload == theirs.workload
    return script.is_same(other)


def script_of(header: SessionHeader) -> Script | None:
    """Return which script a session ran; None of a workload."""
    command = header.command
    if command is None:
        return None
    path = header.script_path
    words: tuple[str, ...] = ()
    named = named_script(command)
    if path is None and named is not None and not named.is_module and header.directory is not None:
        # Older logs have the words alone.
        path = os.path.normpath(os.path.join(header.directory, named.word))  # noqa: PTH118
    if named is None:
        given = command.index("-c") + 2 if "-c" in command else 1
        words = command[:given]
    return Script(
        name=header.workload,
        path=path,
        directory=header.directory,
        words=words,
        git_repository=header.git_repository,
        git_path=header.git_path,
        git_commit=header.git_commit,
    )
