"""Submit a job: what a person asked Slurm for, the script that it runs, and its number."""

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
"""So long before the end of its time a job is asked to end, unless its person says otherwise."""
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
# What would have sbatch do something else than hand in our script.
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
    """The options of sbatch that a person gave, split as a shell does, but not read.

    Attributes:
        words: as they were given.
    """

    words: tuple[str, ...] = ()

    def value_of(self, name: str) -> str | None:
        """Return the value of an option by its long name; None where it isn't given."""
        return dict(self._given()).get(name)

    def _given(self) -> Iterator[tuple[str, str]]:
        for word, following in zip(self.words, (*self.words[1:], ""), strict=False):
            name, equals, value = word.partition("=")
            if word.startswith("--"):
                yield name, value if equals else following
            elif word[:2] in _SHORT:
                yield _SHORT[word[:2]], word[2:] or following

    @property
    def own_signal(self) -> str | None:
        """The signal that the script handles itself, such as USR1; None where it is dlmon's."""
        asked = self.value_of("--signal")
        name = None if asked is None else asked.rpartition(":")[2].partition("@")[0].upper()
        return None if name is None else name.removeprefix("SIG")

    @property
    def has_several_tasks(self) -> bool:
        """Whether more than one node, or task, is asked for: each runs the command then."""
        numbers = [self.value_of(f"--{name}") or "" for name in _COUNTS]
        found = (re.match(r"\d{1,9}", number) for number in numbers)
        return any(number is not None and int(number[0]) > 1 for number in found)

    @property
    def time_limit_s(self) -> float | None:
        return duration_s(self.value_of("--time") or "")


def read_slurm_options(text: str) -> SlurmOptions:
    """Read what stands after `--slurm`, such as `-p gpu --gres=gpu:1 -t 2:00:00`.

    Raises:
        SlurmError: it is no text of options, or one of them is none for dlmon.
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
    """Return how long before its end a job is asked to end: less where it has little time."""
    if time_limit_s is None:
        return WARNING_S
    return max(LEAST_WARNING_S, min(WARNING_S, int(time_limit_s / 10)))


def batch_script(
    options: SlurmOptions,
    output: Path,
    name: str,
    command: Sequence[str],
    in_each: bool = False,
    text: str = "",
) -> str:
    """Return the script that a job runs, to be handed in or read by a person.

    Args:
        options: what the person asked for; it comes last, so that it prevails.
        output: where Slurm and the shell write what they have to say.
        name: what the job is called.
        command: what it runs.
        in_each: run it in each of several tasks, by srun.
        text: a line that the command reads on its stdin, where it is not run in each.
    """
    asked = [f"--job-name={name}", "--open-mode=append"]
    if in_each:
        asked.append(f"--output={_escaped(output)}")
        return _script(options, asked, f"exec {shlex.join(['srun', *command])}", is_step=True)
    # A node that does not see the folder could not begin a job with its output there.
    lines = [f"exec {shlex.join(command)} << '{_END}'", text, _END]
    if options.value_of("--output") is None:
        asked.append("--output=/dev/null")
        folder, file = shlex.quote(str(output.parent)), shlex.quote(str(output))
        lines.insert(0, f"[ ! -d {folder} ] || exec >> {file} 2>&1")
    return _script(options, asked, "\n".join(lines))


def array_script(
    options: SlurmOptions, output: Path, name: str, command: Sequence[str], tasks: Path, array: str
) -> str:
    """Return the script that each task of an array runs, with its folder as the last word.

    Args:
        options: as for `batch_script`.
        output: a folder; what is said once a task knows its own folder is there, in `OUTPUT_NAME`.
        name: as for `batch_script`.
        command: what it runs.
        tasks: a file with the folder of each task, a line each, from that of task 0 on.
        array: the option that makes the array.
    """
    asked = [f"--job-name={name}", f"--output={_escaped(output)}/task-%A-%a.out", array]
    line = f'"$(({_TASK_VARIABLE} + 1))p"'
    folder = f"folder=$(sed -n {line} {shlex.quote(str(tasks))})"
    run = f'exec {shlex.join(command)} "$folder" >> "$folder/{OUTPUT_NAME}" 2>&1'
    return _script(options, [*asked, "--open-mode=append"], f"{folder}\n{run}")


def _script(
    options: SlurmOptions, asked: Sequence[str], commands: str, is_step: bool = False
) -> str:
    # Where srun starts them, Slurm signals the tasks themselves.
    to_batch = "" if is_step else "B:"
    warning = f"--signal={to_batch}TERM@{warning_s(options.time_limit_s)}"
    ours = [*asked, *([warning] if options.value_of("--signal") is None else [])]
    lines = [f"#SBATCH {shlex.quote(word)}" for word in ours]
    lines += [f"#SBATCH {shlex.join(words)}" for words in _with_values(options.words)]
    return "\n".join(["#!/bin/bash", *lines, "", commands, ""])


def _with_values(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield each option with the words that follow it: a line each."""
    begin = 0
    for place in range(1, len(words) + 1):
        if place == len(words) or words[place].startswith("-"):
            if place > begin:
                yield words[begin:place]
            begin = place


def _escaped(path: Path) -> str:
    """Return a path as --output takes it, where % begins a pattern."""
    return str(path).replace("%", "%%")


def submit(script: Path, directory: str | None = None) -> str:
    """Hand a script in, and return the number of the job.

    Args:
        script: the file.
        directory: where the job runs; None for here.

    Raises:
        SlurmError: there is no Slurm here, or it refuses the job.
    """
    words = ["sbatch", "--parsable"]
    if directory is not None:
        words.append(f"--chdir={directory}")
    printed = run_slurm([*words, str(script)], SUBMIT_S).decode("utf-8", "replace")
    # With the cluster behind a semicolon, where there are several.
    number = re.search(r"^(\d+)(?:;\S*)?$", printed, re.MULTILINE)
    if number is None:
        raise SlurmError(f"sbatch named no job: {quoted(printed.strip())}")
    return number[1]
