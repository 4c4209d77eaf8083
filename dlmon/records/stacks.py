"""What a trained process is doing: the lines that its threads are at, its answers, its profiles."""

from __future__ import annotations

from dataclasses import field
from pathlib import PurePath
from typing import ClassVar

from dlmon.records.record import record

_PACKAGE_PARTS = 3


@record(frozen=True)
class Frame:
    """A line of code that a thread is at.

    Attributes:
        file: the path of the file, as Python has it.
        line: the number of the line, from 1.
        function: the function that it is in.
    """

    file: str
    line: int
    function: str


@record(frozen=True)
class SeenAt:
    """Where the thread that trains was seen while no batch came, and how often.

    Attributes:
        looks: how often it was seen there.
        inner: the innermost line of all.
        script: the innermost line outside of installed packages and the standard library; absent
            where there is none.
    """

    looks: int
    inner: Frame
    script: Frame | None = None


@record(frozen=True)
class Stack:
    """Where the thread that trains was while no batch came.

    Written as that time ends, and a few times before; the last one with the same `begin` counts.

    Attributes:
        t: when the next batch ended, or what followed began; of a time that goes on, the last look.
        begin: since when there was no batch.
        looks: how often it was looked where the thread is.
        due: how often it should have been looked: there are fewer looks where code that is not
            Python's held its lock (the GIL).
        places: where it was seen most, most often first; at most three.
        held: how many of the looks could not come, and are by what faulthandler wrote meanwhile.
        goes_on: true where no batch has come yet.
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
    """Samples of the training thread in the script's own code, outside of the parts of a step.

    Taken a few times a second while that code is the largest part of a step.

    Attributes:
        t: the time of the newest sample.
        samples: the number of samples in the script's own code since the record before.
        places: the lines seen most, most often first; at most three.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "code_samples"
    t: int
    samples: int
    places: tuple[SeenAt, ...]
    trainer: int | None = None


@record(frozen=True)
class ThreadStack:
    """What a thread is doing.

    Attributes:
        name: what the process calls it.
        frames: the lines that it is at, the innermost first; at most 60.
        script: the innermost of them outside of installed packages and the standard library.
        trains: true for the thread that trains.
    """

    name: str
    frames: tuple[Frame, ...]
    script: Frame | None = None
    trains: bool | None = None


@record(frozen=True)
class ProcessStack:
    """What a process of the run was doing when somebody asked, or after it stalled for 30 s.

    Attributes:
        request: the number of the question; all processes that were asked at once have the same.
        pid: its process id.
        threads: its threads, the one that trains first; null where it did not answer. With a reason
            in `why` too, they are of the last time that it was held up.
        rank: its rank in a data-parallel run.
        worker: what it is called among those that load data; absent for one that trains.
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
    """A process's answer to a request of the supervisor that no other record answers.

    The first one, to no request, says that it takes requests. It is not written to the log.

    Attributes:
        request: the number of the request; 0 for none.
        version: the newest version of requests that the process knows.
        pid: its process id.
        refused: why it does not do what was asked for.
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
    """An operation of the profiled steps, or what ran on the device for it.

    Attributes:
        name: as the framework calls it.
        calls: how often it ran.
        host_us: the time of all calls on the host, without that of the operations within them.
        device_us: the time of all calls on the device.
        share: of the time of all operations, 0 to 1; of those on the device, where there is one.
    """

    name: str
    calls: int
    host_us: int
    device_us: int
    share: float


@record(frozen=True)
class Profile:
    """Steps that the framework's own profiler watched; they count in no figure.

    Attributes:
        t: when it was written.
        request: the number of the request.
        begin: when the first of the steps began; null where none did.
        end: when the last of them ended.
        steps: how many there were.
        profiler: what watched them: torch, jax or tensorflow.
        file: the name of the trace, which lies beside the log; null where there is none.
        bytes: its size.
        operations: those that took most time, most first; null where the trace could not be read.
        idle: the share of the time in which the device computed nothing, 0 to 1.
        copying: the share in which it copied; on the host, that of the operations that copy.
        communicating: the same of what talks to other ranks.
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
    """Name the line of the script, and the file and function of the innermost of all."""
    if script is None:
        return f"{_file(inner)}:{inner.line}{function_text(inner)}"
    text = f"{_file(script)}:{script.line}{function_text(script)}"
    same = (script.file, script.line) == (inner.file, inner.line)
    return text if same else f"{text} → {_file(inner)}{function_text(inner)}"


def _file(frame: Frame) -> str:
    """Return the name of a file: of a package's with those of its folders."""
    parts = PurePath(frame.file).parts or (frame.file,)
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            within = parts[len(parts) - parts[::-1].index(folder) :]
            return "/".join(within[-_PACKAGE_PARTS:])
    return parts[-1]


def function_text(frame: Frame) -> str:
    """Return the function of a line as words that follow it."""
    return "" if frame.function == "<module>" else f" in {frame.function}"
