"""Read options for Slurm, write batch scripts and submit them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from dlmon.records.record import record
from dlmon.records.sanitize import clean, quoted
from dlmon.slurm.commands import SlurmError, run_slurm
from dlmon.slurm.queue import duration_s

WARNING_S = 90
"""Seconds from Slurm's warning (SIGTERM) to the time limit, unless the user sets --signal."""
LEAST_WARNING_S = 20
OUTPUT_NAME, SCRIPT_NAME = "job.out", "job.sh"
SUBMIT_S = 120.0
_END = "END OF JOB"
_TASK_VARIABLE = "SLURM_ARRAY_TASK_ID"
_SHORT = {
    "-A": "--account",
    "-a": "--array",
    "-C": "--constraint",
    "-c": "--cpus-per-task",
    "-D": "--chdir",
    "-e": "--error",
    "-G": "--gpus",
    "-J": "--job-name",
    "-M": "--clusters",
    "-N": "--nodes",
    "-n": "--ntasks",
    "-o": "--output",
    "-p": "--partition",
    "-q": "--qos",
    "-t": "--time",
    "-W": "--wait",
    "-w": "--nodelist",
}
_COUNTS = ("nodes", "ntasks", "ntasks-per-node")
# Options that have sbatch do something else than submit our script.
_REFUSED = {
    "--wrap": "the command stands after --",
    "--wait": "dlmon follows the job by itself",
    "--test-only": "it submits nothing",
    "--array": "a sweep becomes a job array by itself",
    "--clusters": "only the cluster of this machine is followed",
    "--help": "it submits nothing",
    "--usage": "it submits nothing",
    "--version": "it submits nothing",
}


@record(frozen=True)
class SlurmOptions:
    """The user's options for sbatch, split into words."""

    words: tuple[str, ...] = ()

    def value_of(self, name: str) -> str | None:
        """Return the value of an option by its long name; None if it is absent."""
        return dict(self._names_and_values()).get(name)

    def _names_and_values(self) -> Iterator[tuple[str, str]]:
        for word, following in zip(self.words, (*self.words[1:], ""), strict=False):
            name, equals, value = word.partition("=")
            if word.startswith("--"):
                yield name, value if equals else following
            elif word[:2] in _SHORT:
                yield _SHORT[word[:2]], word[2:] or following

    @property
    def own_signal(self) -> str | None:
        """The warning signal that the user's script handles, such as USR1; None if dlmon does."""
        value = self.value_of("--signal")
        if value is None:
            return None
        return value.rpartition(":")[2].partition("@")[0].upper().removeprefix("SIG")

    @property
    def has_several_tasks(self) -> bool:
        """True if the user asks for more than one node or task: each runs the command."""
        values = [self.value_of(f"--{name}") or "" for name in _COUNTS]
        numbers = (re.match(r"\d{1,9}", value) for value in values)
        return any(number is not None and int(number[0]) > 1 for number in numbers)

    @property
    def time_limit_s(self) -> float | None:
        return duration_s(self.value_of("--time") or "")


def read_slurm_options(text: str) -> SlurmOptions:
    """Read the value of `--slurm`, such as `-p gpu --gres=gpu:1 -t 2:00:00`.

    Raises:
        SlurmError: the text is not a line of options, or dlmon can't allow one of them.
    """
    if clean(text) != text:
        raise SlurmError("--slurm takes one line of options without control characters")
    try:
        options = SlurmOptions(tuple(shlex.split(text)))
    except ValueError:
        raise SlurmError(f"a quote is not closed in --slurm {quoted(text)}") from None
    if options.words and not options.words[0].startswith("-"):
        raise SlurmError(
            f"--slurm takes options of sbatch, such as '-p gpu -t 2:00:00', not {quoted(text)}"
        )
    for name, why in _REFUSED.items():
        if options.value_of(name) is not None:
            raise SlurmError(f"leave {name} out of --slurm: {why}")
    return options


