"""Read the stacks of this process's threads, and sample the training thread's stack in a pause.

While native code holds the interpreter's lock, no thread of ours runs. `faulthandler` writes the
stacks then, from a thread that needs no lock.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

from dlmon.instrument.descriptors import is_same, move_up
from dlmon.records import Frame, SeenAt, Stack, ThreadStack

SAMPLE_S = 0.05
_SAMPLE_NS = int(SAMPLE_S * 1e9)
LEAST_PAUSE_NS = 500_000_000
NOTICED_NS = 250_000_000
"""The longest time until a pause is noticed, unless the side thread is blocked."""
PAUSE_STEPS = 5
"""A gap of this many median steps is a pause."""
LATE_NS = 5_000_000_000
"""If sampling was blocked this long, faulthandler may have written the stacks."""
REPORT_NS = 1_000_000_000
"""A pause that goes on is reported after this long, then each time its length has doubled."""
REPORTS_APART_NS = 60_000_000_000
MOST_SHORT_REPORTS = 1000
"""After this many reports, pauses shorter than `LONG_NS` are no longer reported."""
LONG_NS = 10_000_000_000
MOST_PLACES = 3
MOST_FRAMES, MOST_THREADS = 60, 64
# A script may recurse deeply.
MOST_FRAMES_READ = 200

# Paths as in code objects, which may go through links.
_OURS = __file__.rpartition(f"{os.sep}instrument{os.sep}")[0] + os.sep
_STANDARD = os.__file__.rpartition(os.sep)[0] + os.sep
_WITHIN_PATH = (
    *(f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"),
    # Modules that PyTorch and TensorFlow generate and import.
    *(f"{os.sep}torchinductor_", "__autograph_generated_file"),
)
_TYPED = ("<stdin>", "<string>")


@lru_cache(maxsize=10_000)
def is_of_script(file: str) -> bool:
    """Return whether a file is the user's, not of a package or the standard library."""
    is_library = file.startswith((_OURS, _STANDARD)) or any(part in file for part in _WITHIN_PATH)
    is_generated = file.startswith("<") and file not in _TYPED
    return not (is_library or is_generated)


Line = tuple[str, int, str]


def lines_within(frame: FrameType | None, bottom: str = "") -> Iterator[Line]:
    """Yield the lines of a stack, innermost first, without dlmon's.

    The stack ends at a frame of the file `bottom`, below which the process was forked.
    """
    for _ in range(MOST_FRAMES_READ):
        # Once, a dict came in place of the frame before that of a call that was just ending (3.11).
        if not isinstance(frame, FrameType) or frame.f_code.co_filename == bottom:
            return
        if not frame.f_code.co_filename.startswith(_OURS):
            yield frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name
        frame = frame.f_back


def lines_of(frame: FrameType | None) -> tuple[Line | None, Line | None]:
    """Return the innermost line, without dlmon's, and the innermost line of the script."""
    return ends_of(lines_within(frame))


def ends_of(lines: Iterable[Line]) -> tuple[Line | None, Line | None]:
    """Return the innermost line of a stack and the innermost line of the script."""
    inner: Line | None = None
    for line in lines:
        inner = inner or line
        if is_of_script(line[0]):
            return inner, line
    return inner, None


