"""Add the time of a run to the user's own reference figures."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dlmon.comparison.compared_run import RunFigures
from dlmon.comparison.price import cpus_of, usd_per_hour_of, year_of
from dlmon.comparison.published import (
    COLUMNS,
    LARGEST_FILE,
    LONGEST_TEXT,
    OF_A_STEP,
    PRECISIONS,
    QUOTE,
    PublishedError,
    is_formula,
    own_published_path,
    published,
    read_own_published,
)
from dlmon.comparison.references import missing_part
from dlmon.quantities import STEP_MS
from dlmon.records.sanitize import SHOWN_PATH_LENGTH, clean
from dlmon.system.files import read_regular
from dlmon.system.private_files import FILE_MODE, make_private_folder


def write_published_row(run: RunFigures, name: str, epochs: int | None = None) -> Path:
    """Add the time of a run to the user's own reference figures; return their file.

    Args:
        run: a run that is over.
        name: the name for its device.
        epochs: the epochs of a whole run of its workload, if known.

    Raises:
        PublishedError: the run has no time, has another length than published runs, or is in the
            file already; or the file is wrong or can't be written.
    """
    try:
        path = own_published_path()
    except RuntimeError:
        raise PublishedError("there is no home directory: set DLMON_PUBLISHED") from None
    cells, before = _cells_of(run, name, epochs), ""
    try:
        if path.exists():
            for row in read_own_published(path):
                if (row.device, row.source) == (cells["device"], cells["source"]):
                    raise PublishedError(f"{row.device} has the time of this session already")
            before = read_regular(path, LARGEST_FILE).decode("utf-8-sig")
        names = next(csv.reader(io.StringIO(before, newline="")), None) or COLUMNS
        header = "" if before else _line(dict(zip(COLUMNS, COLUMNS, strict=True)), COLUMNS)
        newline = "\n" if before and not before.endswith("\n") else ""
        make_private_folder(path.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, FILE_MODE), "ab") as file:
            file.write((header + newline + _line(cells, names)).encode())
    except OSError as error:
        path_text = clean(str(path), SHOWN_PATH_LENGTH)
        raise PublishedError(f"{path_text} can't be written: {error.strerror}") from None
    return path


def _cells_of(run: RunFigures, name: str, epochs: int | None) -> dict[str, Any]:
    device = clean(name, LONGEST_TEXT).strip()
    if not device:
        raise PublishedError("give the reference figure a name, such as --as-published 'My box'")
    metric, ours = _metrics_of(run)
    timing = run.timings.get(ours)
    if metric is None or timing is None or run.batch_size is None:
        raise PublishedError(f"{run.session} has no time to use as a reference figure")
    if "evaluation" in (missing_part(timing, run.lacking) or ""):
        raise PublishedError(f"{run.session} was not evaluated, so its time is not of a whole run")
    if metric == "run_seconds" and epochs is not None and run.epochs not in (None, epochs):
        # The file has no column for the number of epochs.
        raise PublishedError(
            f"{run.session} has another length than the published runs: make one with "
            f"--epochs {epochs}"
        )
    framework, cpus = run.framework or "", cpus_of(run.options, None)
    if run.precision in PRECISIONS:
        framework = f"{framework} {run.precision}".strip()
    price = usd_per_hour_of(run.options, None)
    return {
        "workload": run.workload,
        "device": device,
        "device_kind": "gpu" if (run.device or "").startswith("gpu") else "cpu",
        "framework": framework,
        "year": year_of(run.wall) or "",
        "metric": metric,
        "value": f"{timing.value:.6g}",
        "batch_size": run.batch_size,
        "vcpus": "" if cpus is None else cpus,
        "price_usd_per_hour": "" if price is None else price,
        "source": f"session {run.session}",
        "note": "; ".join([*(["projected"] if timing.projected else []), *run.warnings.values()]),
    }


def _metrics_of(run: RunFigures) -> tuple[str | None, str]:
    """Return the published metric of a run's workload, and the run's own metric beside it."""
    mode = run.mode or "train"
    metrics = {row.metric for row in published(run.workload) if not row.own}
    if mode != "train" or "train_step_ms" in metrics:
        alike = (name for name, badges in OF_A_STEP.get(mode, {}).items() if not badges)
        return next(alike, None), STEP_MS
    metric = "run_seconds" if "run_seconds" in metrics else "seconds_per_epoch"
    return metric, metric


def _line(cells: Mapping[str, Any], names: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_safe(cells.get(name, "")) for name in names])
    return out.getvalue()


def _safe(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = clean(cell, LONGEST_TEXT)
    return QUOTE + text if is_formula(text) else text
