"""`dlmon compare`: compare two sides of recorded runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click

from dlmon.cli import click_options, shared
from dlmon.cli.candidates import session_names
from dlmon.exit_codes import DONE, FAILED
from dlmon.numbers import decimal_number
from dlmon.records.sanitize import quoted


def share_of(
    flag: str, least: float, most: float
) -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """Return what reads a percentage from `least` to `most` as a share (0 to 1)."""

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        wanted = f"{flag} takes a percentage from {least:g} to {most:g}, such as 5%"
        try:
            percentage = decimal_number(text.strip().removesuffix("%").rstrip())
        except ValueError:
            raise shared.UserError(f"{wanted}, not {quoted(text)}") from None
        if not least <= percentage <= most:
            raise shared.UserError(f"{wanted}, not {quoted(text)}")
        return percentage / 100

    return read


@click.command(short_help="Compare two runs, or two groups of runs, side by side.")
@click.argument("base", metavar="BASE", shell_complete=session_names)
@click.argument("new", metavar="NEW", shell_complete=session_names)
@click.option("--anyway", is_flag=True, help="Compare runs of different work too.")
@click.option(
    "--fail-if-slower",
    metavar="PERCENT",
    callback=share_of("--fail-if-slower", 0, 99),
    help="Exit with 1 where NEW is slower by more than this, beyond its 95 % interval.",
)
@click_options.json_option
@click_options.host_option_of(
    "Where NEW was recorded: another machine, which ssh reaches. BASE is looked for here, then "
    "there."
)
@click_options.log_dir_option
def compare(
    base: str,
    new: str,
    anyway: bool,
    fail_if_slower: float | None,
    as_json: bool,
    host: str | None,
    log_dir: Path | None,
) -> int:
    """Compare two recorded runs side by side: what changed, and whether that is sure.

    BASE and NEW are each a session as elsewhere, several with commas between them, or a pattern
    such as 'base*'; last~1 is the one before last. A run is the unit: from two runs a side on, the
    change has an interval that allows for how runs differ. ~ stands where a change is not
    significant, ? where that can't be tested, as with one run a side.

    Runs of different work (network, batch size, precision, mode, data) are refused.
    """
    from dlmon.comparison.sides import NoThroughput, is_slower_by
    from dlmon.figures.comparison.side_rows import (
        advice,
        describe_sides,
        sides_json,
        throughput_bars,
        verdict,
        why_unlike,
    )
    from dlmon.render.console import table_console
    from dlmon.render.lines import print_sections
    from dlmon.render.reading_progress import reading_progress
    from dlmon.session.run_figures import compare_logs

    sides = _sides(base, new, host, log_dir)
    try:
        with reading_progress() as on_read:
            comparison = compare_logs(*sides, on_read)
    except NoThroughput as refused:
        if not as_json:
            # The error says why there is no verdict.
            names, _, *sections = describe_sides(refused.comparison)
            print_sections(table_console(), [names, *sections])
        raise
    if comparison.unlike and not anyway:
        raise shared.UserError(f"{why_unlike(comparison)}; --anyway shows them side by side")
    ratio = comparison.throughput.ratio
    if fail_if_slower is not None and (ratio is None or ratio.p is None):
        raise shared.UserError(" ".join((verdict(comparison), *advice(comparison))))
    if as_json:
        print(json.dumps(sides_json(comparison), indent=2))
    else:
        print_sections(table_console(), describe_sides(comparison))
        if (bars := throughput_bars(comparison)) is not None:
            print()
            print_sections(table_console(), [bars])
    if fail_if_slower is not None and is_slower_by(comparison, fail_if_slower):
        return FAILED
    return DONE


def _sides(
    base: str, new: str, host: str | None, log_dir: Path | None
) -> tuple[list[Path], list[Path]]:
    """Return the logs of both sides; copy those of another host first."""
    from dlmon.log.directory import NoSuchLog

    if host is None:
        return shared.logs_of([base], log_dir), shared.logs_of([new], log_dir)
    try:
        base_logs = shared.logs_of([base], None)
    except NoSuchLog:
        base_logs = shared.copies_of(host, base, log_dir)
    return base_logs, shared.copies_of(host, new, log_dir)