def stacks_of_threads(
    training_thread: int | None, own_thread: int, bottom: str = ""
) -> tuple[ThreadStack, ...]:
    """Return the stacks of all threads, that of the training thread first.

    Args:
        training_thread: its ident; None if nothing trains.
        own_thread: the ident of a thread of ours, which is left out.
        bottom: the file of the frame at which stacks end.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = []
    for ident, top in sys._current_frames().items():
        if ident == own_thread:
            continue
        frames = [Frame(*line) for line in lines_within(top, bottom)]
        script = next((frame for frame in frames if is_of_script(frame.file)), None)
        name = str(names.get(ident) or f"thread {ident}")
        trains = ident == training_thread or None
        stacks.append(ThreadStack(name, tuple(frames[:MOST_FRAMES]), script, trains=trains))
    main = threading.main_thread().name
    stacks.sort(key=lambda stack: (not stack.trains, stack.name != main, stack.script is None))
    return tuple(stacks[:MOST_THREADS])


class PauseSampler:
    """Samples the stack of the training thread while no batch comes.

    Args:
        lines_while_held: returns the lines of a thread while the interpreter's lock was held; empty
            if unknown.
    """

    def __init__(self, lines_while_held: Callable[[int], list[Line]] = lambda thread: []) -> None:
        self._lines_while_held = lines_while_held
        self.thread: int | None = None
        """The ident of the training thread; None before training."""
        self._samples: Counter[tuple[Line, Line | None]] = Counter()
        # Samples in place of those that the interpreter's lock prevented.
        self._held = 0
        self._begin_ns: int | None = None
        self._first_ns = 0
        self._due_ns = self._report_ns = 0
        self._reports = 0

    @property
    def wait_s(self) -> float | None:
        """The time to wait until the next sample; None if there is no pause."""
        return None if self._begin_ns is None else SAMPLE_S

    def pause_ns(self, now: int) -> int:
        """Return the length of the pause so far; 0 if there is none."""
        return 0 if self._begin_ns is None else now - self._begin_ns

    def take(
        self, quiet_since_ns: int | None, steps_us: Callable[[], list[int]], now: int
    ) -> Stack | None:
        """Sample the stack if no batch came for long; return a report if one is due.

        Args:
            quiet_since_ns: the end of the last batch or the begin of the phase after it; None if no
                batch is expected.
            steps_us: returns the times of the last steps.
            now: CLOCK_MONOTONIC in nanoseconds.
        """
        if self._begin_ns is not None and self._begin_ns < (quiet_since_ns or 0) <= self._first_ns:
            # The epoch ended before the first sample, which is known only now: the pause goes on.
            self._begin_ns = quiet_since_ns
        report = self._end_pause(quiet_since_ns) if self._begin_ns != quiet_since_ns else None
        if quiet_since_ns is None or self.thread is None:
            return report
        if self._begin_ns is None:
            quiet_ns = now - quiet_since_ns
            if quiet_ns < LEAST_PAUSE_NS:
                return report
            # The median is computed only if there may be a pause.
            least_ns = max(LEAST_PAUSE_NS, int(PAUSE_STEPS * 1000 * median(steps_us() or [0])))
            if quiet_ns < least_ns:
                return report
            self._samples, self._held = Counter(), 0
            self._begin_ns, self._report_ns = quiet_since_ns, quiet_since_ns + REPORT_NS
            self._first_ns = self._due_ns = min(now, quiet_since_ns + least_ns + NOTICED_NS)
        return self._sample(now) or report

    def _sample(self, now: int) -> Stack | None:
        if now < self._due_ns:
            return None
        assert self.thread is not None
        assert self._begin_ns is not None
        inner, script = lines_of(sys._current_frames().get(self.thread))
        if now - self._due_ns > LATE_NS:
            held_inner, held_script = ends_of(self._lines_while_held(self.thread))
            if held_inner is not None:
                # The thread can't have moved while the lock was held.
                samples = (now - self._due_ns) // _SAMPLE_NS
                self._samples[held_inner, held_script] += samples
                self._held += samples
        if inner is not None:
            self._samples[inner, script] += 1
        self._due_ns = now + _SAMPLE_NS
        if now < self._report_ns or not self._samples:
            return None
        lasted_ns = now - self._begin_ns
        self._report_ns = now + min(lasted_ns, REPORTS_APART_NS)
        return self._stack(now, self._begin_ns, goes_on=True)

    def _end_pause(self, end_ns: int | None) -> Stack | None:
        """Return the report of the pause that is over."""
        begin_ns, self._begin_ns = self._begin_ns, None
        if begin_ns is None or not self._samples:
            return None
        end_ns = max(end_ns or self._due_ns - _SAMPLE_NS, begin_ns)
        self._reports += 1
        if self._reports > MOST_SHORT_REPORTS and end_ns - begin_ns < LONG_NS:
            return None
        return self._stack(end_ns, begin_ns)

    def _stack(self, t: int, begin_ns: int, goes_on: bool | None = None) -> Stack:
        samples_due = 1 + max(0, t - self._first_ns) // _SAMPLE_NS
        places = tuple(
            SeenAt(count, Frame(*inner), Frame(*script) if script else None)
            for (inner, script), count in self._samples.most_common(MOST_PLACES)
        )
        samples = self._samples.total()
        due = max(samples, samples_due)
        return Stack(t, begin_ns, samples, due, places, goes_on, held=self._held or None)


HELD_S = 10.0
SET_AGAIN_NS = 5_000_000_000
HELD = "held "
"""The prefix of the files that faulthandler writes stacks to; the process's id follows."""
_WORD = b"faulthandler"
_THREAD = re.compile(r"(?:Current t|T)hread 0x([0-9a-f]{1,16}) ")
_FRAME = re.compile(r'  File "(.{0,4096}?)", line (\d{1,9}) in (.{0,500})')
_MOST_BYTES = 1 << 20


