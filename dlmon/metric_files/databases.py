"""Read the SQLite databases of MLflow and trackio, which may be in use."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from dlmon.metric_files.points import ReadRun, RunPoints
from dlmon.metric_files.rows import add_row, number_of

MAGIC = b"SQLite format 3\0"
_WAIT_S = 1.0
_ROWS = 5000
_MLFLOW_RUNS = "SELECT run_uuid, name FROM runs ORDER BY start_time"
_MLFLOW = (
    "SELECT rowid, key, step, timestamp, value, is_nan FROM metrics "
    "WHERE run_uuid = ? AND rowid > ? ORDER BY rowid LIMIT ?"
)
# Older versions know a run by its name alone.
_TRACKIO_RUNS = "SELECT {key}, run_name FROM metrics GROUP BY {key} ORDER BY min(id)"
_TRACKIO = (
    "SELECT id, step, timestamp, metrics FROM metrics "
    "WHERE {key} = ? AND id > ? ORDER BY id LIMIT ?"
)


def runs_in_database(path: Path) -> list[tuple[str, ReadRun]]:
    """Return the runs of a database, the oldest first; none if it is no tracker's.

    Raises:
        sqlite3.Error: it can't be read.
    """
    with closing(_opened(path)) as database:
        tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
        names = {name for (name,) in database.execute(tables)}
        if {"runs", "metrics"} <= names:
            runs = database.execute(_MLFLOW_RUNS).fetchall()
            read = partial(_read, path, _MLFLOW, _add_mlflow)
        elif {"configs", "metrics"} <= names:
            columns = {column for _, column, *_ in database.execute("PRAGMA table_info(metrics)")}
            key = "run_id" if "run_id" in columns else "run_name"
            runs = database.execute(_TRACKIO_RUNS.format(key=key)).fetchall()
            read = partial(_read, path, _TRACKIO.format(key=key), _add_trackio)
        else:
            return []
    return [(str(name or id), partial(read, id)) for id, name in runs]


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_S)


def _read(
    path: Path, query: str, add: Callable[..., None], id: str, run: RunPoints
) -> Iterator[float]:
    """Read a run, and go on with rows that are added; the share read isn't known."""
    newest = -1
    while True:
        try:
            with closing(_opened(path)) as database:
                rows = database.execute(query, (id, newest, _ROWS)).fetchall()
        except sqlite3.Error as error:
            run.problem = f"{path.name} can't be read: {error}"
            rows = []
        for number, *row in rows:
            add(run, *row)
            newest = number
        run.changed()
        yield 0.5 if len(rows) == _ROWS else 1.0


def _add_mlflow(
    run: RunPoints, key: str, step: int, timestamp_ms: int, value: float, is_nan: int
) -> None:
    number = float("nan") if is_nan else number_of(value)
    if number is not None:
        run.add(key, step, timestamp_ms / 1000, number)


def _add_trackio(run: RunPoints, step: int, timestamp: str, metrics: str) -> None:
    try:
        row = json.loads(metrics)
    except (ValueError, RecursionError):
        return
    if isinstance(row, Mapping):
        add_row(run, {**row, "_step": step, "_timestamp": timestamp})
