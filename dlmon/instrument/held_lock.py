"""Have the stacks written where code that is not Python's holds the interpreter's lock for long.

No thread of ours runs then, and none can answer: `faulthandler` has one of its own that needs no
lock. It is set again and again, and writes only where that did not happen in time. A script that
uses `faulthandler.dump_traceback_later` itself keeps it: there is one of it in a process.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from functools import wraps
from pathlib import Path
from typing import IO, Any

from dlmon.instrument.stacks import Line, is_of_script

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
    """Sets faulthandler's watchdog, as long as nobody else does.

    Args:
        path: what the stacks are written to.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: IO[str] | None = None
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
        if self._file is None:
            if _script_uses_it():
                self._is_on = False
                return
            self._file = open(self._path, "w")  # noqa: PTH123, SIM115
            self._leave_to_others()
        elif os.fstat(self._file.fileno()).st_size:
            self._file.truncate(0)
            self._file.seek(0)
        self._set_ns = now
        self._set_later(HELD_S, file=self._file)

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
