"""Apply the values of a combination to the command of a person's script. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from dlmon.protocol.job import Job
from dlmon.records import Value
from dlmon.records.sanitize import SHOWN_LENGTH, clean
from dlmon.sweep.plan import HOST, SweepError

COMMIT = "commit"
"""The key whose values are commits; `AS_IT_LIES` is the tree without a checkout."""
PYTHON = "python"
"""The key whose values are Python interpreters."""
ENVIRONMENT = "env:"
"""The prefix of a key that names an environment variable."""
INJECTION = "set:"
"""The prefix of a key that names what dlmon sets inside the script."""
AS_IT_LIES = "."
AS_IT_IS = "as it is"
"""The value of an injection that sets nothing."""
IMPORTED_BELOW = "DLMON_REPOSITORY"
"""The environment variable by which the hooks report what a script imports of a repository."""

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


def check_keys(command: Sequence[str], keys: Collection[str]) -> None:
    """Check that each key says something to the command, and that each placeholder has a key.

    Raises:
        SweepError: a key has no placeholder, or a placeholder no key.
    """
    named = {name for word in command for name in _PLACEHOLDER.findall(word)}
    placeholders = [key for key in keys if key not in (COMMIT, PYTHON, HOST) and ":" not in key]
    for key in placeholders:
        if key not in named:
            shown = clean(key, SHOWN_LENGTH)
            raise SweepError(
                f"--vary {shown}= changes nothing: write {{{shown}}} in the command, or vary "
                f"env:{shown} or set:{shown}"
            )
    for name in sorted(named - set(placeholders)) if placeholders else ():
        raise SweepError(f"the command has {{{name}}}, and nothing varies it: --vary {name}=A,B")
    if PYTHON in keys and not PurePath(command[0]).name.startswith("python"):
        raise SweepError(
            f"--vary python= replaces the first word of a command, which is "
            f"{clean(command[0], SHOWN_LENGTH)} and no Python"
        )


def varied_job(
    job: Job, varied: Mapping[str, Value], repository: str | None, trees: Mapping[str, Path]
) -> Job:
    """Return the job of a script with the values of a combination.

    Args:
        job: the job of the command as it was typed.
        varied: the values by key.
        repository: the folder of the repository whose commits are compared.
        trees: the copy of each commit.
    """
    tree = trees.get(f"{varied.get(COMMIT, AS_IT_LIES)}")
    if tree is not None and repository is not None:
        job = _in_tree(job, Path(repository), tree)
    if repository is not None:
        folder = {IMPORTED_BELOW: str(tree or repository)}
        job = replace(job, environment=job.environment | folder)
    words = [_filled(word, varied) for word in job.command]
    if PYTHON in varied:
        words[0] = f"{varied[PYTHON]}"
    environment = {
        key.removeprefix(ENVIRONMENT): f"{value}"
        for key, value in varied.items()
        if key.startswith(ENVIRONMENT)
    }
    injected = {
        key.removeprefix(INJECTION): value
        for key, value in varied.items()
        if key.startswith(INJECTION) and value != AS_IT_IS
    }
    return replace(
        job,
        command=tuple(words),
        environment=job.environment | environment,
        injected=job.injected | injected,
    )


def _filled(word: str, varied: Mapping[str, Value]) -> str:
    return _PLACEHOLDER.sub(lambda match: f"{varied.get(match[1], match[0])}", word)


def _in_tree(job: Job, repository: Path, tree: Path) -> Job:
    """Return a job that runs in the copy of a commit instead of its repository.

    A file that the copy lacks, such as the interpreter of a `.venv`, stays that of the repository.
    The copy comes first on the module path, before what is installed from the repository.
    """
    directory = Path(job.directory or ".")
    inside = (
        tree / directory.relative_to(repository) if _is_in(directory, repository) else directory
    )

    def moved(word: str) -> str:
        path = Path(word)
        if path.is_absolute() and _is_in(path, repository):
            copy = tree / path.relative_to(repository)
            return str(copy) if copy.exists() else word
        return word

    first, *others = (moved(word) for word in job.command)
    if os.sep in first and not (inside / first).exists():
        # Don't resolve links: Python finds its virtual environment by the link's path.
        first = str(directory / first)
    path = os.pathsep.join(filter(None, (*_module_folders(tree), os.environ.get("PYTHONPATH"))))
    return replace(
        job,
        command=(first, *others),
        directory=str(inside),
        environment={**job.environment, "PYTHONPATH": path},
    )


def _module_folders(tree: Path) -> list[str]:
    """Return the folders of a tree that hold its modules, in the two usual layouts."""
    return [str(folder) for folder in (tree / "src", tree) if folder.is_dir()]


def _is_in(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents
