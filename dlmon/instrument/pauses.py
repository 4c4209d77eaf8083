"""Report the pauses in which a framework saves or compiles.

A save inside a save is the same pause, and its files count once. The bytes written are the sizes of
the files, which are not read. Training does not wait for pauses of other threads.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from dlmon.instrument.reporter import Reporter, guarded, wrap
from dlmon.records import CHECKPOINT, COMPILE, NamedPause

# Compilation has many small steps; shorter ones are dropped before pauses are joined.
_LEAST_STEP_NS = 1_000_000
_MOST_FILES = 10_000
# The interval at which a running compilation is reported: the process may be ended during it.
_GOES_ON_S = 1.0
_LONGEST_TEXT = 200


class Pauses:
    """Reports the pauses of this process.

    Args:
        reporter: takes the pauses.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(self, reporter: Reporter, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.reporter, self.clock = reporter, clock
        self._local = threading.local()
        self.reasons: list[Any] = []
        """The reasons why `torch.compile` compiles again."""
        self.has_compiled = False
        """`torch.compile` has compiled something."""
        self.goes_on_s = _GOES_ON_S

    def report(self, name: str, begin: int, **fields: Any) -> None:
        """Report a pause of the running thread, which ends now."""
        beside = None if self.reporter.is_trained_here() else True
        self.reporter.send_or_keep(NamedPause(begin, self.clock(), name, beside=beside, **fields))

    def begin_to_report(self, name: str, begin: int) -> threading.Event:
        """Report a pause of this thread again and again, until the event is set."""
        ended = threading.Event()
        beside = None if self.reporter.is_trained_here() else True

        @guarded(self.reporter)
        def report() -> None:
            while not ended.wait(self.goes_on_s):
                self.reporter.send_now(NamedPause(begin, self.clock(), name, beside=beside))

        threading.Thread(target=report, name="dlmon-pause", daemon=True).start()
        return ended

    def begin_save(self) -> dict[Path, int] | None:
        """Begin a save; return a dict for the sizes of its files, None inside another save."""
        if getattr(self._local, "sizes", None) is not None:
            return None
        sizes: dict[Path, int] = {}
        self._local.sizes = sizes
        return sizes

    def end_save(self, begin: int, sizes: dict[Path, int] | None, paths: Iterable[Any]) -> None:
        """Add the files at `paths` to the outermost save, and report that if it is this one."""
        outermost_sizes: dict[Path, int] = self._local.sizes
        if sizes is not None:
            self._local.sizes = None
        took_s = (self.clock() - begin) / 1e9
        for path in paths:
            if isinstance(path, (str, os.PathLike)):
                with contextlib.suppress(OSError, ValueError, TypeError):
                    outermost_sizes.update(_sizes_of(Path(path).resolve(), took_s))
        if sizes is None:
            return
        folder = None
        if sizes:
            folder = os.path.commonpath([file.parent for file in sizes])[:_LONGEST_TEXT]
        written_bytes = sum(sizes.values()) if sizes else None
        self.report(CHECKPOINT, begin, written_bytes=written_bytes, folder=folder)


@cache
def pauses_of(reporter: Reporter) -> Pauses:
    """Return the one `Pauses` of a reporter."""
    return Pauses(reporter)


def _sizes_of(path: Path, took_s: float) -> Iterator[tuple[Path, int]]:
    """Yield a file, or the files of a folder written in the last `took_s`, with their sizes."""
    if path.is_file():
        yield path, path.stat().st_size
        return
    # The clock of a file system may be a little behind.
    since_s = time.time() - took_s - 1.0
    for file in islice(path.rglob("*"), _MOST_FILES):
        status = file.stat()
        if file.is_file() and status.st_mtime >= since_s:
            yield file, status.st_size


def watch_saves(module: ModuleType, reporter: Reporter, *names: str) -> None:
    """Report the calls of functions and methods that save, as far as the module has them.

    The files are those at all paths among their arguments.
    """
    pauses = pauses_of(reporter)

    def watch(holder: Any, name: str, is_async: bool) -> None:
        def begin(*arguments: Any, **named: Any) -> tuple[int, dict[Path, int] | None]:
            return pauses.clock(), pauses.begin_save()

        def end(prepared: Any, result: Any, *arguments: Any, **named: Any) -> None:
            begin_ns, sizes = prepared
            writer_path = getattr(named.get("storage_writer"), "path", None)
            # An asynchronous save is still writing its files.
            paths = () if is_async else (*arguments, *named.values(), writer_path)
            pauses.end_save(begin_ns, sizes, paths)

        wrap(holder, name, reporter, before=begin, after=end, always=True)

    for dotted in names:
        owner, _, name = dotted.rpartition(".")
        holder = getattr(module, owner, None) if owner else module
        if hasattr(holder, name):
            watch(holder, name, is_async="async" in dotted.lower())


def watch_compiler(module: ModuleType, reporter: Reporter) -> None:
    """Report the compilations of `torch.compile`; `module` is torch._dynamo.callback.

    The callbacks that a script registers there are left alone.
    """
    pauses, kind = pauses_of(reporter), module.CompilationCallbackHandler
    begin: int | None = None
    has_ended = threading.Event()
    breaks_before = 0

    def count_breaks() -> int:
        utils = sys.modules.get("torch._dynamo.utils")
        return sum(utils.counters["graph_break"].values()) if utils is not None else 0

    def began(*arguments: Any) -> None:
        nonlocal begin, breaks_before, has_ended
        has_ended.set()
        begin, breaks_before = pauses.clock(), count_breaks()
        has_ended = pauses.begin_to_report(COMPILE, begin)
        pauses.has_compiled = True

    def ended(*arguments: Any) -> None:
        nonlocal begin
        has_ended.set()
        if begin is not None and pauses.clock() - begin >= _LEAST_STEP_NS:
            breaks = count_breaks() - breaks_before
            reason = _guard_that_failed(pauses.reasons[0]) if pauses.reasons else None
            pauses.report(COMPILE, begin, reason=reason, graph_breaks=max(0, breaks) or None)
        begin, pauses.reasons = None, []

    wrap(kind, "run_start_callbacks", reporter, before=began)
    wrap(kind, "run_end_callbacks", reporter, before=ended)


def watch_guards(module: ModuleType, reporter: Reporter) -> None:
    """Keep the reasons why `torch.compile` compiles again; `module` is torch._dynamo.guards."""
    pauses = pauses_of(reporter)

    def keep(prepared: None, reasons: Any, *arguments: Any, **named: Any) -> None:
        if isinstance(reasons, list):
            pauses.reasons = reasons

    # Earlier versions had the singular.
    for name in (
        "get_and_maybe_log_recompilation_reasons",
        "get_and_maybe_log_recompilation_reason",
    ):
        if hasattr(module, name):
            wrap(module, name, reporter, after=keep)


def _guard_that_failed(reason: Any) -> str:
    """Return the guard in PyTorch's text, without the compilation's number and the code."""
    line, _, _ = str(reason).partition("\n")
    number, colon, guard = line.partition(": ")
    guard = guard if colon and "/" in number and " " not in number else line
    return " ".join(guard.partition("  #")[0].split())[:_LONGEST_TEXT]


def watch_jax(module: ModuleType, reporter: Reporter) -> None:
    """Report the compilations of JAX; `module` is jax._src.monitoring."""
    pauses = pauses_of(reporter)

    @guarded(reporter)
    def compiled(event: str, seconds: float, **fields: Any) -> None:
        took_ns = int(seconds * 1e9)
        if event.startswith("/jax/core/compile/") and took_ns >= _LEAST_STEP_NS:
            pauses.report(COMPILE, pauses.clock() - took_ns)

    module.register_event_duration_secs_listener(compiled)
