"""Report where a process stands still before its first step, such as in a loader that hangs.

Only the thread that made an optimizer is watched, as it is to train. It stands still if it is at
one line of the script and hardly computes. A compiler may compute in other threads or processes.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import Counter
from functools import cache

from dlmon.instrument.reporter import Reporter, guarded
from dlmon.instrument.stacks import Line, ends_of, lines_within
from dlmon.records import Frame, SeenAt, Stack

SAMPLE_S = 1.0
STANDS_NS = 30_000_000_000
# It computes if it used this share of a core since the last sample.
_COMPUTES = 0.1
_COMPILERS = (
    *("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/"),
    *("/jax/_src/", "/tensorflow/python/eager/"),
)


class StillThread:
    """Tells since when a thread stands still, from samples of its stack.

    Args:
        rank: the rank of the process; None for a single one.
    """

    def __init__(self, rank: int | None = None) -> None:
        self._rank = rank
        self._at: Line | None = None
        self._begin_ns = self._last_ns = self._report_ns = self._cpu_ns = 0
        self._samples: Counter[tuple[Line, Line | None]] = Counter()

    def take(self, lines: list[Line], cpu_ns: int, now: int) -> Stack | None:
        """Take a sample; return a report if one is due, and the last one as the thread goes on.

        Args:
            lines: the stack, innermost first.
            cpu_ns: the CPU time of the thread so far.
            now: CLOCK_MONOTONIC in nanoseconds.
        """
        inner, script = ends_of(lines)
        compiles = any(part in line[0] for line in lines for part in _COMPILERS)
        computes = cpu_ns - self._cpu_ns > _COMPUTES * (now - self._last_ns)
        at, self._cpu_ns = script or inner, cpu_ns
        ended = None
        if at is None or at != self._at or compiles or computes:
            ended = self.end()
            self._at, self._begin_ns = at, now
            self._samples = Counter()
        if inner is not None:
            self._samples[inner, script] += 1
        self._last_ns = now
        lasted_ns = now - self._begin_ns
        if lasted_ns < STANDS_NS or now < self._report_ns or not self._samples:
            return ended
        self._report_ns = now + lasted_ns
        return self._stack(goes_on=True)

    def end(self) -> Stack | None:
        """Return the last report of a thread that was reported to stand still."""
        was_reported, self._report_ns = self._report_ns > 0, 0
        return self._stack() if was_reported else None

    def _stack(self, goes_on: bool | None = None) -> Stack:
        samples = self._samples.total()
        ((inner, script), _) = self._samples.most_common(1)[0]
        place = SeenAt(samples, Frame(*inner), Frame(*script) if script else None)
        return Stack(
            *(self._last_ns, self._begin_ns, samples, samples, (place,), goes_on),
            trainer=self._rank or None,
        )


@cache
def watch_first_step(reporter: Reporter) -> None:
    """Watch the running thread until this process reports steps."""
    ident, still = threading.get_ident(), StillThread(reporter.rank)
    clock = getattr(time, "pthread_getcpuclockid", None)
    if clock is None:
        return

    @guarded(reporter)
    def watch() -> None:
        while reporter.awaits_first_step:
            time.sleep(SAMPLE_S)
            frame = sys._current_frames().get(ident)
            if frame is None:
                return
            cpu_ns = time.clock_gettime_ns(clock(ident))
            report = still.take(list(lines_within(frame)), cpu_ns, time.monotonic_ns())
            if report is not None:
                reporter.send_now(report)
        if (last := still.end()) is not None:
            reporter.send_now(last)

    with contextlib.suppress(RuntimeError):  # no thread can be started any more
        threading.Thread(target=watch, name="dlmon-first-step", daemon=True).start()
