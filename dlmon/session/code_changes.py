"""The files that changed between the commits of two sides of runs, as git tells them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from dlmon.comparison.compared_run import RunFigures
from dlmon.comparison.sides import ChangedFile, CodeChanges, RunComparison
from dlmon.records.sanitize import clean
from dlmon.system.git import COMMIT, GitError, git

_MOST_FOLDERS, _MOST_SCRIPTS = 4, 8
_LONGEST_SCRIPT = 2**24
_NOT_HERE = "no repository on this machine holds both commits"


def with_code_changes(comparison: RunComparison) -> RunComparison:
    """Return a comparison of scripts with the files that changed between their commits.

    It stays as it is if a side has no commit, or runs of several.
    """
    runs = (*comparison.base, *comparison.new)
    commits = [_commits(side) for side in (comparison.base, comparison.new)]
    if [len(of_side) for of_side in commits] != [1, 1]:
        return comparison
    base, new = commits[0].pop(), commits[1].pop()
    why = _NOT_HERE
    for folder in islice(_folders(runs), _MOST_FOLDERS):
        try:
            files = changed_files(folder, base, new)
        except GitError as error:
            # The usual errors of git say what `_NOT_HERE` says in plain words.
            why = str(error) if str(error).startswith("git ") else why
        else:
            uncommitted = _uncommitted(folder, runs)
            return replace(comparison, code=CodeChanges(base, new, files, uncommitted))
    return replace(comparison, code=CodeChanges(base, new, why=why))


def _commits(side: Sequence[RunFigures]) -> set[str]:
    """Return the commits of a side; none if that of a run isn't known."""
    commits = {run.script.git_commit or "" if run.script else "" for run in side}
    # A commit comes from a log, and becomes an argument of git.
    return commits if all(map(COMMIT.fullmatch, commits)) else set()


def _folders(runs: Iterable[RunFigures]) -> Iterable[Path]:
    """Return the folders of the scripts, one of which may be in a repository here."""
    places = dict.fromkeys(run.script.place for run in runs if run.script)
    paths = (Path(place) for place in places if place.startswith("/"))
    return dict.fromkeys(path if path.is_dir() else path.parent for path in paths)


def changed_files(folder: Path, base: str, new: str | None) -> tuple[ChangedFile, ...]:
    """Return the files that differ between two commits, those with the most lines first.

    Args:
        folder: a folder of their repository.
        base: a commit.
        new: the other; None for the files as they are now.

    Raises:
        GitError: git can't tell.
    """
    options = ("-z", "-M", "-l200", "--numstat", "--no-ext-diff", "--no-textconv")
    words = ("diff", *options, base) if new is None else ("diff-tree", "-r", *options, base, new)
    output = git(folder, *words, "--").decode("utf-8", "replace")
    fields = iter(output.split("\0"))
    files = []
    for field in fields:
        added, _, rest = field.partition("\t")
        deleted, _, name = rest.partition("\t")
        if not rest:
            continue
        if not name:
            # A renamed file: both of its names follow.
            before, name = next(fields, ""), next(fields, "")
            name = f"{before} → {name}"
        lines = (int(count) if count.isdecimal() else None for count in (added, deleted))
        files.append(ChangedFile(clean(name), *lines))
    return tuple(sorted(files, key=lambda file: -(file.added or 0) - (file.deleted or 0)))


def _uncommitted(folder: Path, runs: Iterable[RunFigures]) -> tuple[str, ...]:
    """Return the runs whose script isn't as in their commit."""
    names = []
    for run in islice(runs, _MOST_SCRIPTS):
        script = run.script
        if script is None or script.git_path is None or run.script_sha256 is None:
            continue
        path = f"{script.git_commit}:{script.git_path}"
        try:
            content = git(folder, "cat-file", "blob", path, most_bytes=_LONGEST_SCRIPT)
        except GitError:
            continue
        if hashlib.sha256(content).hexdigest() != run.script_sha256:
            names.append(run.name or run.session)
    return tuple(names)
