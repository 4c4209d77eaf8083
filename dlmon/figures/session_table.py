"""The table of sessions: a row each, with its figures and what it was trained with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dlmon.figures.redact import Redaction
from dlmon.figures.session_report import records_of
from dlmon.figures.summary import Cell, summary_columns, summary_numbers
from dlmon.log.directory import read_entry
from dlmon.log.follower import LogFollower
from dlmon.records import Model, SessionHeader, Trainer
from dlmon.session.figures import read_session

_OPTIONS = ("batch_size", "precision", "mode", "backend", "data")


def session_rows(paths: Sequence[Path], full: bool) -> Iterator[Sequence[Cell]]:
    """Yield one row per session, headings first; it may raise a LogError."""
    yield (
        "session", "name", "wall", "workload", "status", "device", "device_name",
        *_OPTIONS, *summary_columns(),
    )  # fmt: skip
    for path in paths:
        entry = read_entry(path)
        header, result = entry.header, entry.result
        redaction = Redaction(full)
        redaction.learn_names(header.host, header.options)
        # Of a run that never came to a result, there is what was read of it.
        read = None if result is not None else read_session(path).snapshot(ended=True)
        seen = result if read is None else read.model
        options = header.options | _settings_seen(path, header)
        if seen is not None and seen.data is not None:
            # Asked for was, as a rule, whichever there is.
            options["data"] = seen.data
        cells: tuple[Any, ...] = (
            header.id,
            entry.label.name,
            header.wall,
            header.workload,
            str(entry.status),
            seen and seen.device,
            seen and seen.device_name,
            *(options.get(name) for name in _OPTIONS),
            *summary_numbers(result or read),
        )
        yield [scalar(redaction.value(cell)) for cell in cells]


def _settings_seen(path: Path, header: SessionHeader) -> dict[str, Any]:
    """Return what a script was seen to train with: its options say nothing of that."""
    if not header.is_script:
        return {}
    model = trainer = None
    with contextlib.closing(LogFollower(path)) as follower:
        for record in records_of(follower):
            if isinstance(record, Trainer) and not record.number:
                trainer = trainer or record
            elif isinstance(record, Model) and not record.trainer:
                model = record
                break
    seen = {name: getattr(model, name, None) for name in _OPTIONS}
    if trainer is not None and not seen["backend"]:
        seen["backend"] = trainer.backend or trainer.framework
    return {name: value for name, value in seen.items() if value is not None}


def scalar(value: Any) -> Cell:
    """Return a value of an option as a cell: a log may hold anything there."""
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
