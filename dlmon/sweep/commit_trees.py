"""Copy the files of commits into folders of their own (git worktrees), and remove them again."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from dlmon.records.sanitize import SHOWN_LENGTH, clean
from dlmon.sweep.plan import SweepError
from dlmon.system.git import COMMIT, GitError, git

_PREFIX = "commit-"
# A large repository takes a while to copy.
_LONGEST_S = 600.0
_WITHOUT_HOOKS = ("-c", "core.hooksPath=/dev/null")


def repository_of(folder: Path) -> Path:
    """Return the top folder of the repository that a folder is in.

    Raises:
        SweepError: it is in none.
    """
    try:
        return Path(os.fsdecode(git(folder, "rev-parse", "--show-toplevel")).rstrip("\n"))
    except GitError as error:
        raise SweepError(
            f"{clean(str(folder), SHOWN_LENGTH)} is in no git repository, so it has no commits to "
            f"compare ({_in_short(error)})"
        ) from None


def commit_of(repository: Path, name: str) -> str:
    """Return the commit that a branch, a tag or another name of git stands for, in hexadecimal.

    Raises:
        SweepError: there is none.
    """
    try:
        # A name that begins with a dash would be an option.
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        commit = git(repository, *words).decode().strip()
    except GitError:
        commit = ""
    if not COMMIT.fullmatch(commit):
        raise SweepError(
            f"there is no commit {clean(name, SHOWN_LENGTH)} in "
            f"{clean(str(repository), SHOWN_LENGTH)}: git log --oneline shows them"
        )
    return commit


def has_uncommitted_changes(repository: Path) -> bool | None:
    """Return whether files that git follows differ from their commit; None if git can't tell."""
    try:
        return bool(git(repository, "status", "--porcelain", "--untracked-files=no"))
    except GitError:
        return None


def make_trees(
    repository: Path, folder: Path, commits: Mapping[str, str], links: Iterable[str] = ()
) -> dict[str, Path]:
    """Copy commits below a folder, and return the folder of each by its name.

    Args:
        repository: the top folder of the repository.
        folder: an existing folder, such as that of the sweep's log.
        commits: the commits by their names.
        links: what git ignores in the repository and each copy needs, by its path there.

    Raises:
        SweepError: a commit can't be copied; no copy is left.
    """
    trees: dict[str, Path] = {}
    try:
        for name, commit in commits.items():
            trees[name] = tree = folder / f"{_PREFIX}{commit[:12]}"
            if tree in list(trees.values())[:-1]:
                continue
            add = ("worktree", "add", "--quiet", "--detach", "--force", str(tree), commit)
            git(repository, *_WITHOUT_HOOKS, *add, longest_s=_LONGEST_S)
            for link in links:
                _link(repository, tree, link)
    except (GitError, OSError, ValueError) as error:
        remove_trees(repository, trees)
        if isinstance(error, SweepError):
            raise
        raise SweepError(f"the commit {name} can't be copied: {_in_short(error)}") from None
    except BaseException:
        remove_trees(repository, trees)
        raise
    return trees


def linked_paths(repository: Path, links: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of `--link` from the top of the repository.

    Raises:
        SweepError: a path is outside, or there is nothing.
    """
    paths = tuple(os.path.relpath(repository / link, repository) for link in links)
    for link, path in zip(links, paths, strict=True):
        shown = f"--link {clean(link, SHOWN_LENGTH)}"
        if not Path(path).parts or Path(path).parts[0] == os.pardir:
            raise SweepError(f"{shown} is not below {clean(str(repository), SHOWN_LENGTH)}")
        if not os.path.lexists(repository / path):
            raise SweepError(f"{shown}: {clean(str(repository), SHOWN_LENGTH)} has no such path")
    return paths


def _link(repository: Path, tree: Path, link: str) -> None:
    """Make a file or folder of the repository visible in a copy."""
    source, target = repository / link, tree / link
    if target.is_dir() and not target.is_symlink() and not any(target.iterdir()):
        # The folder of a submodule, which a copy has without its files.
        target.rmdir()
    if target.exists() or target.is_symlink():
        kind = "folder: name what git ignores in it" if target.is_dir() else "file"
        raise SweepError(f"--link {clean(link, SHOWN_LENGTH)}: the commit has this {kind}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source.absolute(), source.is_dir())


def remove_trees(repository: Path, trees: Mapping[str, Path]) -> None:
    """Remove the copies of commits, and what git noted about them."""
    for tree in set(trees.values()):
        # What git refuses to remove, such as a copy that was cut short, is removed all the same.
        shutil.rmtree(tree, ignore_errors=True)
    # The repository may be gone, and with it its notes.
    with contextlib.suppress(GitError):
        git(repository, "worktree", "prune")


def leftover_trees(folder: Path) -> dict[str, Path]:
    """Return the copies below the folder of a sweep, which a killed process may have left."""
    return {tree.name: tree for tree in folder.glob(f"{_PREFIX}*") if tree.is_dir()}


def _in_short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    # Git's last line says what it gave up, an earlier one which file it could not write, and why.
    causes = [line for line in lines if line.startswith("error:")]
    full = [line for line in lines if os.strerror(errno.ENOSPC) in line]
    return clean([type(error).__name__, *lines, *causes, *full][-1], SHOWN_LENGTH)
