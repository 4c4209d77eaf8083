"""Read scalars from TensorBoard's event files, which may grow, be cut, or hold gigabytes.

An event file is a row of records: a length of 8 bytes, its checksum, an `Event` in the encoding of
protobuf, and its checksum. Of an `Event` these fields matter: 1 the time, 2 the step, 5 a summary,
whose field 1 is a value: 1 the tag, 2 a number or 8 a tensor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct

from dlmon.metric_files.points import MetricPoints, RunPoints
from dlmon.metric_files.protobuf import BYTES, fields_of, varint
from dlmon.trackers.client import masked_crc

_CHUNK_BYTES = 1 << 20
_LARGEST_EVENT = 1 << 16
"""Larger events hold pictures or histograms, and are skipped."""
_LENGTH, _DOUBLE, _FLOAT = Struct("<Q"), Struct("<d"), Struct("<f")
_DT_FLOAT, _DT_DOUBLE = 1, 2
_HEAD = Struct("<Q4xBdBB")
"""The length of a record, and of a usual event the keys and values of its time and step."""
_Add = Callable[[float], None]
_Places = dict[bytes, tuple[int, int, _Add, _Add, _Add]]
"""By the beginning of a summary, its length, where its number is, and what takes its point."""


def read_event_files(paths: Sequence[Path], run: RunPoints) -> Iterator[float]:
    """Read event files that belong to one run, and go on with what is appended."""
    readers = [_read_file(path, run) for path in paths]
    while True:
        for number, reader in enumerate(readers):
            for share in reader:
                if share >= 1:
                    break
                yield min(0.999, (number + share) / len(readers))
        yield 1.0


def _read_file(path: Path, run: RunPoints) -> Iterator[float]:
    places: _Places = {}
    try:
        file = path.open("rb")
    except OSError as problem:
        run.problem = f"{path.name} can't be read: {problem.strerror}"
        return
    with file:
        rest, offset = b"", 0
        while True:
            data = file.read(_CHUNK_BYTES)
            if not data:
                yield 1.0
                continue
            rest += data
            used = _read_events(rest, run, places)
            rest, offset = rest[used:], offset + used
            length = _LENGTH.unpack_from(rest)[0] if len(rest) >= 12 else 0
            if length > _LARGEST_EVENT:
                if masked_crc(rest[:8]) != rest[8:12]:
                    run.problem = f"{path.name} is damaged from byte {offset:,} on"
                    return
                offset, rest = offset + 16 + length, b""
                file.seek(offset)
            run.changed()
            yield min(0.999, offset / max(1, os.fstat(file.fileno()).st_size))


def _read_events(data: bytes, run: RunPoints, places: _Places) -> int:
    """Add the scalars of whole events, and return the number of bytes that these take."""
    at, most = 0, len(data) - _HEAD.size
    head_at, float_at = _HEAD.unpack_from, _FLOAT.unpack_from
    while at <= most:
        length, time_key, wall, step_key, step = head_at(data, at)
        begin, end = at + 12, at + 12 + length
        if length > _LARGEST_EVENT or end + 4 > len(data):
            break
        at = end + 4
        # The usual event: a time, a step, and a summary of a single short value.
        if time_key == 0x09 and step_key == 0x10 and length > 18:
            summary = begin + 11
            if step > 0x7F:
                # Most steps are below 2,097,152: calling `varint` takes longer.
                second, third = data[begin + 11], data[begin + 12]
                if second <= 0x7F:
                    step, summary = step & 0x7F | second << 7, begin + 12
                elif third <= 0x7F:
                    step, summary = step & 0x7F | (second & 0x7F) << 7 | third << 14, begin + 13
                else:
                    step, summary = varint(data, begin + 10)
            tag_end = summary + 6 + data[summary + 5] if summary + 6 < end else 0
            place = places.get(data[summary:tag_end])
            if place is not None and place[0] == end - summary:
                place[2](step)
                place[3](wall)
                place[4](float_at(data, summary + place[1])[0])
                continue
        _read_event(data, begin, end, run, places)
    return at


def _read_event(data: bytes, begin: int, end: int, run: RunPoints, places: _Places) -> None:
    """Add the scalars of an event of any form, and note the place of a single one."""
    wall, step, summaries = 0.0, 0, []
    for number, kind, value, field_begin in fields_of(data, begin, end):
        if number == 1 and kind == 1:
            (wall,) = _DOUBLE.unpack_from(data, value)
        elif number == 2 and kind == 0:
            step = value if value < 1 << 63 else value - (1 << 64)
        elif number == 5 and kind == BYTES:
            summaries.append((field_begin, value))
    for field_begin, summary_end in summaries:
        scalars = list(_scalars_in(data, field_begin, summary_end))
        for tag, at, size in scalars:
            metric = run.metric(tag)
            if metric is not None:
                number_form = _FLOAT if size == 4 else _DOUBLE
                metric.add(step, wall, number_form.unpack_from(data, at)[0])
        is_alone = len(scalars) == 1 and scalars[0][2] == 4 and summary_end == end
        if is_alone and metric is not None:
            _note_place(data, begin, end, scalars[0][1], metric, places)


def _note_place(
    data: bytes, begin: int, end: int, number_at: int, metric: MetricPoints, places: _Places
) -> None:
    # The same fields as `_read_events` looks at, so that a key there means this form.
    if end - begin <= 18 or data[begin] != 0x09 or data[begin + 9] != 0x10:
        return
    summary = varint(data, begin + 10)[1]
    tag_end = summary + 6 + data[summary + 5] if summary + 6 < end else 0
    is_short = data[summary] == 0x2A and max(data[summary + 1], data[summary + 3]) < 0x80
    if is_short and data[summary + 4] == 0x0A and tag_end <= number_at:
        columns = metric.steps.append, metric.walls.append, metric.values.append
        places[data[summary:tag_end]] = end - summary, number_at - summary, *columns


def _scalars_in(data: bytes, begin: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Yield the tag of each scalar in a summary, the place of its number, and its bytes."""
    for number, kind, value_end, value_begin in fields_of(data, begin, end):
        if number != 1 or kind != BYTES:
            continue
        tag, place = "", None
        for part, part_kind, part_end, part_begin in fields_of(data, value_begin, value_end):
            if part == 1 and part_kind == BYTES:
                tag = data[part_begin:part_end].decode("utf-8", "replace")
            elif part == 2 and part_kind == 5:
                place = part_end, 4
            elif part == 8 and part_kind == BYTES:
                place = _number_in_tensor(data, part_begin, part_end)
        if place is not None:
            yield tag, *place


def _number_in_tensor(data: bytes, begin: int, end: int) -> tuple[int, int] | None:
    """Return the place and the bytes of the number in a tensor of one; else None.

    Fields of a tensor: 1 its type, 4 its content, 5 floats, 6 doubles.
    """
    size, place = 0, None
    for number, kind, value, field_begin in fields_of(data, begin, end):
        if number == 1 and kind == 0:
            size = {_DT_FLOAT: 4, _DT_DOUBLE: 8}.get(value, 0)
        elif number in (4, 5, 6) and kind == BYTES:
            place = field_begin if value - field_begin == size else None
        elif (number, kind) in ((5, 5), (6, 1)):
            place = value
    return (place, size) if place is not None and size else None
