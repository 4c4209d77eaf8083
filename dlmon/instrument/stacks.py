"""Look where the threads of this process are, and count where the one that trains is in a pause.

Where code that is not Python's holds the interpreter's lock for long, no thread of ours runs:
`faulthandler` writes the stacks then, by a thread of its own that needs no lock.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

from dlmon.instrument.descriptors import is_same, move_up
from dlmon.records import Frame, SeenAt, Stack, ThreadStack

LOOK_S = 0.05
_LOOK_NS = int(LOOK_S * 1e9)
LEAST_PAUSE_NS = 500_000_000
NOTICED_NS = 250_000_000
"""A pause is noticed so late at most, where nothing holds the side thread up."""
STEPS = 5
"""So many times the median step without a batch are a pause."""
LATE_NS = 5_000_000_000
"""What holds a look up for so long may have been written by faulthandler."""
REPORT_NS = 1_000_000_000
"""A pause that goes on is reported after this long, then after twice as long, and so on."""
REPORTS_APART_NS = 60_000_000_000
MOST_SHORT_REPORTS = 1000
"""After so many, pauses of less than `LONG_NS` are reported no more."""
LONG_NS = 10_000_000_000
MOST_PLACES = 3
MOST_FRAMES, MOST_THREADS = 60, 64
# A script may call itself as deeply as it likes.
MOST_LOOKED_AT = 200

# The paths as code objects have them, which may be those of links.
_OURS = __file__.rpartition(f"{os.sep}instrument{os.sep}")[0] + os.sep
_STANDARD = os.__file__.rpartition(os.sep)[0] + os.sep
_WITHIN_PATH = (
    *(f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"),
    # What PyTorch and TensorFlow write and import.
    *(f"{os.sep}torchinductor_", "__autograph_generated_file"),
)
_TYPED = ("<stdin>", "<string>")
_is_script_file: dict[str, bool] = {}


def is_of_script(file: str) -> bool:
    """Return whether a file is the person's: no installed package, nor the standard library."""
    known = _is_script_file.get(file)
    if known is None:
        if len(_is_script_file) > 10_000:
            _is_script_file.clear()
        outside = file.startswith((_OURS, _STANDARD)) or any(part in file for part in _WITHIN_PATH)
        is_made = file.startswith("<") and file not in _TYPED
        known = _is_script_file[file] = not (outside or is_made)
    return known


Line = tuple[str, int, str]


def lines_within(frame: FrameType | None, bottom: str = "") -> Iterator[Line]:
    """Yield the lines that a thread is at, the innermost first, without ours.

    Those below a frame of the file `bottom` are of what the process was forked from.
    """
    for _ in range(MOST_LOOKED_AT):
        if frame is None or frame.f_code.co_filename == bottom:
            return
        if not frame.f_code.co_filename.startswith(_OURS):
            yield frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name
        frame = frame.f_back


def lines_of(frame: FrameType | None) -> tuple[Line | None, Line | None]:
    """Return the innermost line that isn't ours, and the innermost of the script's own."""
    inner: Line | None = None
    for line in lines_within(frame):
        inner = inner or line
        if is_of_script(line[0]):
            return inner, line
    return inner, None


