"""What dlmon says of logs, as figures that a file keeps: what its commands print, mostly."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from dlmon.cli.main import main
from dlmon.records import to_json
from dlmon.session.replay import ReplaySource
from dlmon.supervisor.verdict import measure

from .logs import HERE, copy_logs

FIGURES = HERE / "figures"
SHARES = (10, 30, 50, 70, 100)
TABLES = ("batches", "samples", "epochs", "metrics", "machine", "operations")
# What kind a row of a table is of, and what is the same in all rows or follows from others.
KINDS, SAID_ELSEWHERE = ("metric", "device", "quantity"), ("session", "wall")
PLAIN = ("phase", "elapsed_s", "samples_per_second_now", "compile_s", "batches", "stalls", "why")
TIMES = ("samples_per_second", "step_ms", "seconds_per_epoch", "run_seconds")
PROGRESS = ("epoch", "epochs", "step", "steps", "epoch_left_s", "run_left_s", "end_left_s")
LONGEST_LIST = 12  # a longer one is kept as what it comes to

Figures = dict[str, Any]


@contextlib.contextmanager
def logs_in(folder: Path) -> Iterator[list[Path]]:
    """Put all logs into a folder, and fix what else dlmon reads; yield the logs."""
    copy_logs(folder)
    places = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    environment = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "COLUMNS": "120", "HOME": str(folder)}
    environment |= dict.fromkeys(places, str(folder / "nothing"))
    try:
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch("socket.gethostname", return_value="tower"),
        ):
            time.tzset()
            yield sorted(folder.rglob("*.jsonl"))
    finally:
        time.tzset()


def all_figures(logs: Sequence[Path]) -> dict[str, Callable[[], Figures]]:
    """Return what makes the figures of each log, by the name of the file that keeps them.

    A session is compared with the one before it in its folder, be they alike or not.
    """
    names = {log: f"{log.parents[1].name}-{log.parent.name}" for log in logs}
    sessions = [log for log in logs if log.name == "session.jsonl"]
    made = {names[log]: partial(_of_session, log) for log in sessions}
    made |= {names[log]: partial(_of_sweep, log) for log in logs if log not in sessions}
    for before, log in pairwise(sessions):
        if before.parents[1] == log.parents[1]:
            made[f"{names[log]} and the one before"] = partial(_compared, before, log)
    sizes = ([str(log) for log in sessions if f"/sweep-{size}-" in str(log)] for size in (64, 256))
    made["two batch sizes"] = partial(_compared, *map(",".join, sizes))
    return made


def _of_sweep(log: Path) -> Figures:
    return {"report": _json("report", log, "--format", "json")["sweeps"], "csv": _rows(log)}


def _of_session(log: Path) -> Figures:
    listed = _json("sessions", "--json", "--log-dir", log.parents[1])
    report = _json("report", log, "--format", "json")
    del report["dlmon"]
    with contextlib.closing(ReplaySource(log)) as source:
        shown = {f"{share:3} %": _shown_at(source, share) for share in SHARES}
    return {
        "json": [one for one in listed if one["log"].endswith(f"/{log.parent.name}/{log.name}")],
        "report": report,
        "csv": _rows(log),
        "tables": {table: _summed_up(_rows(log, "--table", table)) for table in TABLES},
        "at": shown,
    }


def _compared(base: str | Path, new: str | Path) -> Figures:
    """Return what `dlmon compare` says of two sides, also where it refuses to at first."""
    said = _json("compare", base, new, "--json")
    if "refused" in said:
        said = _json("compare", base, new, "--json", "--anyway") | said
    return said


def _shown_at(source: ReplaySource, share: int) -> Figures:
    """Return what the screen shows when so many percent of a session's time have passed.

    This alone asks the engine: no command prints it.
    """
    source.seek(source.start_ns + (source.end_ns - source.start_ns) * share // 100)
    shown, session, header = source.snapshot(), source.session, source.session.header
    model, effective, epochs = shown.measured_model, shown.effective, shown.epochs
    price, cores = header.options.get("price"), header.machine.cores
    energy, price = [(session.machine.energy, shown.gpus)], price and str(price)
    cost = measure(model, energy, epochs, effective, shown.elapsed_s, price, cores)
    plain = {name: getattr(shown, name) for name in PLAIN}
    if (now := shown.samples_per_second_now) is not None:
        plain["samples_per_second_now"] = now.per_second
    limit, progress, gpus = shown.limit, shown.progress, shown.machine and shown.machine.gpus
    return {
        **plain,
        **{name: (timed := getattr(shown, name)) and to_json(timed) for name in TIMES},
        "status": source.status,
        "progress": progress and {name: getattr(progress, name) for name in PROGRESS},
        "epochs": len(epochs),
        "limit": limit and [limit.rule, limit.text, limit.advice, *limit.also],
        "account": shown.time_breakdown,
        "against": shown.validity and shown.validity.warnings,
        "gaps": [[one.kind, (one.start - header.t) / 1e9, one.seconds] for one in shown.gaps],
        "pauses": [[one.name, (one.t - header.t) / 1e9, one.seconds] for one in shown.pauses],
        "notices": len(shown.notices),
        "stacks": len(shown.stacks) + len(session.stacks.of_processes),
        "ranks": [one.samples_per_second for one in shown.trainers],
        "energy_j_per_epoch": cost["energy_j_per_epoch"],
        "cost_usd": cost["cost_usd"],
        "effective_flop_s": cost["effective_flop_s"],
        "use": to_json(session.machine.use()),
        "gpus": [to_json(gpu) for gpu in gpus or ()],
    }


def _printed(*words: str | Path) -> str:
    """Return what a command prints, on stderr where it refuses, without where the logs are."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["dlmon", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        contextlib.suppress(SystemExit),
    ):
        main(lambda start: 0)
    return (out.getvalue() or errors.getvalue()).replace(os.environ["HOME"], "~")


