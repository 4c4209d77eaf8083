"""Summarise the trace of a profiler: `python -P -m dlmon.supervisor.trace SOURCE TARGET`.

A trace may be large or malformed, so a process of its own with limited memory reads it. PyTorch
writes JSON, which Perfetto opens as it is; the traces of JAX and TensorFlow (XSpace, a protocol
buffer) are converted to JSON. The summary is one line of JSON on stdout.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import resource
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dlmon.log.folder import MOST_TRACE_BYTES
from dlmon.records import Operation, to_json
from dlmon.records.sanitize import clean
from dlmon.system.children import print_answer
from dlmon.system.private_files import FILE_MODE

MEMORY_BYTES = 6 << 30
MOST_OPERATIONS = 30
MOST_NAME = 200
_GZIP = b"\x1f\x8b"
_DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
_COPIES = ("memcpy", "copy", "infeed", "outfeed", "transfer")
_COMMUNICATES = ("nccl", "gloo", "c10d", "all-reduce", "allreduce", "all-gather", "reduce-scatter")
# The lines of a device that hold every operation once; its other lines repeat them.
_DEVICE_LINES = ("stream", "xla ops")


class TraceError(Exception):
    """Raised if a trace can't be summarised; the message says why."""


class Event(NamedTuple):
    """An operation on the host or a device; `line` is its thread or stream."""

    line: tuple[Any, ...]
    name: str
    start_us: float
    duration_us: float
    on_device: bool

    @property
    def end_us(self) -> float:
        return self.start_us + self.duration_us


def of_json(trace: Any) -> Iterator[Event]:
    """Yield the operations in the JSON of PyTorch's profiler."""
    for event in trace["traceEvents"]:
        kind = event.get("cat")
        on_device = kind in _DEVICE_CATEGORIES
        if event.get("ph") == "X" and (on_device or kind == "cpu_op"):
            line = event.get("pid"), event.get("tid")
            start_us, duration_us = float(event["ts"]), float(event["dur"])
            yield Event(line, str(event["name"]), start_us, duration_us, on_device)


def of_xspace(data: memoryview) -> Iterator[Event]:
    """Yield the operations of an XSpace: planes (devices) of lines (threads) of events."""
    for plane_number, plane in enumerate(_all(data, 1)):
        title = _text(next(_all(plane, 2), b""))
        names = {}
        for entry in _all(plane, 4):
            metadata = next(_all(entry, 2), memoryview(b""))
            names[next(_all(entry, 1), 0)] = _text(next(_all(metadata, 2), b""))
        on_device = title.startswith("/device:")
        if not on_device and not title.startswith("/host:CPU"):
            continue
        for line_number, line in enumerate(_all(plane, 3)):
            line_name = _text(next(_all(line, 2), b"")).lower()
            if on_device and not line_name.startswith(_DEVICE_LINES):
                continue
            line_start_us = next(_all(line, 3), 0) / 1e3
            for event in _all(line, 4):
                name = names.get(next(_all(event, 1), 0), "")
                offset_us, duration_us = (next(_all(event, n), 0) / 1e6 for n in (2, 3))
                # Names of Python's source lines begin with $.
                if name and not name.startswith("$"):
                    start_us = line_start_us + offset_us
                    yield Event((plane_number, line_number), name, start_us, duration_us, on_device)


def _all(message: Any, wanted: int) -> Iterator[Any]:
    """Yield all values of one field of a protocol buffer's message."""
    offset, end = 0, len(message)
    while offset < end:
        key, offset = _varint(message, offset)
        field, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, offset = _varint(message, offset)
        elif wire_type == 2:
            size, offset = _varint(message, offset)
            value, offset = message[offset : offset + size], offset + size
        elif wire_type in (1, 5):
            value, offset = None, offset + (8 if wire_type == 1 else 4)
        else:
            raise TraceError("it is not a known kind of trace")
        if offset > end:
            raise TraceError("it is cut short")
        if field == wanted:
            yield value


