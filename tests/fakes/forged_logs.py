"""Logs that nobody recorded: each is a log as far as its records go, and none is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

from fakes.recorded import recorded_session

from dlmon.log.folder import LOG_NAME
from dlmon.records import LARGEST, encode

LONG = "x" * 65_000
WIDE = "漢" * 60_000
CONTROLS = "\x1b[31mred\x1b]0;title\x07\u202eright to left\n\ttab\x00 [/x] [@click=quit]link[/]"
NOT_NUMBERS = (float("nan"), float("inf"), -float("inf"), 1e300, -1e300, LARGEST, -LARGEST, 10**400)


_DEEP = re.compile(r'"nested (\d+) deep"')


def _of_every_kind() -> list[object]:
    kinds = [None, True, "", LONG, WIDE, CONTROLS, [], {}, [None], {"a": [1]}, "last", "../.."]
    return [
        *kinds,
        -1,
        0,
        0.5,
        *NOT_NUMBERS,
        *(f"nested {depth} deep" for depth in (99, 300, 600, 901, 3000)),
    ]


HEADER_FIELDS = ("id", "host", "boot_id", "t", "wall", "workload", "options", "machine", "versions")
OPTIONS = ("device", "batch_size", "epochs", "steps", "mode", "price", "cpus", "python", "interval")
OPTIONS += ("backend", "precision", "jit", "threads", "pcie", "seconds", "data")
RESULT_FIELDS = ("status", "error", "device", "device_name", "seconds_per_epoch", "run_seconds")
RESULT_FIELDS += ("step_ms", "samples_per_second", "wall", "wall_s", "options", "workload", "data")
RESULT_FIELDS += ("cost_usd", "epochs", "peak_share", "effective_flop_s", "energy_j_per_epoch")

# What a newer dlmon may write, in the place of every word of a closed set.
_TOMORROW = "a_word_of_tomorrow"
_NO_FIGURE = dict.fromkeys(("seconds_per_epoch", "run_seconds", "samples_per_second", "step_ms"))
TOMORROWS_RESULTS: tuple[dict[str, object], ...] = (
    *({word: _TOMORROW} for word in ("status", "failure", "stopped_by", "data")),
    {"status": "failed", "error": "no", "failure": _TOMORROW},
    {"status": "stopped", "stopped_by": _TOMORROW},
    {"account": {_TOMORROW: 1.0, "training": 2.0}},
    {"valid": False, "against": {_TOMORROW: "not said yet", "throttled": "too hot"}},
    {"lacking": dict.fromkeys(_NO_FIGURE, _TOMORROW), **_NO_FIGURE},
    {"lacking": {_TOMORROW: _TOMORROW}, "why": {_TOMORROW: _TOMORROW}, **_NO_FIGURE},
)


def forge_logs(directory: Path) -> int:
    """Write a folder of forged logs beside a true one; return how many there are."""
    header, *_, result = (json.loads(encode(r)) for r in recorded_session())
    # Short, for there are many.
    _, *records, _ = (json.loads(encode(r)) for r in recorded_session(epochs=1, samples=640))
    forged: list[list[dict[str, object]]] = []
    for value in _of_every_kind():
        forged += [[{**header, field: value}, *records, result] for field in HEADER_FIELDS]
        for option in OPTIONS:
            options = {**header["options"], option: value}
            forged.append(
                [{**header, "options": options}, *records, {**result, "options": options}]
            )
        forged += [[header, *records, {**result, field: value}] for field in RESULT_FIELDS]
        timing = {"value": value, "low": value, "high": value, "epochs": value, "projected": True}
        for field in ("seconds_per_epoch", "run_seconds"):
            forged.append([header, *records, {**result, field: timing}])
    forged += [[header, *records, {**result, **newer}] for newer in TOMORROWS_RESULTS]
    for number, lines in enumerate(forged):
        write_lines(directory, f"forged-{number:04}", lines)
    write_lines(directory, "true", [header, *records, result])
    return len(forged)


def write_lines(directory: Path, name: str, lines: list[dict[str, object]]) -> Path:
    """Write a log of lines that need not be records."""
    folder = directory / name
    folder.mkdir(parents=True)
    path = folder / LOG_NAME
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    path.write_text(_DEEP.sub(lambda deep: "[" * int(deep[1]) + "]" * int(deep[1]), text))
    return path