def stacks_of_threads(
    trains: int | None, leave_out: int, bottom: str = ""
) -> tuple[ThreadStack, ...]:
    """Return what each thread is doing, the one that trains first.

    Args:
        trains: the ident of that thread.
        leave_out: the ident of a thread of ours.
        bottom: the file of a frame at which a stack ends.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = []
    for ident, top in sys._current_frames().items():
        if ident == leave_out:
            continue
        frames = [Frame(*line) for line in lines_within(top, bottom)]
        script = next((frame for frame in frames if is_of_script(frame.file)), None)
        name = str(names.get(ident) or f"thread {ident}")
        trained = ident == trains or None
        stacks.append(ThreadStack(name, tuple(frames[:MOST_FRAMES]), script, trains=trained))
    main = threading.main_thread().name
    stacks.sort(key=lambda stack: (not stack.trains, stack.name != main, stack.script is None))
    return tuple(stacks[:MOST_THREADS])


class PauseSampler:
    """Counts where the thread that trains is while no batch comes.

    Args:
        lines_of: returns where a thread was while nothing could look, where that is known.
    """

    def __init__(self, lines_of: Callable[[int], list[Line]] = lambda thread: []) -> None:
        self._lines_of = lines_of
        self.thread: int | None = None
        """The ident of the thread that trains; None before anything trains."""
        # The places that were seen, and how many of the looks could not come when they were due.
        self._seen: Counter[tuple[Line, Line | None]] = Counter()
        self._held = 0
        self._begin_ns: int | None = None
        self._first_ns = 0
        self._due_ns = self._report_ns = 0
        self._reports = 0

    @property
    def wait_s(self) -> float | None:
        """How long until the next look; None where there is no pause."""
        return None if self._begin_ns is None else LOOK_S

    def pause_ns(self, now: int) -> int:
        """Return how long the pause has lasted; 0 where there is none."""
        return 0 if self._begin_ns is None else now - self._begin_ns

    def take(
        self, quiet_since_ns: int | None, steps_us: Callable[[], list[int]], now: int
    ) -> Stack | None:
        """Look, where no batch came for long; return what was seen where that is to be reported.

        Args:
            quiet_since_ns: when the last batch ended, or what runs since then began; None where no
                batch is waited for.
            steps_us: returns how long the last steps took.
            now: the time.
        """
        ended = self._ended(quiet_since_ns) if self._begin_ns != quiet_since_ns else None
        if quiet_since_ns is None or self.thread is None:
            return ended
        if self._begin_ns is None:
            quiet_ns = now - quiet_since_ns
            if quiet_ns < LEAST_PAUSE_NS:
                return ended
            # The median is looked for only where there may be a pause.
            least_ns = max(LEAST_PAUSE_NS, int(STEPS * 1000 * median(steps_us() or [0])))
            if quiet_ns < least_ns:
                return ended
            self._seen, self._held = Counter(), 0
            self._begin_ns, self._report_ns = quiet_since_ns, quiet_since_ns + REPORT_NS
            self._first_ns = self._due_ns = min(now, quiet_since_ns + least_ns + NOTICED_NS)
        return self._look(now) or ended

    def _look(self, now: int) -> Stack | None:
        if now < self._due_ns:
            return None
        assert self.thread is not None
        assert self._begin_ns is not None
        inner, script = lines_of(sys._current_frames().get(self.thread))
        if now - self._due_ns > LATE_NS and (lines := self._lines_of(self.thread)):
            # While Python's lock is held, no thread goes on.
            held_at = lines[0], next((line for line in lines if is_of_script(line[0])), None)
            looks = (now - self._due_ns) // _LOOK_NS
            self._seen[held_at] += looks
            self._held += looks
        if inner is not None:
            self._seen[inner, script] += 1
        self._due_ns = now + _LOOK_NS
        if now < self._report_ns or not self._seen:
            return None
        lasted_ns = now - self._begin_ns
        self._report_ns = now + min(lasted_ns, REPORTS_APART_NS)
        return self._stack(now, goes_on=True)

    def _ended(self, end_ns: int | None) -> Stack | None:
        """Return what was seen in the pause that is over."""
        begin_ns, self._begin_ns = self._begin_ns, None
        if begin_ns is None or not self._seen:
            return None
        end_ns = max(end_ns or self._due_ns - _LOOK_NS, begin_ns)
        self._reports += 1
        if self._reports > MOST_SHORT_REPORTS and end_ns - begin_ns < LONG_NS:
            return None
        return self._stack(end_ns, begin_ns=begin_ns)

    def _stack(self, t: int, goes_on: bool | None = None, begin_ns: int | None = None) -> Stack:
        begin_ns = self._begin_ns if begin_ns is None else begin_ns
        assert begin_ns is not None
        # Its first look and its last.
        due = 1 + max(0, t - self._first_ns) // _LOOK_NS
        places = tuple(
            SeenAt(count, Frame(*inner), Frame(*script) if script else None)
            for (inner, script), count in self._seen.most_common(MOST_PLACES)
        )
        looks = self._seen.total()
        return Stack(t, begin_ns, looks, max(looks, due), places, goes_on, held=self._held or None)


HELD_S = 10.0
SET_AGAIN_NS = 5_000_000_000
HELD = "held "
"""How the names of the files begin that the stacks are written to; the process's id follows."""
_WORD = b"faulthandler"
_THREAD = re.compile(r"(?:Current t|T)hread 0x([0-9a-f]{1,16}) ")
_FRAME = re.compile(r'  File "(.{0,4096}?)", line (\d{1,9}) in (.{0,500})')
_MOST_BYTES = 1 << 20


