"""Child side: hand records to the supervisor without ever blocking training, and answer it.

The training thread only appends to a queue. A side thread wakes four times a second, packs the
batches into records and writes as much as the socket takes; what it doesn't take waits in memory,
encoded, and is never dropped. The same thread answers what the supervisor asks, and looks where the
training thread is while no batch comes.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dlmon.instrument.collector import BatchCollector
from dlmon.instrument.descriptors import is_same
from dlmon.instrument.framework_memory import MemoryReader
from dlmon.instrument.profiles import Profiles
from dlmon.instrument.queued import EpochStart, Mark, MetricsRead, Queued
from dlmon.instrument.requests import Requests
from dlmon.instrument.stacks import HeldLock, PauseSampler, stacks_of_threads
from dlmon.records import Model, ProcessStack, Record, Trainer, encode

FLUSH_S = 0.25
# So seldom are metrics read.
READ_NS = 1_000_000_000
# So long the end of the process waits for a GPU's last sums.
GPU_S = 1.0


class Reads:
    """What the training thread is asked for beside batches: a fast path looks at `is_due`."""

    def __init__(self) -> None:
        self.is_due = False
        """Whether metrics are to be read now, or a stop was just asked for."""
        self.are_shares_due = False
        """Whether a batch is to be looked into: about once a second."""
        self.are_reported = False
        """Whether the script reports its metrics itself."""
        self.stop_requested = False
        """Whether training should end after the current batch."""
        self.stepped_ns = 0
        """When a step has ended that is not reported yet."""

    def ask_to_stop(self) -> None:
        self.stop_requested = self.is_due = True


class Emitter:
    """Writes records to a socket from a side thread.

    Args:
        connection: becomes non-blocking, and is closed by `close`.
        on_error: takes an error of ours in the side thread, after which nothing more is sent;
            without it, the thread ends with that.
        connect: returns another connection where the script has closed this one.

    `reads` asks to stop when nobody reads the socket any more.
    """

    def __init__(
        self,
        connection: socket.socket,
        on_error: Callable[[Exception], None] | None = None,
        connect: Callable[[], socket.socket] | None = None,
    ) -> None:
        self._hold(connection)
        self._on_error, self._connect = on_error, connect
        self._is_open = True
        self._trainer: Trainer | None = None
        self._queue: deque[Queued] = deque()
        self._collector = BatchCollector()
        self._requests: Requests | None = None
        self._looks = PauseSampler(self._lines_held)
        self.steps: Any = self
        """What has the `batch_ended` that the training thread calls."""
        self._profiles = Profiles(self.send, lambda: self.steps, self._looks.pause_ns)
        self.held_lock: HeldLock | None = None
        """What writes the stacks where this thread can't run."""
        self._unsent, self._sent = bytearray(), 0
        """Whole lines; of the first one, so many bytes are sent."""
        self.reads = Reads()
        self.reads.is_due = True
        self._read_ns = self._memory_ns = self._looked_ns = time.monotonic_ns()
        self._memory = MemoryReader()
        self._closing = threading.Event()
        self._last: Record | None = None
        self.batch_ended = self._queue.append
        """Queue `(index, end_ns)`; the one call on the training thread's fast path."""
        os.register_at_fork(after_in_child=self._close_connection)
        self._thread = threading.Thread(target=self._run, name="dlmon-emit", daemon=True)
        self._thread.start()

    def steady_left_us(self, steady_us: int) -> int:
        """Return how much longer batches must run until the steady state has lasted so long.

        What ended within the last quarter of a second may not be counted yet.
        """
        warm_up_us = self._collector.steady.warm_up_left_us
        return warm_up_us + max(0, steady_us - self._collector.steady_us)

    def take_requests(self) -> None:
        """Answer the supervisor's requests from now on: `stack` and `profile`."""
        answers = {"stack": self._stack, "profile": self._profiles.begin}
        requests = Requests(answers, self._connection.recv, self.send)
        self.send(requests.hello())
        self._requests = requests

    def send(self, item: Mark | Record) -> None:
        """Queue a record or a mark; never blocks, never dropped."""
        if isinstance(item, EpochStart):
            self._looks.thread = threading.get_ident()
        elif isinstance(item, (Model, Trainer)) and item.backend is not None:
            self._profiles.backend = item.backend
        elif isinstance(item, Trainer) and self._profiles.backend is None:
            self._profiles.backend = item.framework
        if isinstance(item, Trainer):
            self._trainer = item
        self._queue.append(item)

    def send_metrics(self, t: int, values: Mapping[str, Any]) -> None:
        """Queue metrics as they are: the side thread makes numbers of them, and waits for these."""
        self._read_ns = t
        self.reads.is_due = False
        self._queue.append(MetricsRead(t, values))

    def close(self, wait_s: float = math.inf) -> None:
        self._closing.set()
        self._thread.join()
        begun = time.monotonic()
        if self.held_lock is not None:
            self.held_lock.close()
        self._flush(wait_s=0.0, finish=True)
        deadline = time.monotonic() + wait_s
        while self._collector.awaits_a_gpu and time.monotonic() < min(deadline, begun + GPU_S):
            time.sleep(0.001)
            self._flush(wait_s=0.0, finish=True)
        self._unsent += self._last_line()
        while self._unsent and self._is_open and time.monotonic() < deadline:
            self._write(wait_s=min(1.0, wait_s))
        self._close_connection()

    def abandon(self, last: Record) -> None:
        """Send one more record if there is room at once, and nothing after it, from any thread."""
        self._last = last
        self._closing.set()
        # The side thread may be sending: only once it is over can another send, and close.
        if threading.current_thread() is not self._thread:
            self._thread.join(FLUSH_S)
            if not self._thread.is_alive():
                self._send_last(last)

    def _send_last(self, last: Record) -> None:
        if self._is_connected():
            # A line that was sent in part is sent to its end.
            begun, end, _ = bytes(self._unsent[self._sent :]).partition(b"\n")
            line = begun + end + encode(last) + self._last_line()
            with contextlib.suppress(OSError):
                self._connection.send(line, socket.MSG_NOSIGNAL)
        self._close_connection()

    def _last_line(self) -> bytes:
        """Return what says that nothing follows: a script may close any connection."""
        trainer = self._trainer
        if trainer is None:
            return b""
        return encode(replace(trainer, t=time.monotonic_ns(), ended=True))

    def _hold(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.set_inheritable(False)
        self._connection, self._status = connection, os.fstat(connection.fileno())

    def _close_connection(self) -> None:
        self._is_open = False
        if is_same(self._connection.fileno(), self._status):
            self._connection.close()
        else:
            self._connection.detach()

    def _is_connected(self) -> bool:
        """Return whether there is a connection; where the script has closed it, connect again."""
        if not self._is_open or is_same(self._connection.fileno(), self._status):
            return self._is_open
        # Its number may be that of a file of the script's by now.
        self._connection.detach()
        try:
            if self._connect is None:
                raise ConnectionError
            self._hold(self._connect())
        except (ConnectionError, FileNotFoundError):
            self._leave()
            return False
        except OSError:
            # Too many files are open: there will be another try.
            return False
        # What was sent of a line without its end is lost.
        self._sent = 0
        if self._trainer is not None:
            self._unsent[:0] = encode(self._trainer)
        if self._requests is not None:
            self.take_requests()
        return True

    def _leave(self) -> None:
        """Send no more: the supervisor is gone, so nobody is left to train for."""
        self._unsent.clear()
        self.reads.ask_to_stop()
        self._close_connection()

    def _lines_held(self, thread: int) -> list[tuple[str, int, str]]:
        return [] if self.held_lock is None else self.held_lock.lines_of(thread)

    def _stack(self, number: int, request: Mapping[str, Any]) -> ProcessStack:
        threads = stacks_of_threads(self._looks.thread, threading.get_ident())
        return ProcessStack(time.monotonic_ns(), number, os.getpid(), threads)

    def _run(self) -> None:
        wait_s, waited_s = FLUSH_S, 0.0
        while not self._closing.wait(wait_s):
            try:
                waited_s += wait_s
                # What comes may end a pause.
                if waited_s >= FLUSH_S or self._queue:
                    waited_s = 0.0
                    self._flush(wait_s=FLUSH_S)
                wait_s = self._look()
            except Exception as error:
                if self._on_error is None:
                    raise
                self._on_error(error)
                break
            now = time.monotonic_ns()
            if now - self._read_ns >= READ_NS:
                self.reads.is_due = True
            if now - self._looked_ns >= READ_NS:
                self.reads.are_shares_due, self._looked_ns = True, now
        if self._last is not None:
            self._send_last(self._last)

    def _look(self) -> float:
        """Take requests, and look where training is in a pause; return how long to wait then."""
        requests = self._requests
        if requests is not None and self._is_connected() and not requests.take():
            self._requests = None
        now = time.monotonic_ns()
        self._profiles.tick(now)
        if now - self._memory_ns >= READ_NS:
            self._memory_ns = now
            self._queue.extend(self._memory.read(now))
        collector = self._collector
        quiet_ns = collector.quiet_since_ns
        if quiet_ns is not None:
            quiet_ns = max(quiet_ns, self.reads.stepped_ns)
        stack = self._looks.take(quiet_ns, collector.last_steps_us, now)
        if stack is not None:
            self._queue.append(stack)
        if self.held_lock is not None:
            self.held_lock.set_again(now)
        return self._looks.wait_s or FLUSH_S

    def _flush(self, wait_s: float, finish: bool = False) -> None:
        if not self._is_open:
            self._queue.clear()
            return
        self._collector.take(self._queue, time.monotonic_ns())
        for record in self._collector.records(finish):
            self._unsent += encode(record)
        if self._unsent:
            self._write(wait_s)

    def _write(self, wait_s: float) -> None:
        """Write what the socket takes, waiting at most `wait_s` for room."""
        deadline = time.monotonic_ns() + int(wait_s * 1e9)
        while self._unsent and self._is_connected():
            part = self._unsent[self._sent : self._sent + 64 * 1024]
            try:
                # A script may have made SIGPIPE end it again. What is sent is a copy: a script that
                # asks for all objects (`gc.get_objects`) holds a view, and nothing is removed then.
                self._sent += self._connection.send(part, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                left_ms = (deadline - time.monotonic_ns()) // 1_000_000
                if left_ms <= 0:
                    return
                poll = select.poll()
                poll.register(self._connection, select.POLLOUT)
                poll.poll(left_ms)
                continue
            except OSError:
                if is_same(self._connection.fileno(), self._status):
                    self._leave()
                continue
            ended = self._unsent.rfind(b"\n", 0, self._sent) + 1
            del self._unsent[:ended]
            self._sent -= ended
