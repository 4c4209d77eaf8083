"""The table of sessions: a row each, with its figures and what it was trained with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dlmon.figures.redact import Redaction
from dlmon.figures.session_report import records_of
from dlmon.log.directory import read_entry
from dlmon.log.follower import LogFollower
from dlmon.records import Model, SessionHeader, Trainer

Cell = str | int | float | bool | None

_OPTIONS = ("batch_size", "precision", "mode", "backend", "data")


def session_rows(paths: Sequence[Path], full: bool) -> Iterator[Sequence[Cell]]:
    """Yield one row per session, headings first; it may raise a LogError."""
    figures = (
        "wall_s", "samples_per_second", "samples_per_second_band", "seconds_per_epoch",
        "seconds_per_epoch_low", "seconds_per_epoch_high", "projected", "run_seconds",
        "step_ms_median", "step_ms_p95", "compile_s", "epochs", "batches", "stalls",
        "energy_j_per_epoch_cpu", "energy_j_per_epoch_gpu", "cost_usd", "effective_flop_s",
    )  # fmt: skip
    yield (
        "session",
        "name",
        "wall",
        "workload",
        "status",
        "device",
        "device_name",
        *_OPTIONS,
        *figures,
    )
    for path in paths:
        entry = read_entry(path)
        header, result = entry.header, entry.result
        redaction = Redaction(full)
        redaction.learn_names(header.host, header.options)
        rate = result and result.samples_per_second
        if result is not None and result.counts_steps:
            # They are steps: how many samples went by isn't known.
            rate = None
        epoch = result and result.seconds_per_epoch
        run = result and result.run_seconds
        step = result and result.step_ms
        options_seen = header.options | _settings_seen(path, header)
        if result is not None and result.data is not None:
            # Asked for was, as a rule, whichever there is.
            options_seen["data"] = result.data
        energy = (result and result.energy_j_per_epoch) or {}
        device = (result.device, result.device_name) if result else (None, None)
        cells: tuple[Any, ...] = (
            header.id,
            entry.label.name,
            header.wall,
            header.workload,
            str(entry.status),
            *device,
            *(options_seen.get(name) for name in _OPTIONS),
            result and result.wall_s,
            rate and rate.mean,
            rate and rate.band,
            epoch and epoch.value,
            epoch and epoch.low,
            epoch and epoch.high,
            epoch and epoch.projected,
            run and run.value,
            step and step.median,
            step and step.p95,
            result and result.compile_s,
            result and result.epochs,
            result and result.batches,
            result and result.stalls,
            energy.get("cpu"),
            energy.get("gpu"),
            result and result.cost_usd,
            result and result.effective_flop_s,
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