def lines_in(text: str) -> list[tuple[int, list[Line]]]:
    """Return what faulthandler wrote: the ident of each thread, with its lines, innermost first."""
    threads: list[tuple[int, list[Line]]] = []
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            threads.append((int(thread[1], 16), []))
        elif (found := _FRAME.fullmatch(line)) and threads:
            threads[-1][1].append((found[1], int(found[2]), found[3]))
    return threads


class HeldLock:
    """Sets faulthandler's watchdog, as long as nobody else does: there is one of it in a process.

    It is set again and again, and writes only where that did not happen in time.

    Args:
        path: what the stacks are written to.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._status: os.stat_result | None = None
        self._set_ns: int | None = None
        self._set_later: Any = None
        self._cancel: Any = None
        self._is_on = not _has_no_lock()
        # A forked child has no such thread and would wait for its end for ever: none is set then.
        self._lock = threading.Lock()
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._lock.release, after_in_child=self._child
        )

    def set_again(self, now: int) -> None:
        """Put off what would be written; to be called more often than every `HELD_S`."""
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
        """Return the lines that a thread was at when the lock was held for long the last time."""
        try:
            text = Path(self._path).read_text("utf-8", "replace") if self._set_ns else ""
        except OSError:
            return []
        return next((lines for ident, lines in lines_in(text) if ident == thread), [])

    def _set(self, now: int) -> None:
        if self._status is None:
            if _script_uses_it():
                self._is_on = False
                return
            self._leave_to_others()
        if self._status is None or not is_same(self._fd, self._status):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._fd = move_up(os.open(self._path, flags, 0o600))
            self._status = os.fstat(self._fd)
        elif os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        self._set_ns = now
        self._set_later(HELD_S, file=self._fd)

    def _leave_to_others(self) -> None:
        """Note when somebody else sets the watchdog, or takes it back: it is theirs then."""
        import faulthandler

        module: Any = faulthandler
        self._set_later = module.dump_traceback_later
        self._cancel = module.cancel_dump_traceback_later

        def noting(following: Any) -> Any:
            @wraps(following)
            def call(*arguments: Any, **named: Any) -> Any:
                self._is_on, self._set_ns = False, None
                return following(*arguments, **named)

            return call

        module.dump_traceback_later = noting(self._set_later)
        module.cancel_dump_traceback_later = noting(self._cancel)

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._take_back()

    def _child(self) -> None:
        self._is_on = False
        self._lock.release()

    def _take_back(self) -> None:
        if self._set_ns is not None:
            self._set_ns = None
            with contextlib.suppress(Exception):
                self._cancel()

    def close(self) -> None:
        """Write nothing any more; the process ends."""
        with self._lock:
            if self._is_on:
                self._take_back()
            self._is_on = False


def _has_no_lock() -> bool:
    """Return whether this Python runs threads at once: what faulthandler reads may change then."""
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def _script_uses_it() -> bool:
    """Return whether the person's own modules name faulthandler."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and is_of_script(file):
            with contextlib.suppress(OSError):
                if _WORD in Path(file).read_bytes()[:_MOST_BYTES]:
                    return True
    return False
