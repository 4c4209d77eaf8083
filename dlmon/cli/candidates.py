"""What a shell offers to complete a word with; no log is opened for it, only its name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from click import Context, Parameter

from dlmon.cli.shared import chosen_log_directory
from dlmon.log.folder import LOG_NAME
from dlmon.log.label import read_label
from dlmon.options.option import Option
from dlmon.options.run_options import ALL, OPTIONS, VARIED
from dlmon.options.settings import Settings, SettingsError, read_settings

# Imported where a shell asks: no other start needs it.
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Complete = Callable[[Context, Parameter, str], list[CompletionItem]]

_HARMLESS = r"[\w.+@%-]+( [\w.+@%-]+)*"

COMPLETED_WITHIN_S = 5.0
"""How long completion waits for Slurm."""
LAST = "last"
"""The session, or the sweep, that began last."""


def workload_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer what can be trained."""
    # No start but this one needs it.
    from workloads.catalog import WORKLOADS

    return _starting_with(incomplete, {each.name: each.title for each in WORKLOADS.values()})


def swept_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer what can be swept."""
    every = _starting_with(incomplete, {ALL: "every workload"})
    return [*workload_names(context, parameter, incomplete), *every]


def session_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer what was recorded where the command line looks for it."""
    return _recorded(context, incomplete, LOG_NAME)


def sweep_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the sweeps that were started where the command line looks for them."""
    from dlmon.sweep.log import SWEEP_NAME

    return _recorded(context, incomplete, SWEEP_NAME)


def values_of(option: Option) -> Complete:
    """Return what offers the values of an option; a path is left to the shell, which knows them."""
    if option.name == "host":
        return host_names

    def offer(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
        if option.path is not None:
            return _path(incomplete, option.path)
        return _starting_with(incomplete, option.choices)

    return offer


def variations(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the options that can be varied, and after `KEY=` the values that are not listed yet."""
    name, equals, listed = incomplete.partition("=")
    if not equals:
        return _starting_with(incomplete, {f"{key}=": OPTIONS[key].hint for key in VARIED})
    if name not in VARIED:
        return []
    *before, last = listed.split(",")
    start = incomplete.removesuffix(last)
    words = _hosts() if name == "host" else OPTIONS[name].choices
    left = [word for word in words if word not in before]
    return _starting_with(incomplete, [f"{start}{word}" for word in left])


def host_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer what ssh is configured for, and the groups of the settings, but nothing twice."""
    before = context.params.get(parameter.name or "")
    named = before if isinstance(before, tuple) else (before,)
    left = {word: help for word, help in _hosts().items() if word not in named}
    return _starting_with(incomplete, left)


def job_numbers(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the jobs of this user that run in Slurm; nothing where there is no Slurm."""
    from dlmon.slurm.commands import SlurmError
    from dlmon.slurm.queue import JobState, read_queue

    try:
        jobs = read_queue(mine=True, timeout_s=COMPLETED_WITHIN_S)
    except SlurmError:
        return []
    running = {job.id: job.name for job in jobs if job.state is JobState.RUNNING}
    return _starting_with(incomplete, running)


def slurm_options(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the partitions, after what is typed of the options already."""
    from dlmon.slurm.commands import SlurmError
    from dlmon.slurm.queue import partitions

    before, flag, part = incomplete.rpartition("-p ")
    if not flag:
        before, part = incomplete and f"{incomplete.rstrip()} ", ""
    try:
        names = [name for name in partitions() if name.startswith(part)]
    except SlurmError:
        return []
    return _starting_with("", [f"{before}-p {name}" for name in names])


def _hosts() -> dict[str, str]:
    """Return the hosts and groups that are known here, each group with its hosts."""
    from dlmon.remote.host_names import GROUP_MARK, configured_hosts

    hosts = {host: "" for host in configured_hosts() if re.fullmatch(_HARMLESS, host)}
    groups = {f"{GROUP_MARK}{name}": ", ".join(of) for name, of in _settings().hosts.items() if of}
    return {**hosts, **groups}


def _recorded(context: Context, incomplete: str, file_name: str) -> list[CompletionItem]:
    """Offer the names and folders of what holds such a file in the log directory, newest first."""
    if os.sep in incomplete or incomplete.startswith("~"):
        return _path(incomplete, "file")
    logs = [
        path / file_name
        for path in chosen_log_directory(context.params.get("log_dir"), _settings()).iterdir()
        if os.path.isfile(path / file_name)  # noqa: PTH113 - it may be forbidden
    ]
    if not logs:
        return []
    newest_first = sorted(logs, reverse=True)
    names = {name: None for log in newest_first if (name := read_label(log).name)}
    # A shell may take other characters for its own, and run what a foreign name says.
    typed_as_they_are = [name for name in names if re.fullmatch(_HARMLESS, name)]
    ids = [log.parent.name for log in newest_first]
    return _starting_with(incomplete, [LAST, *typed_as_they_are, *ids])


def _settings() -> Settings:
    try:
        return read_settings()
    except SettingsError:
        return Settings()


def _path(incomplete: str, kind: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=kind)]


def _starting_with(incomplete: str, words: Iterable[str]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    meanings = words if isinstance(words, Mapping) else {}
    return [
        CompletionItem(word, help=meanings.get(word) or None)
        for word in words
        if word.startswith(incomplete)
    ]
