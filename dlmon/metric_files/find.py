"""Find the runs that other programs have recorded in a file or a folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dlmon.log.metric_file_names import (
    DATABASES,
    EVENTS,
    FRAGMENT,
    MLFLOW_METRICS,
    MLFLOW_RUN,
    MOST_FILES,
    TABLES,
)
from dlmon.metric_files import databases, wandb_files
from dlmon.metric_files.databases import runs_in_database
from dlmon.metric_files.event_files import read_event_files
from dlmon.metric_files.points import ReadRun
from dlmon.metric_files.text_files import (
    read_csv,
    read_json_lines,
    read_mlflow_folder,
    read_trackio_folders,
    trackio_run_of,
)
from dlmon.metric_files.wandb_files import read_wandb
from dlmon.records.record import record
from dlmon.records.sanitize import clean, shown_path

_LONGEST_NAME = 100


class NoMetrics(Exception):
    """A path has no metrics that can be read; the message is a sentence."""


@record(frozen=True)
class FoundRun:
    """A run that another program has recorded."""

    name: str
    read: ReadRun
    modified: float


def find_runs(path: Path) -> list[FoundRun]:
    """Return the runs in a file or a folder, the newest last.

    Raises:
        NoMetrics: there is none.
    """
    try:
        runs = list(_runs_in(path) if path.is_dir() else _runs_of(path, path.name))
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise NoMetrics(f"{shown_path(path)} can't be read: {clean(why)}") from None
    if not runs:
        raise NoMetrics(
            f"{shown_path(path)} has no metrics that dlmon reads: event files of TensorBoard, runs "
            "of W&B, trackio and MLflow, CSV or JSON lines"
        )
    return sorted(runs, key=lambda run: run.modified)


def _runs_of(path: Path, name: str) -> Iterator[FoundRun]:
    """Yield the runs in a file, by its name and its first bytes."""
    with path.open("rb") as file:
        begin = file.read(len(databases.MAGIC))
    if begin == databases.MAGIC:
        for run_name, read in runs_in_database(path):
            yield _found(path, run_name, read)
    elif EVENTS in path.name:
        yield _found(path, name, partial(read_event_files, [path]))
    elif begin.startswith(wandb_files.MAGIC):
        yield _found(path, name, partial(read_wandb, path))
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        yield _found(path, name, partial(read_json_lines, path))
    elif path.suffix.lower() in (".csv", ".tsv", ".txt"):
        yield _found(path, name, partial(read_csv, path))


def _runs_in(folder: Path) -> Iterator[FoundRun]:
    count, of_trackio = 0, dict[tuple[str, ...], list[Path]]()
    for place, folders, names in os.walk(folder):
        folders.sort()
        here = Path(place)
        count += len(names) + 1
        if count > MOST_FILES:
            break
        name = here.relative_to(folder).as_posix() if here != folder else here.absolute().name
        if MLFLOW_RUN in names and MLFLOW_METRICS in folders:
            # Its metrics may have the names of anything.
            folders.clear()
            yield _found(
                here, _name_in(here / MLFLOW_RUN) or name, partial(read_mlflow_folder, here)
            )
            continue
        if any(map(FRAGMENT.fullmatch, names)) and (run := trackio_run_of(here)) is not None:
            of_trackio.setdefault(run, []).append(here)
            continue
        events = sorted(here / file for file in names if EVENTS in file)
        if events:
            newest = max(events, key=_modified)
            yield _found(newest, name, partial(read_event_files, events))
        for file in sorted(names):
            if file in TABLES or file.endswith(DATABASES):
                yield from _runs_of(here / file, name)
    for (*_, run_name), writers in of_trackio.items():
        newest = max(writers, key=_modified)
        yield _found(newest, run_name, partial(read_trackio_folders, writers))


def _found(path: Path, name: str, read: ReadRun) -> FoundRun:
    return FoundRun(clean(name, _LONGEST_NAME), read, _modified(path))


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _name_in(meta: Path) -> str:
    """Return the name of a run in MLflow's description of it; empty if it has none."""
    try:
        with meta.open(encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 16).splitlines()
    except OSError:
        return ""
    names = (line.partition(":")[2].strip(" '\"") for line in lines if line.startswith("run_name:"))
    return next(names, "")
