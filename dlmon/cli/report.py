"""`dlmon report`: recorded sessions and sweeps as a page, a text, a table or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import click

from dlmon.cli import click_options, shared
from dlmon.cli.candidates import session_names
from dlmon.log.folder import id_of, location_options
from dlmon.records import SweepHeader
from dlmon.records.sanitize import clean, quoted, shown_path
from workloads.catalog import WORKLOADS

FORMATS = ("md", "html", "csv", "json", "parquet")
TABLES = ("batches", "samples", "epochs", "metrics", "machine", "operations")
PICTURES = ("svg", "png")
_SUFFIXES = {f".{form}": form for form in FORMATS} | {".htm": "html"}

HELP = """Report what was recorded: as a page, as Markdown, as a table, or as JSON.

SESSION is an id, a unique prefix of one, a name, a path, or last; a sweep's too. Several sessions,
'base*' or A,B, are compared side by side, the first with all others; repeats of one run are taken
together, as are those of --base and of --new.

\b
A page that opens without a network, to share:
  dlmon report last -o run.html
A text for an issue:
  dlmon report last
Every batch, for pandas:
  dlmon report last --format csv --table batches -o batches.csv

Other people's processes, user names, home folders, the host's name and command lines of scripts
(but for arguments in which two that are compared differ) are left out, unless --full is given.
"""


@click.command(help=HELP, short_help="Report what was recorded: HTML, Markdown or tables.")
@click.argument("sessions", metavar="SESSION...", nargs=-1, shell_complete=session_names)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What to write [default: by the name after -o, else md].",
)
@click.option(
    "-o",
    "--output",
    "path",
    metavar="FILE",
    type=click_options.NamedPath(is_folder=False),
    help="Where to write it, in place of stdout.",
)
@click.option(
    "--table",
    type=click.Choice(TABLES),
    help="What a row of the table is, instead of a session: a batch, the samples of "
    "a second, an epoch, a value of a metric, a reading of the machine, or a profiled operation.",
)
@click.option(
    "--charts",
    metavar="DIR",
    type=click_options.NamedPath(is_folder=True),
    help="Write the charts as pictures into this folder too.",
)
@click.option(
    "--charts-as",
    type=click.Choice(PICTURES),
    help="What these pictures are [default: svg]; png needs the extra dlmon[png].",
)
@click.option(
    "--as-published",
    metavar="NAME",
    help="Add the session's time to your own reference figures under this name, in place of a "
    "report: it stands among the comparison bars from then on.",
)
@click.option(
    "--base",
    metavar="SESSIONS",
    shell_complete=session_names,
    help="In place of SESSION: with these, such as 'base*', those of --new are compared.",
)
@click.option(
    "--new",
    metavar="SESSIONS",
    shell_complete=session_names,
    help="The sessions that are compared with those of --base, in one verdict for all.",
)
@click.option("--full", is_flag=True, help="Leave nothing out: processes, users, paths, host.")
@click_options.host_option
@click_options.log_dir_option
def report(
    sessions: Sequence[str],
    form: str | None,
    path: Path | None,
    table: str | None,
    charts: Path | None,
    charts_as: str | None,
    as_published: str | None,
    base: str | None,
    new: str | None,
    full: bool,
    host: str | None,
    log_dir: Path | None,
) -> None:
    """Report sessions and sweeps."""
    from dlmon.render.files import refuse_unwritable, write_file

    if (base is None) != (new is None):
        raise shared.UserError("--base and --new belong together: give both")
    if base is not None and new is not None:
        if sessions:
            raise shared.UserError("--base and --new say what to report: leave out SESSION")
        sessions = (base, new)
    if not sessions:
        raise shared.UserError("say what to report: last, or a session that dlmon sessions lists")
    if as_published is not None:
        if (form, path, table, charts, charts_as) != (None,) * 5:
            raise shared.UserError("--as-published makes no report: leave out the other options")
        _publish(*_logs_of(sessions, host, log_dir), as_published)
        return
    if path == Path("-"):
        path = None
    suffix = path.suffix.lower() if path is not None and form is None else ""
    if form is None:
        form = _SUFFIXES.get(suffix, "csv" if table is not None else "md")
    if table is not None and form not in ("csv", "json", "parquet"):
        raise shared.UserError(f"--table is for --format csv, json or parquet, not {form}")
    if form == "parquet" and path is None:
        raise shared.UserError("Parquet is no text: name a file for it, with -o FILE.parquet")
    if charts_as is not None and charts is None:
        raise shared.UserError("--charts-as says what the pictures of --charts DIR are: give that")
    logs, sweeps = _logs_of(sessions[:1] if base is not None else sessions, host, log_dir)
    of_base: Sequence[Path] = ()
    if new is not None:
        of_base, (of_new, sweeps_of_new) = logs, _logs_of([new], host, log_dir)
        if sweeps or sweeps_of_new:
            raise shared.UserError("--base and --new take sessions, and no sweep")
        for log in of_new:
            if log in of_base:
                raise shared.UserError(f"{id_of(log)} is on both sides: it is compared with others")
        logs = [*of_base, *of_new]
    if path is not None:
        refuse_unwritable(path, [*logs, *sweeps])
    if suffix and suffix not in _SUFFIXES:
        suffixes = ", ".join(_SUFFIXES)
        raise shared.UserError(
            f"no report is known as {quoted(suffix)}: end -o in {suffixes}, or add --format"
        )
    kind = charts_as or PICTURES[0]
    parts = _parts(logs, sweeps, form, table, charts, kind, full, of_base)
    if path is not None:
        write_file(path, parts)
        print(f"saved {shown_path(path)}")
    else:
        for part in parts:
            assert isinstance(part, str)
            sys.stdout.write(part)


def _publish(logs: Sequence[Path], sweeps: Sequence[Path], name: str) -> None:
    """Add a session's time to the user's own reference figures, and print the file."""
    from dlmon.comparison.publish import write_published_row
    from dlmon.log.directory import read_entry
    from dlmon.session.run_figures import figures_of_entry

    if sweeps or len(logs) != 1:
        raise shared.UserError("--as-published takes one session, and no sweep")
    entry = read_entry(logs[0])
    if entry.result is None:
        raise shared.UserError(f"{clean(entry.header.id)} has no result to publish")
    workload = WORKLOADS.get(entry.result.workload)
    epochs = None if workload is None else workload.epochs
    file = write_published_row(figures_of_entry(entry), name, epochs=epochs)
    print(f"{clean(name)} is now among the published figures: {shown_path(file)}")


def _logs_of(
    names: Sequence[str], host: str | None, log_dir: Path | None
) -> tuple[list[Path], list[Path]]:
    """Return the logs of the named sessions and of the named sweeps, each once.

    Of another host, only sessions can be named; copy them first.
    """
    if host is not None:
        return shared.logs_of(names, log_dir, host), []
    from dlmon.log.directory import NoSuchLog, find_log
    from dlmon.sweep.log import SWEEP_NAME

    directory, location = shared.chosen_log_directory(log_dir), location_options(log_dir)
    logs: dict[Path, None] = {}
    sweeps: dict[Path, None] = {}
    for name in names:
        if name.endswith(SWEEP_NAME):
            sweeps[find_log(SweepHeader, name, directory, location)] = None
            continue
        try:
            logs |= dict.fromkeys(shared.logs_of([name], log_dir))
        except NoSuchLog as no_session:
            try:
                sweeps[find_log(SweepHeader, name, directory)] = None
            except NoSuchLog:
                raise no_session from None
    return list(logs), list(sweeps)


def _parts(
    logs: Sequence[Path],
    sweeps: Sequence[Path],
    form: str,
    table: str | None,
    charts: Path | None,
    charts_as: str,
    full: bool,
    base: Sequence[Path],
) -> Iterable[str | bytes]:
    """Return the report in parts; refuse before the first part what can't be reported."""
    from dlmon.figures.report.report import make_report
    from dlmon.render.reading_progress import reading_progress

    is_table = form in ("csv", "parquet") or table is not None
    if is_table and charts is None:
        return _table(logs, sweeps, form, table, full)
    with reading_progress() as on_read:
        report = make_report(logs, sweeps, full, on_read, base)
    if charts is not None:
        from dlmon.render.charts import write_charts

        sweep_charts = [chart for sweep in report.sweeps for chart in sweep.charts]
        write_charts(charts, report.charts, report.metrics, report.marks, sweep_charts, charts_as)
    if is_table:
        return _table(logs, sweeps, form, table, full)
    if form == "html":
        from dlmon.render.html import html_of

        return [html_of(report)]
    if form == "md":
        from dlmon.render.markdown import markdown_of

        return [markdown_of(report)]
    return [json.dumps(report.as_json(), indent=1, allow_nan=False) + "\n"]


def _table(
    logs: Sequence[Path], sweeps: Sequence[Path], form: str, table: str | None, full: bool
) -> Iterable[str | bytes]:
    from dlmon.render.tidy import csv_lines, json_lines, rows_of, sweep_rows

    if sweeps and logs:
        raise shared.UserError("a table holds sessions, or one sweep: name the one or the other")
    if sweeps and (table is not None or len(sweeps) > 1):
        raise shared.UserError("a table is of one sweep, with one row per combination")
    rows = sweep_rows(sweeps[0], full) if sweeps else rows_of(logs, table, full)
    if form == "parquet":
        from dlmon.render.parquet import parquet_of

        return [parquet_of(rows)]
    lines = json_lines(rows) if form == "json" else csv_lines(rows)
    # Making the first line raises the error if there is nothing to write.
    first = next(lines)
    return chain([first], lines)
