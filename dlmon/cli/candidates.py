"""The words that a shell offers to complete; no log is read for them."""

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

# Imported in functions below: only completion needs it.
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Complete = Callable[[Context, Parameter, str], list[CompletionItem]]

_HARMLESS = r"[\w.+@%-]+( [\w.+@%-]+)*"

_SLURM_TIMEOUT_S = 5.0
_NEWEST = "last"


def workload_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the workloads."""
    # Imported here: only completion needs it.
    from workloads.catalog import WORKLOADS

    titles = {workload.name: workload.title for workload in WORKLOADS.values()}
    return _starting_with(incomplete, titles)


def swept_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the workloads, and ALL of them."""
    all_of_them = _starting_with(incomplete, {ALL: "every workload"})
    return [*workload_names(context, parameter, incomplete), *all_of_them]


def session_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the sessions in the log directory that the command line names."""
    return _recorded(context, incomplete, LOG_NAME)


def sweep_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the sweeps in the log directory that the command line names."""
    from dlmon.sweep.log import SWEEP_NAME

    return _recorded(context, incomplete, SWEEP_NAME)


def values_of(option: Option) -> Complete:
    """Return a function that offers an option's values; paths are left to the shell."""
    if option.name == "host":
        return host_names

    def offer(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
        if option.path is not None:
            return _path(incomplete, option.path)
        return _starting_with(incomplete, option.choices)

    return offer


def variations(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the options that a sweep can vary; after `KEY=`, the values that are not typed yet."""
    name, equals, typed = incomplete.partition("=")
    if not equals:
        return _starting_with(incomplete, {f"{key}=": OPTIONS[key].hint for key in VARIED})
    if name not in VARIED:
        return []
    *before, last = typed.split(",")
    start = incomplete.removesuffix(last)
    values = _hosts() if name == "host" else OPTIONS[name].choices
    unused = [f"{start}{value}" for value in values if value not in before]
    return _starting_with(incomplete, unused)


def host_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the hosts of ssh's configuration and the groups of the settings, each once."""
    value = context.params.get(parameter.name or "")
    typed = value if isinstance(value, tuple) else (value,)
    unused = {host: help for host, help in _hosts().items() if host not in typed}
    return _starting_with(incomplete, unused)


def job_numbers(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer this user's running Slurm jobs; nothing if there is no Slurm."""
    from dlmon.slurm.commands import SlurmError
    from dlmon.slurm.queue import JobState, read_queue

    try:
        jobs = read_queue(mine=True, timeout_s=_SLURM_TIMEOUT_S)
    except SlurmError:
        return []
    running = {job.id: job.name for job in jobs if job.state is JobState.RUNNING}
    return _starting_with(incomplete, running)


def slurm_options(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer Slurm's partitions as the value of -p, after the options that are typed already."""
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
    """Return the known hosts, and the groups of the settings with their hosts as the help."""
    from dlmon.remote.host_names import GROUP_MARK, configured_hosts

    hosts = {host: "" for host in configured_hosts() if re.fullmatch(_HARMLESS, host)}
    groups = {f"{GROUP_MARK}{name}": ", ".join(of) for name, of in _settings().hosts.items() if of}
    return {**hosts, **groups}


def _recorded(context: Context, incomplete: str, file_name: str) -> list[CompletionItem]:
    """Offer the names and ids of the logs of this file name, newest first."""
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
    # A shell might interpret other characters, and so run commands that a name contains.
    harmless = [name for name in names if re.fullmatch(_HARMLESS, name)]
    ids = [log.parent.name for log in newest_first]
    return _starting_with(incomplete, [_NEWEST, *harmless, *ids])


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
