"""Read the runs that W&B keeps on disk, such as `offline-run-*/run-*.wandb`.

Such a file is in the log format of LevelDB: blocks of 32 KiB with parts of records, each with a
checksum, a length and a kind. A record is a `Record` of wandb_internal.proto: 2 a row of history,
7 readings of the machine, 17 the run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from dlmon.metric_files.points import RunPoints
from dlmon.metric_files.protobuf import BYTES, fields_of
from dlmon.metric_files.rows import add_row, number_of

MAGIC = b":W&B"
_HEADER_BYTES, _BLOCK_BYTES = 7, 32_768
_PART = Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LARGEST_RECORD = 1 << 24


def read_wandb(path: Path, run: RunPoints) -> Iterator[float]:
    """Read a run, and go on with what is appended."""
    try:
        file = path.open("rb")
    except OSError as problem:
        run.problem = f"{path.name} can't be read: {problem.strerror}"
        return
    with file:
        at, parts = _HEADER_BYTES, b""
        while True:
            left = _BLOCK_BYTES - at % _BLOCK_BYTES
            if left < _PART.size:
                at += left
                continue
            file.seek(at)
            head = file.read(_PART.size)
            if len(head) == _PART.size:
                _, length, kind = _PART.unpack(head)
                part = file.read(length)
            if len(head) < _PART.size or len(part) < length:
                run.changed()
                yield 1.0
                continue
            at += _PART.size + length
            parts = part if kind in (_FULL, _FIRST) else (parts + part)[:_LARGEST_RECORD]
            if kind in (_FULL, _LAST):
                _add_record(parts, run)
            elif kind not in (_FIRST, _MIDDLE):
                # A block that was never written is full of zeros.
                at += _BLOCK_BYTES - at % _BLOCK_BYTES
            if at % _BLOCK_BYTES < length:
                yield min(0.999, at / max(1, os.fstat(file.fileno()).st_size))


def _add_record(data: bytes, run: RunPoints) -> None:
    for number, kind, end, begin in fields_of(data, 0, len(data)):
        if kind != BYTES:
            continue
        if number == 2:
            add_row(run, _items(data, begin, end, 1))
        elif number == 7:
            items = _items(data, begin, end, 3)
            wall = _wall(data, begin, end)
            for name, value in items.items():
                if (reading := number_of(value)) is not None:
                    run.add(f"system/{name}", None, wall, reading)
        elif number == 17:
            texts = {
                part: data[part_begin:part_end].decode("utf-8", "replace")
                for part, part_kind, part_end, part_begin in fields_of(data, begin, end)
                if part in (1, 8) and part_kind == BYTES
            }
            run.rename(texts.get(8) or texts.get(1, ""))


def _items(data: bytes, begin: int, end: int, number: int) -> dict[str, object]:
    """Return the names and values of a row; fields of an item: 1 or 2 its name, 16 its JSON."""
    row: dict[str, object] = {}
    for field, kind, item_end, item_begin in fields_of(data, begin, end):
        if field != number or kind != BYTES:
            continue
        names, value = [], None
        for part, part_kind, part_end, part_begin in fields_of(data, item_begin, item_end):
            if part_kind == BYTES:
                text = data[part_begin:part_end].decode("utf-8", "replace")
                if part in (1, 2):
                    names.append(text)
                elif part == 16:
                    try:
                        value = json.loads(text)
                    except (ValueError, RecursionError):
                        value = None
        row["/".join(names)] = value
    return row


def _wall(data: bytes, begin: int, end: int) -> float | None:
    """Return the time of readings: field 2, with 1 the seconds and 2 the nanoseconds."""
    for field, kind, time_end, time_begin in fields_of(data, begin, end):
        if field == 2 and kind == BYTES:
            parts = {n: value for n, _, value, _ in fields_of(data, time_begin, time_end)}
            return parts.get(1, 0) + parts.get(2, 0) / 1e9
    return None