def lines_in(text: str) -> list[tuple[int, list[Line]]]:
    """Return the thread idents and stacks in faulthandler's text, innermost lines first."""
    threads: list[tuple[int, list[Line]]] = []
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            threads.append((int(thread[1], 16), []))
        elif (frame := _FRAME.fullmatch(line)) and threads:
            threads[-1][1].append((frame[1], int(frame[2]), frame[3]))
    return threads


class HeldLock:
    """Sets faulthandler's watchdog again and again: it writes the stacks if that is late.

    A process has only one watchdog: it is left to the script, if that uses it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._status: os.stat_result | None = None
        self._set_ns: int | None = None
        self._set_later: Any = None
        self._cancel: Any = None
        self._is_on = not _is_free_threaded()
        # A forked child lacks the watchdog's thread and would wait for it forever, so it is
        # cancelled for the fork.
        self._lock = threading.Lock()
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._lock.release,
            after_in_child=self._after_fork_in_child,
        )

    def set_again(self, now: int) -> None:
        """Reset the watchdog; to be called more often than every `HELD_S`."""
        if not self._is_on or (self._set_ns is not None and now - self._set_ns < SET_AGAIN_NS):
            return
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._set(now)
        except Exception:  # noqa: BLE001 - whatever it is, the script goes on without this
            self._is_on = False
        finally:
            self._lock.release()

    def lines_of(self, thread: int) -> list[Line]:
        """Return the stack of a thread when the lock was last held for long."""
        try:
            text = Path(self._path).read_text("utf-8", "replace") if self._set_ns else ""
        except OSError:
            return []
        return next((lines for ident, lines in lines_in(text) if ident == thread), [])

    def _set(self, now: int) -> None:
        if self._status is None:
            if _script_uses_faulthandler():
                self._is_on = False
                return
            self._give_up_to_script()
        if self._status is None or not is_same(self._fd, self._status):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._fd = move_up(os.open(self._path, flags, 0o600))
            self._status = os.fstat(self._fd)
        elif os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        self._set_ns = now
        self._set_later(HELD_S, file=self._fd)

    def _give_up_to_script(self) -> None:
        """Give the watchdog up as soon as the script sets or cancels it."""
        import faulthandler

        module: Any = faulthandler
        self._set_later = module.dump_traceback_later
        self._cancel = module.cancel_dump_traceback_later

        def giving_up(function: Any) -> Any:
            @wraps(function)
            def call(*arguments: Any, **named: Any) -> Any:
                self._is_on, self._set_ns = False, None
                return function(*arguments, **named)

            return call

        module.dump_traceback_later = giving_up(self._set_later)
        module.cancel_dump_traceback_later = giving_up(self._cancel)

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._cancel_ours()

    def _after_fork_in_child(self) -> None:
        self._is_on = False
        self._lock.release()

    def _cancel_ours(self) -> None:
        if self._set_ns is not None:
            self._set_ns = None
            with contextlib.suppress(Exception):
                self._cancel()

    def close(self) -> None:
        """Cancel the watchdog for good."""
        with self._lock:
            if self._is_on:
                self._cancel_ours()
            self._is_on = False


def _is_free_threaded() -> bool:
    """Return whether Python runs without the lock: faulthandler's read would race then."""
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def _script_uses_faulthandler() -> bool:
    """Return whether a module of the user's names faulthandler."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and is_of_script(file):
            with contextlib.suppress(OSError):
                if _WORD in Path(file).read_bytes()[:_MOST_BYTES]:
                    return True
    return False
