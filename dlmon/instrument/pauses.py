"""Name what a framework does while it does not train: it saves, compiles, or collects garbage.

What saves within what saves is the same pause, and its files count once. Nothing is read: what was
written is the size of the files. Of what another thread does than the one that trains, training
does not wait.
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

# Compiling comes in many small steps: shorter ones are not even put together.
_LEAST_STEP_NS = 1_000_000
_MOST_FILES = 10_000
# So often it is said of a compilation that it goes on: the process may be ended within it.
_GOES_ON_S = 1.0
_LONGEST_TEXT = 200


class Pauses:
    """Reports the pauses of this process.

    Args:
        reporter: takes them.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(self, reporter: Reporter, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.reporter, self.clock = reporter, clock
        self._local = threading.local()
        self.reasons: list[Any] = []
        """Why `torch.compile` compiles next, if that was compiled before."""
        self.has_compiled = False
        """Whether it has compiled anything."""
        self.goes_on_s = _GOES_ON_S

    def report(self, name: str, begin: int, **known: Any) -> None:
        """Report a pause of the running thread, which ends now."""
        beside = None if self.reporter.is_trained_here() else True
        self.reporter.send_or_keep(NamedPause(begin, self.clock(), name, beside=beside, **known))

    def begin_to_report(self, name: str, begin: int) -> threading.Event:
        """Report again and again, until the event is set, that a pause of this thread goes on."""
        ended = threading.Event()
        beside = None if self.reporter.is_trained_here() else True

        @guarded(self.reporter)
        def report() -> None:
            while not ended.wait(self.goes_on_s):
                self.reporter.send_now(NamedPause(begin, self.clock(), name, beside=beside))

        threading.Thread(target=report, name="dlmon-pause", daemon=True).start()
        return ended

    def begin_save(self) -> dict[Path, int] | None:
        """Begin to save; return what takes the sizes of files, None within what saves already."""
        if getattr(self._local, "sizes", None) is not None:
            return None
        sizes: dict[Path, int] = {}
        self._local.sizes = sizes
        return sizes

    def end_save(self, begin: int, sizes: dict[Path, int] | None, paths: Iterable[Any]) -> None:
        """Report what was saved since then, or add it to what it was saved within."""
        written: dict[Path, int] = self._local.sizes
        if sizes is not None:
            self._local.sizes = None
        for path in paths:
            if isinstance(path, (str, os.PathLike)):
                with contextlib.suppress(OSError, ValueError, TypeError):
                    written.update(_sizes_of(Path(path).resolve(), (self.clock() - begin) / 1e9))
        if sizes is None:
            return
        folder = None
        if sizes:
            folder = os.path.commonpath([file.parent for file in sizes])[:_LONGEST_TEXT]
        written_bytes = sum(sizes.values()) if sizes else None
        self.report(CHECKPOINT, begin, written_bytes=written_bytes, folder=folder)


@cache
def pauses_of(reporter: Reporter) -> Pauses:
    """Return what reports the pauses of this process."""
    return Pauses(reporter)


def _sizes_of(path: Path, took_s: float) -> Iterator[tuple[Path, int]]:
    """Yield the file at a path, or those in it that were written in that time, with their sizes."""
    if path.is_file():
        yield path, path.stat().st_size
        return
    # The clock of a file system may be a little behind.
    since_s = time.time() - took_s - 1.0
    for file in islice(path.rglob("*"), _MOST_FILES):
        known = file.stat()
        if file.is_file() and known.st_mtime >= since_s:
            yield file, known.st_size


def watch_saves(module: ModuleType, reporter: Reporter, *names: str) -> None:
    """Watch what saves in a module, functions and methods, as far as it is there.

    Where they save is whatever path they are called with.
    """
    pauses = pauses_of(reporter)

    def watch(holder: Any, name: str, goes_on: bool) -> None:
        def begin(*arguments: Any, **named: Any) -> tuple[int, dict[Path, int] | None]:
            return pauses.clock(), pauses.begin_save()

        def end(prepared: Any, result: Any, *arguments: Any, **named: Any) -> None:
            begin_ns, sizes = prepared
            written_by = getattr(named.get("storage_writer"), "path", None)
            given = () if goes_on else (*arguments, *named.values(), written_by)
            pauses.end_save(begin_ns, sizes, given)

        wrap(holder, name, reporter, before=begin, after=end, always=True)

    for dotted in names:
        owner, _, name = dotted.rpartition(".")
        holder = getattr(module, owner, None) if owner else module
        if hasattr(holder, name):
            # What is asynchronous goes on to write after it has returned.
            watch(holder, name, goes_on="async" in dotted.lower())


def watch_compiler(module: ModuleType, reporter: Reporter) -> None:
    """Time what `torch.compile` compiles; `module` is torch._dynamo.callback.

    What a script registers there itself, and takes away, is left alone.
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
    """Keep why `torch.compile` compiles again; `module` is torch._dynamo.guards."""
    pauses = pauses_of(reporter)

    def keep(prepared: None, found: Any, *arguments: Any, **named: Any) -> None:
        if isinstance(found, list):
            pauses.reasons = found

    # An earlier version called it by the one reason.
    for name in (
        "get_and_maybe_log_recompilation_reasons",
        "get_and_maybe_log_recompilation_reason",
    ):
        if hasattr(module, name):
            wrap(module, name, reporter, after=keep)


def _guard_that_failed(reason: Any) -> str:
    """Return a guard as PyTorch writes it, without the number of what was compiled and the code."""
    line, _, _ = str(reason).partition("\n")
    number, colon, guard = line.partition(": ")
    guard = guard if colon and "/" in number and " " not in number else line
    return " ".join(guard.partition("  #")[0].split())[:_LONGEST_TEXT]


def watch_jax(module: ModuleType, reporter: Reporter) -> None:
    """Time what JAX compiles; `module` is jax._src.monitoring."""
    pauses = pauses_of(reporter)

    @guarded(reporter)
    def compiled(event: str, seconds: float, **known: Any) -> None:
        took_ns = int(seconds * 1e9)
        if event.startswith("/jax/core/compile/") and took_ns >= _LEAST_STEP_NS:
            pauses.report(COMPILE, pauses.clock() - took_ns)

    module.register_event_duration_secs_listener(compiled)
