"""`dlmon metrics`: the metrics of sessions, and of what other programs have recorded."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlmon.cli import click_options, shared
from dlmon.cli.candidates import session_names
from dlmon.cli.show import View

if TYPE_CHECKING:
    from dlmon.metric_files.find import FoundRun

_MOST_RUNS = 16


@click.command(short_help="Show metrics: of sessions, TensorBoard, W&B, MLflow, trackio, CSV.")
@click.argument("paths", metavar="PATH...", nargs=-1, shell_complete=session_names)
@click_options.plain_option
@click_options.json_option
@click_options.ascii_option
@click_options.host_option
@click_options.log_dir_option
def metrics(
    paths: tuple[str, ...],
    plain: bool,
    as_json: bool,
    ascii: bool | None,
    host: str | None,
    log_dir: Path | None,
) -> int | None:
    """Show every metric of several runs over each other.

    PATH is a file or a folder: TensorBoard's event files, runs of W&B, trackio and MLflow on disk,
    CSV or JSON lines; or a session. With --host, what has a / in it is a path there, and is copied
    as it is now. In a pipe, a line for each metric.
    """
    if not paths:
        raise shared.UserError("say what to show: a file, a folder or a session")
    settings = shared.settings_of(ascii)
    with tempfile.TemporaryDirectory(prefix="dlmon-metrics-") as copies:
        logs, runs = _found(paths, host, log_dir, Path(copies))
        view = View(settings, plain=plain, as_json=as_json)
        if view.on_screen:
            return view.open(shared.chosen_log_directory(log_dir, settings), metrics=(logs, runs))
        _print(logs, runs, as_json)
    return None


def _print(logs: list[Path], runs: list[FoundRun], as_json: bool) -> None:
    from dlmon.figures.metric_table import metric_rows, table_lines

    rows = metric_rows(logs, runs)
    if as_json:
        print(json.dumps(rows, indent=1, allow_nan=False))
    else:
        for line in table_lines(rows):
            print(line)


def _found(
    paths: tuple[str, ...], host: str | None, log_dir: Path | None, copies: Path
) -> tuple[list[Path], list[FoundRun]]:
    """Return the logs of sessions, and the newest runs of other programs.

    What is on a host is copied into a folder of `copies`.
    """
    from dlmon.log.folder import is_log
    from dlmon.metric_files.find import NoMetrics, find_runs
    from dlmon.remote.host_requests import copy_metrics

    logs: list[Path] = []
    runs: list[FoundRun] = []
    for text in dict.fromkeys(paths):
        path = Path(text)
        if host is not None and "/" in text:
            folder = Path(tempfile.mkdtemp(dir=copies))
            path = shared.result_of(copy_metrics(host, text, folder))
        elif host is not None or is_log(path) or not path.exists():
            logs += shared.logs_of([text], log_dir, host)
            continue
        try:
            runs += find_runs(path)
        except NoMetrics as error:
            raise shared.UserError(str(error)) from None
    if len(runs) > _MOST_RUNS:
        print(f"dlmon: the newest {_MOST_RUNS} of {len(runs):,} runs are shown", file=sys.stderr)
    return logs, runs[-_MOST_RUNS:]
