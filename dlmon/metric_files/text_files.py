"""Read CSV, JSON lines, and the folders of MLflow's and trackio's files; all may grow."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dlmon.metric_files.points import RunPoints
from dlmon.metric_files.rows import add_row, number_of

_CHUNK_BYTES = 1 << 18
_LONGEST_LINE = 1 << 22
_MOST_FILES = 2000


class _Lines:
    """The whole lines of a file, as it grows."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0

    def read(self, run: RunPoints) -> list[str]:
        """Return some new lines; none at the end."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(_CHUNK_BYTES)
                if b"\n" not in data and len(data) == _CHUNK_BYTES:
                    data += file.read(_LONGEST_LINE)
        except OSError as error:
            run.problem = f"{self.path.name} can't be read: {error.strerror}"
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode("utf-8-sig", "replace").splitlines()

    @property
    def share(self) -> float:
        try:
            return min(0.999, self.offset / max(1, self.path.stat().st_size))
        except OSError:
            return 0.999


def read_csv(path: Path, run: RunPoints) -> Iterator[float]:
    """Read a table whose first line has the names, by comma, semicolon or tab."""
    lines, names, delimiter = _Lines(path), list[str](), ","
    while True:
        new = lines.read(run)
        if new and not names:
            delimiter = max(",;\t", key=new[0].count)
            names = [name.strip() for name in next(csv.reader(new[:1], delimiter=delimiter))]
            new = new[1:]
        try:
            for cells in csv.reader(new, delimiter=delimiter):
                # A file that is written again has its head again.
                if cells != names:
                    add_row(run, dict(zip(names, map(str.strip, cells), strict=False)))
        except csv.Error as error:
            run.problem = f"{path.name} is no table: {error}"
        run.changed()
        yield lines.share if new else 1.0


def read_json_lines(path: Path, run: RunPoints) -> Iterator[float]:
    """Read an object a line; those inside an object are named by both names."""
    lines = _Lines(path)
    while True:
        new = lines.read(run)
        for row in _objects_in(new):
            add_row(run, dict(_flat(row)))
        run.changed()
        yield lines.share if new else 1.0


def _objects_in(lines: Sequence[str]) -> Iterator[dict[str, object]]:
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def _flat(row: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{inner}", each) for inner, each in value.items())
        else:
            yield name, value


def read_mlflow_folder(path: Path, run: RunPoints) -> Iterator[float]:
    """Read a run of MLflow's file store: a file for each metric, with time, value and step."""
    files: dict[str, _Lines] = {}
    while True:
        found = sorted(file for file in (path / "metrics").rglob("*") if file.is_file())
        for file in found[:_MOST_FILES]:
            name = file.relative_to(path / "metrics").as_posix()
            lines = files.setdefault(name, _Lines(file))
            while new := lines.read(run):
                for line in new:
                    numbers = [number_of(word) for word in line.split()]
                    if len(numbers) >= 2 and None not in numbers[:2]:
                        wall_ms, value, *step = numbers
                        run.add(name, step[0] if step else 0.0, (wall_ms or 0) / 1000, value or 0.0)
            run.changed()
            yield 0.999
        yield 1.0


def trackio_run_of(folder: Path) -> tuple[str, ...] | None:
    """Return the project, id and name of the run in a folder of trackio's; None if it is none."""
    path = min(folder.glob("*.jsonl"), default=None)
    lines = [] if path is None else _Lines(path).read(RunPoints(""))
    row = next(_objects_in(lines), {})
    texts = tuple(str(row.get(name) or "") for name in ("project", "run_id", "run"))
    return texts if "kind" in row and texts[2] else None


def read_trackio_folders(folders: Sequence[Path], run: RunPoints) -> Iterator[float]:
    """Read a run of trackio's on a network file system: a folder of JSON lines for each writer.

    Each file is written at once. They are there until trackio's dashboard moves them into its
    database.
    """
    done: set[Path] = set()
    while True:
        for path in sorted(path for folder in folders for path in folder.glob("*.jsonl")):
            if path in done:
                continue
            done.add(path)
            lines = _Lines(path)
            while new := lines.read(run):
                for row in _objects_in(new):
                    metrics = row.get("metrics")
                    if row.get("kind") == "metric" and isinstance(metrics, dict):
                        place = {"_step": row.get("step"), "_timestamp": row.get("timestamp")}
                        add_row(run, {**metrics, **place})
            run.changed()
            yield 0.999
        yield 1.0