def _json(*words: str | Path) -> Any:
    printed = _printed(*words)
    return {"refused": printed} if printed.startswith("dlmon: ") else json.loads(printed)


def _rows(log: Path, *options: str) -> list[dict[str, str]]:
    printed = _printed("report", log, "--format", "csv", *options)
    refused = [{"refused": printed}]
    return refused if printed.startswith("dlmon: ") else list(csv.DictReader(io.StringIO(printed)))


def _summed_up(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return what each column of a table comes to; of metrics and readings, of each kind."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        kind = " ".join(row[name] for name in KINDS if name in row)
        for name in row.keys() - {*KINDS, *SAID_ELSEWHERE}:
            columns.setdefault(f"{kind} {name}".lstrip(), []).append(_number(row[name]))
    return {name: _come_to(values) for name, values in columns.items()}


def _number(text: str) -> float | str | None:
    with contextlib.suppress(ValueError):
        return float(text)
    return text or None


def _come_to(values: Sequence[Any]) -> str:
    """Say how many values are known, and what the numbers among them come to."""
    known = [value for value in values if value is not None]
    said = f"{len(known)} of {len(values)}"
    numbers = [value for value in known if isinstance(value, float | int)]
    if not numbers:
        return ", ".join([said, *sorted(set(known))[:5]])
    mean = sum(numbers) / len(numbers)
    return f"{said}, mean {mean:.6g}, {min(numbers):.6g} to {max(numbers):.6g}"


def _kept(value: Any) -> Any:
    """Return figures as they are kept: numbers to six digits, long lists as what they come to."""
    if isinstance(value, Mapping):
        return {str(key): _kept(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        if len(value) > LONGEST_LIST and not any(isinstance(one, dict | list) for one in value):
            return _come_to(value)
        return [_kept(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def text_of(figures: Figures) -> str:
    """Return what a file of figures holds: a figure a line."""
    return json.dumps(_kept(figures), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def flat(value: Any, name: str = "") -> Figures:
    """Return each figure by its whole name: what lies deeper has the names above it before it."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(str(number), one) for number, one in enumerate(value)]
    else:
        return {name: value}
    figures = (flat(one, f"{name} / {part}".lstrip(" /")) for part, one in pairs)
    return {key: figure for each in figures for key, figure in each.items()}
