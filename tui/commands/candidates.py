"""What a shell offers to complete a word with; no log is opened for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from click import Context, Parameter
from click.shell_completion import CompletionItem

from tui.options.option import Option
from tui.options.run import ALL, OPTIONS, VARIED
from tui.options.settings import Settings, SettingsError, read_settings
from workloads.catalog import WORKLOADS

LAST = "last"
"""The session, or the sweep, that began last."""

Complete = Callable[[Context, Parameter, str], list[CompletionItem]]


def workload_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer what can be trained."""
    return _starting_with(incomplete, {each.name: each.title for each in WORKLOADS.values()})


def swept_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer what can be swept."""
    every = _starting_with(incomplete, {ALL: "every workload"})
    return [*workload_names(context, parameter, incomplete), *every]


def session_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer what was recorded where the command line looks for it."""
    from dlmon.log.folder import LOG_NAME

    return _recorded(context, incomplete, LOG_NAME)


def sweep_names(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the sweeps that were begun where the command line looks for them."""
    from dlmon.sweep.log import SWEEP_NAME

    return _recorded(context, incomplete, SWEEP_NAME)


def folders(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell, which knows the folders."""
    return [CompletionItem(incomplete, type="dir")]


def values_of(option: Option) -> Complete:
    """Return what offers the values of an option."""

    def offer(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
        if option.path is not None:
            return [CompletionItem(incomplete, type=option.path)]
        return _starting_with(incomplete, option.choices)

    return offer


def variations(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the options that can be varied, and behind one those of its values that are left."""
    name, equals, listed = incomplete.partition("=")
    if not equals:
        return _starting_with(incomplete, {f"{key}=": OPTIONS[key].hint for key in VARIED})
    if name not in VARIED:
        return []
    *before, last = listed.split(",")
    begun = incomplete.removesuffix(last)
    left = [word for word in OPTIONS[name].choices if word not in before]
    return _starting_with(incomplete, [f"{begun}{word}" for word in left])


def _recorded(context: Context, incomplete: str, file_name: str) -> list[CompletionItem]:
    """Offer the folders of the log directory that hold such a file, the newest first."""
    if os.sep in incomplete or incomplete.startswith("~"):
        return [CompletionItem(incomplete, type="file")]
    names = [
        path.name
        for path in _log_directory(context.params.get("log_dir")).iterdir()
        if os.path.isfile(path / file_name)  # noqa: PTH113 - it may be forbidden
    ]
    return _starting_with(incomplete, [LAST, *sorted(names, reverse=True)] if names else [])


def _log_directory(chosen: Path | None) -> Path:
    from tui.commands.shared import chosen_log_directory

    try:
        return chosen_log_directory(chosen, read_settings())
    except SettingsError:
        return chosen_log_directory(chosen, Settings())


def _starting_with(incomplete: str, words: Iterable[str]) -> list[CompletionItem]:
    meanings = words if isinstance(words, Mapping) else {}
    return [
        CompletionItem(word, help=meanings.get(word))
        for word in words
        if word.startswith(incomplete)
    ]
