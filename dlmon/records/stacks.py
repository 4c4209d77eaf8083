"""The records of a process's stacks, its answers to requests, and its profiles."""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import PurePath
from typing import ClassVar

from dlmon.records.record import record

_PACKAGE_PARTS = 3
_PACKAGE = re.compile(
    r"[/\\](?:site|dist)-packages[/\\](\w+)|/lib(?:64)?/python3\.\d+/(?!\w+-packages/)(\w+)"
    r"|<frozen (\w+)|/(torchinductor|_dlmon_monitor)"
)


@record(frozen=True)
class Frame:
    """One frame of a stack.

    Attributes:
        file: its path, as in the code object.
        line: from 1.
        function: its name.
    """

    file: str
    line: int
    function: str


@record(frozen=True)
class SeenAt:
    """A line of code in stack samples of the training thread.

    Attributes:
        looks: stack samples at this line.
        inner: the innermost frame.
        script: the innermost frame outside of installed packages and the standard library.
    """

    looks: int
    inner: Frame
    script: Frame | None = None


@record(frozen=True)
class Stack:
    """The stacks of the training thread in a gap between batches.

    Written when the gap ends, and a few times before; the last record with the same `begin` counts.

    Attributes:
        t: end of the gap, or the last sample.
        begin: start of the gap.
        looks: stack samples.
        due: samples that there should be: native code that holds the GIL blocks sampling.
        places: the most frequent lines, at most three.
        held: blocked samples, from faulthandler's output.
        goes_on: true if the gap goes on.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "stack"
    t: int
    begin: int
    looks: int
    due: int
    places: tuple[SeenAt, ...]
    goes_on: bool | None = None
    trainer: int | None = None
    held: int | None = None


@record(frozen=True)
class SourceLines:
    """The lines of a source file around the line at which a run stands still.

    The supervisor reads them while the run stands there, once for each line.

    Attributes:
        t: time of reading.
        file: as in `Frame`.
        line: as in `Frame`.
        first: number of the first line.
        lines: at most five; null if they can't be read.
        changed: true if the file changed since the session began.
    """

    TYPE: ClassVar[str] = "source_lines"
    t: int
    file: str
    line: int
    first: int
    lines: tuple[str, ...] | None
    changed: bool | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class CodeSamples:
    """Samples of the training thread's stack in training steps.

    Taken a few times per second while the script's own code is the largest part of a step.

    Attributes:
        t: time of the newest sample.
        samples: samples since the last record, also within the parts of a step.
        places: places in the script's own code, outside of those parts.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "code_samples"
    t: int
    samples: int
    places: tuple[SeenAt, ...]
    trainer: int | None = None


@record(frozen=True)
class ThreadStack:
    """The stack of one thread.

    Attributes:
        name: its name.
        frames: innermost first; at most 60.
        script: as in `SeenAt`.
        trains: true for the training thread.
    """

    name: str
    frames: tuple[Frame, ...]
    script: Frame | None = None
    trains: bool | None = None


@record(frozen=True)
class ProcessStack:
    """The stacks of a process of the run, on request or after a stall of 30 s.

    Attributes:
        request: number of the request.
        pid: process id.
        threads: the training thread first; null if it did not answer. With a reason in `why`, they
            are from its last stall.
        rank: its rank.
        worker: name of a loader's worker process.
    """

    TYPE: ClassVar[str] = "process_stack"
    t: int
    request: int
    pid: int
    threads: tuple[ThreadStack, ...] | None
    rank: int | None = None
    worker: str | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Answer:
    """A process's answer to a request of the supervisor, if no other record answers it.

    A process sends one with request 0 when it is ready for requests. Not written to the log.

    Attributes:
        request: its number; 0 for none.
        version: newest version of requests that the process supports.
        pid: process id.
        refused: why it refuses the request.
        worker: as in `ProcessStack`.
    """

    TYPE: ClassVar[str] = "answer"
    t: int
    request: int
    version: int
    pid: int
    refused: str | None = None
    worker: str | None = None


@record(frozen=True)
class Operation:
    """An operation of the profiled steps.

    Attributes:
        name: framework's name of it.
        calls: how often it ran.
        host_us: time on the host, without nested operations.
        device_us: time on the device.
        share: of the time of all operations, 0 to 1: on the device if there is one, else on the
            host.
    """

    name: str
    calls: int
    host_us: int
    device_us: int
    share: float


@record(frozen=True)
class Profile:
    """A profile of some steps by the framework's own profiler; no figure includes these steps.

    Attributes:
        t: time of writing.
        request: its number.
        begin: start of the first step; null if none began.
        end: end of the last step.
        steps: its steps.
        profiler: torch, jax or tensorflow.
        file: name of the trace beside the log.
        bytes: its size.
        operations: those that took most time, longest first; null if the trace could not be read.
        idle: share of time in which the device was idle, 0 to 1.
        copying: share in which it copied; on the host, that of copy operations.
        communicating: the same with other ranks.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "profile"
    t: int
    request: int
    begin: int | None
    end: int | None
    steps: int
    profiler: str | None
    file: str | None = None
    bytes: int | None = None
    operations: tuple[Operation, ...] | None = None
    idle: float | None = None
    copying: float | None = None
    communicating: float | None = None
    trainer: int | None = None
    why: dict[str, str] = field(default_factory=dict)


def place_text(script: Frame | None, inner: Frame) -> str:
    """Return the script's line, then the file and function of the innermost frame."""
    if script is None:
        return f"{file_name(inner)}:{inner.line}{function_text(inner)}"
    text = f"{file_name(script)}:{script.line}{function_text(script)}"
    is_same_line = (script.file, script.line) == (inner.file, inner.line)
    return text if is_same_line else f"{text} → {file_name(inner)}{function_text(inner)}"


def package_of(file: str) -> str | None:
    """Return the package or the standard module of a file; None for the script's own."""
    package = _PACKAGE.search(file)
    return next(filter(None, package.groups()), None) if package else None


def file_name(frame: Frame) -> str:
    """Return a file's name; for a file of an installed package, with its folders."""
    parts = PurePath(frame.file).parts or (frame.file,)
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            within = parts[len(parts) - parts[::-1].index(folder) :]
            return "/".join(within[-_PACKAGE_PARTS:])
    return parts[-1]


def function_text(frame: Frame) -> str:
    """Return " in FUNCTION", to follow a line's number; nothing for module code."""
    return "" if frame.function == "<module>" else f" in {frame.function}"
