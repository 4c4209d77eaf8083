"""The table of sessions: a row each, with its figures and what it was trained with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dlmon.figures.redact import Redaction
from dlmon.figures.summary import Cell, Outcome, summary_columns, summary_numbers
from dlmon.log.directory import read_entry
from dlmon.records import Model, Status
from dlmon.session.figures import read_session
from dlmon.session.session import Session

_OPTIONS = ("batch_size", "precision", "mode", "backend", "data")


def session_rows(paths: Sequence[Path], full: bool) -> Iterator[Sequence[Cell]]:
    """Yield one row per session, headings first; it may raise a LogError."""
    yield (
        "session", "name", "wall", "workload", "status", "device", "device_name",
        *_OPTIONS, *summary_columns(),
    )  # fmt: skip
    for path in paths:
        entry = read_entry(path)
        header = entry.header
        redaction = Redaction(full)
        redaction.learn_names(header.host, header.options)
        session = read_session(path)
        snapshot = session.snapshot(ended=entry.status == Status.INTERRUPTED)
        model = snapshot.model
        options = header.options | _settings_seen(session, model)
        cpu = header.machine.cpu_model if model and model.device == "cpu" else None
        cells: tuple[Any, ...] = (
            header.id,
            entry.label.name,
            header.wall,
            header.workload,
            str(entry.status),
            model and model.device,
            (model and model.device_name) or cpu,
            *(options.get(name) for name in _OPTIONS),
            *summary_numbers(Outcome(session, snapshot, entry.status, entry.label)),
        )
        yield [scalar(redaction.value(cell)) for cell in cells]


def _settings_seen(session: Session, model: Model | None) -> dict[str, Any]:
    """Return what a run was seen to train with: a script's options say nothing of that."""
    names = _OPTIONS if session.header.is_script else ("data",)
    seen = {name: getattr(model, name, None) for name in names}
    trainer = next(iter(session.trainers.known.values()), None)
    if session.header.is_script and trainer is not None and not seen["backend"]:
        seen["backend"] = trainer.backend or trainer.framework
    return {name: value for name, value in seen.items() if value is not None}


def scalar(value: Any) -> Cell:
    """Return a value of an option as a cell: a log may hold anything there."""
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