def _varint(message: Any, offset: int) -> tuple[int, int]:
    value = shift = 0
    while offset < len(message) and shift < 64:
        byte = message[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
    raise TraceError("it is cut short")


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace")


def as_json(events: Iterable[Event]) -> dict[str, Any]:
    """Return events in the format of Perfetto."""
    return {
        "traceEvents": [
            {
                "ph": "X",
                "pid": event.line[0],
                "tid": event.line[1],
                "name": event.name,
                "ts": event.start_us,
                "dur": event.duration_us,
            }
            for event in events
        ]
    }


def sum_up(events: Iterable[Event]) -> dict[str, Any]:
    """Return the longest operations, and the shares of copying, communicating and idle time."""
    lines = defaultdict(list)
    for event in events:
        lines[event.line].append(event)
    calls: dict[str, int] = defaultdict(int)
    self_us = {False: defaultdict[str, float](float), True: defaultdict[str, float](float)}
    for line in lines.values():
        line.sort(key=lambda event: (event.start_us, -event.duration_us))
        # The time of an operation within another counts only once.
        open_: list[Event] = []
        for event in line:
            while open_ and open_[-1].end_us <= event.start_us:
                open_.pop()
            if open_:
                self_us[event.on_device][open_[-1].name] -= event.duration_us
            open_.append(event)
            calls[event.name] += 1
            self_us[event.on_device][event.name] += event.duration_us
    if not calls:
        raise TraceError("it holds no operation")
    every = [event for line in lines.values() for event in line]
    on_device = [(event.start_us, event.end_us) for event in every if event.on_device]
    has_device = bool(on_device)
    total_us = sum(self_us[has_device].values()) or 1.0
    operations = [
        Operation(
            clean(name, MOST_NAME),
            count,
            max(0, round(self_us[False].get(name, 0.0))),
            max(0, round(self_us[True].get(name, 0.0))),
            round(max(0.0, self_us[has_device].get(name, 0.0)) / total_us, 4),
        )
        for name, count in calls.items()
    ]
    operations.sort(key=lambda operation: (-operation.share, -operation.host_us))
    summary: dict[str, Any] = {"operations": [to_json(o) for o in operations[:MOST_OPERATIONS]]}
    for part, words in (("copying", _COPIES), ("communicating", _COMMUNICATES)):
        part_us = sum(
            us for name, us in self_us[has_device].items() if any(w in name.lower() for w in words)
        )
        summary[part] = round(max(0.0, part_us) / total_us, 4)
    if has_device:
        whole_us = max(e.end_us for e in every) - min(e.start_us for e in every)
        idle = 1 - _covered(on_device) / whole_us if whole_us else None
        summary["idle"] = None if idle is None else round(max(0.0, idle), 4)
    return summary


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of spans."""
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def read(source: Path, target: Path) -> dict[str, Any]:
    """Write a trace to `target` in Perfetto's format, for its owner alone; return its summary.

    Raises:
        TraceError: it can't be summarised.
    """
    if source.stat().st_size > MOST_TRACE_BYTES:
        most_mib = MOST_TRACE_BYTES >> 20
        raise TraceError(f"the trace has more than {most_mib} MiB: profile fewer steps")
    data = source.read_bytes()
    if data.startswith(_GZIP):
        summary = sum_up(of_json(json.loads(gzip.decompress(data))))
        source.replace(target)
    else:
        events = list(of_xspace(memoryview(data)))
        with gzip.open(target, "wt", encoding="utf-8") as file:
            json.dump(as_json(events), file)
        summary = sum_up(events)
    target.chmod(FILE_MODE)
    return summary


def main() -> int:
    """Summarise one trace."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    # A Mac refuses it.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        answer = {**read(source, target), "bytes": target.stat().st_size}
    except TraceError as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": "the trace is too large to be read: profile fewer steps"}
    except OSError as error:
        answer = {"error": f"the trace can't be kept: {error.strerror}"}
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError):
        answer = {"error": "it is not a known kind of trace"}
    if "error" in answer:
        target.unlink(missing_ok=True)
    source.unlink(missing_ok=True)
    print_answer(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
