"""A log in which every text is an attack on whoever shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fakes.recorded import recorded_session

from dlmon.log.folder import LOG_NAME
from dlmon.records import Operation, Process, Profile, encode

# What only some words are taken for, or what says how the rest is read.
_WORDS = ("type", "schema", "status", "state", "gpus_state", "failure", "kind", "stream", "name")
OPERATIONS = (Operation("aten::mm", 5, 1_500, 40_000, 0.9), Operation("x", 1, 9, 0, 0.1))
_KEPT_OPTIONS = ("device", "mode", "precision", "backend", "data", "jit")
ATTACK = (
    "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    "</title></style>\"' onload=alert(3) x='{{7*7}}{%raw%}]]><!--"
    " | [x](javascript:alert(4)) ![p](https://evil.example/p.png) `code` ``two`` *b* _i_ ~~s~~"
    " <b>bold</b> <https://evil.example> www.evil.example @someone #1 &lt;i&gt; \\"
    " \x1b[31mred\x1b]8;;https://evil.example\x07 \u2028 \u202e \n# heading\n\n- item\r\n| a | b |"
)


def hostile_log(
    log_dir: Path, attack: str = ATTACK, *, workload: str = "cifar10-cnn", every: bool = False
) -> Path:
    """Write such a log, and return its path.

    Args:
        log_dir: where.
        attack: what stands before, in and behind every text.
        workload: what it claims to have trained.
        every: also in texts by which the rest is understood, such as the workload's name.
    """
    header, *records = recorded_session(gpus=2, status="failed")
    sample = next(record for record in records if record.TYPE == "machine")
    row = {"pid": 7, "user": "mallory", "command": "/home/mallory/bin/spy", "of_run": False}
    processes = encode_row(row)
    lines = []
    profile = Profile(records[-1].t, 1, header.t, header.t + 1, 5, "torch", "x", 9, OPERATIONS)
    for record in (header, profile, *records):
        line = json.loads(encode(record))
        if record is sample:
            line["processes"] = [processes]
        lines.append(_attacked(line, attack, every))
    lines[0]["workload"] = workload if not every else attack
    path = log_dir / "hostile" / LOG_NAME
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def encode_row(row: dict[str, Any]) -> dict[str, Any]:
    return {**vars(Process(pid=row["pid"])), **row}


def _attacked(value: Any, attack: str, every: bool, key: str = "") -> Any:
    if isinstance(value, dict):
        made = {name: _attacked(part, attack, every, name) for name, part in value.items()}
        if key in ("metrics", "why", "versions"):
            made[attack] = 0.5 if key == "metrics" else attack
        return made
    if isinstance(value, list):
        return [_attacked(part, attack, every, key) for part in value]
    kept = key in _WORDS or (not every and key in _KEPT_OPTIONS)
    return attack if isinstance(value, str) and not kept else value
