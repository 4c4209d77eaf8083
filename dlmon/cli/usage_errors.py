"""What was wrong with the words of a command line: one sentence, in our own words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import click

from dlmon.records.sanitize import SHOWN_LENGTH, clean, quoted

# What is missing, and what helps more than its name.
_MISSING = {
    "WORKLOAD": "say which workload; dlmon list shows them",
    "BASE": "say which sessions: dlmon compare BASE NEW",
    "NEW": "say which session to compare it with: dlmon compare BASE NEW",
    "HOST": "say from which machine: --host HOST, as ssh knows it",
}
_VALUES = {
    "--fail-if-slower": "--fail-if-slower takes a percentage from 0 to 99, such as 5%",
}
# What a word processor or a page makes of two hyphens.
_OTHER_DASHES = ("\N{EN DASH}", "\N{EM DASH}", "\N{MINUS SIGN}")
_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)


def say_which_session(log_dir: Path | None, hosts: Iterable[str] = ()) -> str:
    """Return the sentence for a session that isn't named.

    Args:
        log_dir: where a person has it looked for; None for the usual place.
        hosts: on which machines; none for this one.
    """
    return f"say which session: {last_or_listed(log_dir, hosts)}"


def last_or_listed(log_dir: Path | None, hosts: Iterable[str] = ()) -> str:
    """Return what names a session; with the arguments as for `say_which_session`."""
    from dlmon.log.folder import place_options

    machines = "".join(place_options(None, host) for host in hosts)
    return f"last, or one that dlmon sessions{machines}{place_options(log_dir)} lists"


def unknown_command(name: str, commands: Iterable[str]) -> str:
    """Return the sentence for a command that there is not."""
    hint = _did_you_mean(name, commands) or "dlmon --help lists them"
    return f"there is no command {quoted(name)}; {hint}"


def sentence_of(error: click.UsageError) -> str:
    """Return what was wrong with the arguments, as one line."""
    command = error.ctx.command_path if error.ctx is not None else "dlmon"
    if isinstance(error, click.NoSuchOption):
        return _unknown_option(error, command)
    if isinstance(error, click.MissingParameter):
        name = (error.param.metavar if error.param is not None else None) or ""
        if name == "SESSION":
            given = error.ctx.params if error.ctx is not None else {}
            log_dir = given.get("from_dir") or given.get("log_dir")
            return say_which_session(log_dir, filter(None, [given.get("host")]))
        if name in _MISSING:
            return _MISSING[name]
    if isinstance(error, click.BadOptionUsage):
        # click has one kind of error for both, and says in its words alone which it is.
        if "does not take a value" in error.message:
            return f"{error.option_name} takes no value"
        return _VALUES.get(error.option_name, f"{error.option_name} needs a value")
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Option):
        taken = _values_of(error.param.type)
        if taken:
            return f"{error.param.opts[0]} takes {taken}"
    extra = _EXTRA.fullmatch(error.format_message())
    if extra and extra[1].startswith(_OTHER_DASHES):
        return f"{quoted(extra[1].split()[0])} begins with another dash than an option does: --"
    if extra:
        return _too_much(quoted(extra[1]), command, error)
    words = error.format_message().split()
    return " ".join(clean(word, SHOWN_LENGTH) for word in words)


def _unknown_option(error: click.NoSuchOption, command: str) -> str:
    parameters = error.ctx.command.params if error.ctx is not None else []
    options = [option for each in parameters for option in (*each.opts, *each.secondary_opts)]
    by_word = {option.lstrip("-"): option for option in options if option.startswith("--")}
    hint = _did_you_mean(error.option_name.lstrip("-"), by_word, "--")
    return (
        f"there is no option {quoted(error.option_name)}; {hint or f'{command} --help lists them'}"
    )


def _did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Name the nearest of what there is; empty where nothing is near."""
    import difflib

    nearest = difflib.get_close_matches(name[:SHOWN_LENGTH], list(known), n=1)
    return f"did you mean {prefix}{nearest[0]}?" if nearest else ""


def _values_of(kind: object) -> str:
    """Say what an option takes, where that is a choice or a range; else nothing."""
    if isinstance(kind, click.Choice):
        *others, last = map(str, kind.choices)
        return f"{', '.join(others)} or {last}" if others else last
    if isinstance(kind, click.IntRange) and kind.min is not None and kind.max is not None:
        return f"a whole number from {kind.min:,} to {kind.max:,}"
    return ""


def _too_much(extra: str, command: str, error: click.UsageError) -> str:
    """Say that a command takes fewer words."""
    if command.endswith(" compare"):
        return (
            f"compare takes two sessions: {extra} is too much; join several of one side with "
            "commas: dlmon compare A,B X,Y"
        )
    parameters = error.ctx.command.params if error.ctx is not None else []
    arguments = (each for each in parameters if isinstance(each, click.Argument))
    takes = [(each.metavar or "").strip("[]") for each in arguments]
    only = f"only {' and '.join(takes)}" if takes else "no arguments"
    return f"{command.removeprefix('dlmon ')} takes {only}: {extra} is too much"
