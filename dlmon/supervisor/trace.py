"""Sum up the trace of a profiler: `python -P -m dlmon.supervisor.trace SOURCE TARGET`.

A trace is foreign and may be large: it is read in a process of its own, with little memory. What
PyTorch writes is JSON, which Perfetto opens as it is; what JAX and TensorFlow write (XSpace, a
protocol buffer) becomes that. One line of JSON on stdout says which operations took the time.
"""

from __future__ import annotations

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
# Of a device's lines of events, those that hold what ran there once; others say it again.
_DEVICE_LINES = ("stream", "xla ops")


class TraceError(Exception):
    """A trace that can't be summed up; the message says why."""


class Ran(NamedTuple):
    """Something that ran: on a line of its own in time, on the host or the device."""

    line: tuple[Any, ...]
    name: str
    start_us: float
    took_us: float
    on_device: bool


def of_json(trace: Any) -> Iterator[Ran]:
    """Yield what ran by the JSON of PyTorch's profiler."""
    for event in trace["traceEvents"]:
        kind = event.get("cat")
        on_device = kind in _DEVICE_CATEGORIES
        if event.get("ph") == "X" and (on_device or kind == "cpu_op"):
            line = event.get("pid"), event.get("tid")
            yield Ran(line, str(event["name"]), float(event["ts"]), float(event["dur"]), on_device)


def of_xspace(data: memoryview) -> Iterator[Ran]:
    """Yield what ran by an XSpace, which is planes (devices) of lines (threads) of events."""
    for plane_number, plane in enumerate(_all(data, 1)):
        title = _text(next(_all(plane, 2), b""))
        names = {}
        for entry in _all(plane, 4):
            described = next(_all(entry, 2), memoryview(b""))
            names[next(_all(entry, 1), 0)] = _text(next(_all(described, 2), b""))
        on_device = title.startswith("/device:")
        if not on_device and not title.startswith("/host:CPU"):
            continue
        for line_number, line in enumerate(_all(plane, 3)):
            called = _text(next(_all(line, 2), b"")).lower()
            if on_device and not called.startswith(_DEVICE_LINES):
                continue
            since_us = next(_all(line, 3), 0) / 1e3
            for event in _all(line, 4):
                name = names.get(next(_all(event, 1), 0), "")
                offset_us, took_us = (next(_all(event, n), 0) / 1e6 for n in (2, 3))
                # Lines of Python are no operations.
                if name and not name.startswith("$"):
                    at = plane_number, line_number
                    yield Ran(at, name, since_us + offset_us, took_us, on_device)


def _all(message: Any, wanted: int) -> Iterator[Any]:
    """Yield each value of one field of a protocol buffer's message."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at)
        elif wire == 2:
            size, at = _varint(message, at)
            value, at = message[at : at + size], at + size
        elif wire in (1, 5):
            value, at = None, at + (8 if wire == 1 else 4)
        else:
            raise TraceError("it is not a known kind of trace")
        if at > end:
            raise TraceError("it is cut short")
        if field == wanted:
            yield value


def _varint(message: Any, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise TraceError("it is cut short")


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace")


def as_json(events: Iterable[Ran]) -> dict[str, Any]:
    """Return events in the form that Perfetto opens."""
    made = []
    for ran in events:
        plane, line = ran.line
        times = {"ts": ran.start_us, "dur": ran.took_us}
        made.append({"ph": "X", "pid": plane, "tid": line, "name": ran.name, **times})
    return {"traceEvents": made}


def sum_up(events: Iterable[Ran]) -> dict[str, Any]:
    """Return the operations that took most time, and the shares of what they are: see `Profile`."""
    lines = defaultdict(list)
    for ran in events:
        lines[ran.line].append(ran)
    calls: dict[str, int] = defaultdict(int)
    took = {False: defaultdict[str, float](float), True: defaultdict[str, float](float)}
    on_device: list[tuple[float, float]] = []
    for line in lines.values():
        # What begins within another one is part of it: its time is not counted twice.
        open_: list[Ran] = []
        for ran in sorted(line, key=lambda ran: (ran.start_us, -ran.took_us)):
            while open_ and open_[-1].start_us + open_[-1].took_us <= ran.start_us:
                open_.pop()
            if open_:
                took[ran.on_device][open_[-1].name] -= ran.took_us
            open_.append(ran)
            calls[ran.name] += 1
            took[ran.on_device][ran.name] += ran.took_us
            if ran.on_device:
                on_device.append((ran.start_us, ran.start_us + ran.took_us))
    if not calls:
        raise TraceError("it holds no operation")
    has_device = bool(on_device)
    total = sum(took[has_device].values()) or 1.0
    operations = [
        Operation(
            clean(name, MOST_NAME),
            count,
            max(0, round(took[False].get(name, 0.0))),
            max(0, round(took[True].get(name, 0.0))),
            round(max(0.0, took[has_device].get(name, 0.0)) / total, 4),
        )
        for name, count in calls.items()
    ]
    operations.sort(key=lambda each: (-each.share, -each.host_us))
    summary: dict[str, Any] = {"operations": [to_json(o) for o in operations[:MOST_OPERATIONS]]}
    for part, words in (("copying", _COPIES), ("communicating", _COMMUNICATES)):
        part_us = sum(
            us for name, us in took[has_device].items() if any(w in name.lower() for w in words)
        )
        summary[part] = round(max(0.0, part_us) / total, 4)
    if has_device:
        starts = [ran.start_us for line in lines.values() for ran in line]
        ends = [ran.start_us + ran.took_us for line in lines.values() for ran in line]
        whole = max(ends) - min(starts)
        summary["idle"] = round(max(0.0, 1 - _covered(on_device) / whole), 4) if whole else None
    return summary


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return how much time spans cover, each moment once."""
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def read(source: Path, target: Path) -> dict[str, Any]:
    """Put a trace in its place as Perfetto opens it, for its owner alone, and return what it is of.

    Raises:
        TraceError: it can't be summed up.
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
    """Sum up one trace."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        said = {**read(source, target), "bytes": target.stat().st_size}
    except TraceError as error:
        said = {"error": str(error)}
    except MemoryError:
        said = {"error": "the trace is too large to be read: profile fewer steps"}
    except OSError as error:
        said = {"error": f"the trace can't be kept: {error.strerror}"}
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError):
        said = {"error": "it is not a known kind of trace"}
    if "error" in said:
        target.unlink(missing_ok=True)
    source.unlink(missing_ok=True)
    print_answer(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