def warning_s(time_limit_s: float | None) -> int:
    """Return the seconds from Slurm's warning to the time limit: fewer for a short job."""
    if time_limit_s is None:
        return WARNING_S
    return max(LEAST_WARNING_S, min(WARNING_S, int(time_limit_s / 10)))


def batch_script(
    options: SlurmOptions,
    output: Path,
    name: str,
    command: Sequence[str],
    by_srun: bool = False,
    text: str = "",
) -> str:
    """Return the batch script of a job.

    Args:
        options: the user's options; they come last and so take precedence.
        output: the file for the output of Slurm and the shell.
        name: the name of the job.
        command: the command that it runs.
        by_srun: run the command in each task.
        text: a line for the command's stdin, unless `by_srun`.
    """
    defaults = [f"--job-name={name}", "--open-mode=append"]
    if by_srun:
        defaults.append(f"--output={_escaped(output)}")
        return _script(options, defaults, f"exec {shlex.join(['srun', *command])}", is_step=True)
    lines = [f"exec {shlex.join(command)} << '{_END}'", text, _END]
    if options.value_of("--output") is None:
        # Slurm can't start a job if the node doesn't see the folder of its output.
        defaults.append("--output=/dev/null")
        folder, file = shlex.quote(str(output.parent)), shlex.quote(str(output))
        lines.insert(0, f"[ ! -d {folder} ] || exec >> {file} 2>&1")
    return _script(options, defaults, "\n".join(lines))


def array_script(
    options: SlurmOptions, output: Path, name: str, command: Sequence[str], tasks: Path, array: str
) -> str:
    """Return the batch script of a job array; each task runs the command with its folder added.

    Args:
        options: the user's options; they come last and so take precedence.
        output: the folder for output until a task knows its own folder, which has `OUTPUT_NAME`.
        name: the name of the job.
        command: the command that each task runs.
        tasks: a file with a line for each task: its folder.
        array: the option `--array=...`.
    """
    defaults = [f"--job-name={name}", f"--output={_escaped(output)}/task-%A-%a.out", array]
    line = f'"$(({_TASK_VARIABLE} + 1))p"'
    folder = f"folder=$(sed -n {line} {shlex.quote(str(tasks))})"
    run = f'exec {shlex.join(command)} "$folder" >> "$folder/{OUTPUT_NAME}" 2>&1'
    return _script(options, [*defaults, "--open-mode=append"], f"{folder}\n{run}")


def _script(
    options: SlurmOptions, defaults: list[str], commands: str, is_step: bool = False
) -> str:
    if options.value_of("--signal") is None:
        # Slurm signals the tasks themselves if srun starts them.
        to_batch = "" if is_step else "B:"
        warning = f"--signal={to_batch}TERM@{warning_s(options.time_limit_s)}"
        defaults = [*defaults, warning]
    lines = [f"#SBATCH {shlex.quote(word)}" for word in defaults]
    lines += [f"#SBATCH {shlex.join(words)}" for words in _with_values(options.words)]
    return "\n".join(["#!/bin/bash", *lines, "", commands, ""])


def _with_values(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield each option with its values."""
    begin = 0
    for end in range(1, len(words) + 1):
        if end == len(words) or words[end].startswith("-"):
            if end > begin:
                yield words[begin:end]
            begin = end


def _escaped(path: Path) -> str:
    """Return a path for --output, which takes % for the start of a pattern."""
    return str(path).replace("%", "%%")


def submit(script: Path, directory: str | None = None) -> str:
    """Submit a batch script and return the number of the job.

    Args:
        script: the batch script.
        directory: the working directory of the job; None for the current one.

    Raises:
        SlurmError: there is no Slurm here, or it refuses the job.
    """
    words = ["sbatch", "--parsable"]
    if directory is not None:
        words.append(f"--chdir={directory}")
    printed = run_slurm([*words, str(script)], SUBMIT_S).decode("utf-8", "replace")
    # The name of the cluster follows a semicolon if there are several.
    number = re.search(r"^(\d+)(?:;\S*)?$", printed, re.MULTILINE)
    if number is None:
        raise SlurmError(f"sbatch named no job: {quoted(printed.strip())}")
    return number[1]
