"""The records of a process's stacks, its answers to requests, and its profiles."""

from __future__ import annotations

from dataclasses import field
from pathlib import PurePath
from typing import ClassVar

from dlmon.records.record import record

_PACKAGE_PARTS = 3


@record(frozen=True)
class Frame:
    """One frame of a stack.

    Attributes:
        file: the path of the file, as in the code object.
        line: the line number, from 1.
        function: the name of the function.
    """

    file: str
    line: int
    function: str


@record(frozen=True)
class SeenAt:
    """A line of code in stack samples of the training thread.

    Attributes:
        looks: the number of stack samples at this line.
        inner: the innermost frame.
        script: the innermost frame outside of installed packages and the standard library; absent
            if there is none.
    """

    looks: int
    inner: Frame
    script: Frame | None = None


@record(frozen=True)
class Stack:
    """The stacks of the training thread in a gap between batches.

    Written when the gap ends, and a few times before; the last record with the same `begin` counts.

    Attributes:
        t: the end of the gap; if it goes on, the last stack sample.
        begin: the start of the gap.
        looks: the number of stack samples.
        due: the number that there should be: native code that holds the GIL blocks sampling.
        places: the most frequent lines, at most three, most frequent first.
        held: the number of samples that were blocked, and come from faulthandler's output.
        goes_on: true if the gap has not ended yet.
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
class CodeSamples:
    """Samples of the training thread's stack in training steps.

    Taken a few times per second while the script's own code is the largest part of a step.

    Attributes:
        t: the time of the newest sample.
        samples: the number of samples since the last record, also within the parts of a step.
        places: the places of the script's own code, outside of those parts; else as in `Stack`.
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
        name: the thread's name.
        frames: the stack, innermost first; at most 60.
        script: the innermost frame outside of installed packages and the standard library.
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
        request: the number of the request, the same for all processes.
        pid: the process id.
        threads: its threads, the training thread first; null if it did not answer. If there is a
            reason in `why` too, they are from its last stall.
        rank: its rank in a data-parallel run.
        worker: the name of a loader's worker process; absent for a training process.
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
        request: the number of the request; 0 for none.
        version: the newest version of requests that the process supports.
        pid: the process id.
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
        name: the framework's name of it.
        calls: how often it ran.
        host_us: its total time on the host, without nested operations.
        device_us: its total time on the device.
        share: its share of the time of all operations, 0 to 1: on the device if there is one, else
            on the host.
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
        t: the time at which it was written.
        request: the number of the request.
        begin: the start of the first step; null if none began.
        end: the end of the last step.
        steps: the number of steps.
        profiler: the profiler: torch, jax or tensorflow.
        file: the name of the trace file beside the log; null if there is none.
        bytes: its size.
        operations: the operations that took most time, longest first; null if the trace could not
            be read.
        idle: the share of time in which the device was idle, 0 to 1.
        copying: the share of time in which it copied; on the host, the share of copy operations.
        communicating: the same for communication with other ranks.
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
        return f"{_file(inner)}:{inner.line}{function_text(inner)}"
    text = f"{_file(script)}:{script.line}{function_text(script)}"
    is_same_line = (script.file, script.line) == (inner.file, inner.line)
    return text if is_same_line else f"{text} → {_file(inner)}{function_text(inner)}"


def _file(frame: Frame) -> str:
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
