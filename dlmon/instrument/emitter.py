"""Send records to the supervisor and answer its requests, without ever blocking training.

The training thread only appends to a queue. A side thread wakes four times a second, packs batches
into records and writes as much as the socket takes; the rest waits in memory, encoded, and is never
dropped. The same thread answers requests, and samples the training thread's stack in pauses.
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
from dlmon.instrument.imported_files import ImportedFiles
from dlmon.instrument.own_code import OwnCodeSampler
from dlmon.instrument.profiles import Profiles
from dlmon.instrument.queued import EpochStart, Mark, MetricsRead, Queued
from dlmon.instrument.requests import Requests
from dlmon.instrument.stacks import HeldLock, PauseSampler, stacks_of_threads
from dlmon.records import Model, ProcessStack, Record, Trainer, encode

FLUSH_S = 0.25
# The interval at which metrics are read.
READ_NS = 1_000_000_000
# The longest that the end of the process waits for a GPU's last sums.
GPU_S = 1.0


class TrainingFlags:
    """The flags that the training thread checks; the fast path checks only `is_due`."""

    def __init__(self) -> None:
        self.is_due = False
        """Metrics are to be read now, or a stop was just requested."""
        self.are_shares_due = False
        """The token shares of a batch are to be counted, about once a second."""
        self.are_reported = False
        """The script reports its metrics itself."""
        self.stop_requested = False
        """Training should end after the current batch."""
        self.is_own_code_sampled = False
        """The largest part of a step is the script's own code, so its lines are sampled."""
        self.stepped_ns = 0
        """The end of a step that is not reported yet."""

    def ask_to_stop(self) -> None:
        self.stop_requested = self.is_due = True


class Emitter:
    """Writes records to a socket from a side thread.

    Args:
        connection: becomes non-blocking, and is closed by `close`.
        on_error: takes an error of the side thread, which then ends; without it, the thread raises.
        connect: returns a new connection if the script has closed this one.

    When the supervisor closes the connection, `reads` requests a stop.
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
        self._pause_sampler = PauseSampler(
            lambda thread: self.held_lock.lines_of(thread) if self.held_lock else []
        )
        self.steps: Any = self
        """The object whose `batch_ended` the training thread calls."""
        self._own_code = OwnCodeSampler()
        self._profiles = Profiles(self.send, lambda: self.steps, self._pause_sampler.pause_ns)
        self.held_lock: HeldLock | None = None
        """Writes the stacks while the interpreter's lock keeps this thread from running."""
        # Whole lines, of which the first `_sent_bytes` bytes are sent.
        self._unsent, self._sent_bytes = bytearray(), 0
        self.reads = TrainingFlags()
        self.reads.is_due = True
        self._read_ns = self._memory_ns = self._looked_ns = time.monotonic_ns()
        self._memory = MemoryReader()
        self._imported = ImportedFiles()
        self._closing = threading.Event()
        self._last: Record | None = None
        self.batch_ended = self._queue.append
        """Queue the end of a batch; the only call on the training thread's fast path."""
        os.register_at_fork(after_in_child=self._close_connection)
        self._thread = threading.Thread(target=self._run, name="dlmon-emit", daemon=True)
        self._thread.start()

    def steady_left_us(self, steady_us: int) -> int:
        """Return how much longer batches must run until the steady state has lasted `steady_us`.

        The batches of the last quarter of a second may not be counted yet.
        """
        warm_up_us = self._collector.steady.warm_up_left_us
        return warm_up_us + max(0, steady_us - self._collector.steady_us)

    def take_requests(self) -> None:
        """Answer the supervisor's requests from now on: `stack` and `profile`."""
        handlers = {"stack": self._stack, "profile": self._profiles.begin}
        requests = Requests(handlers, self._connection.recv, self.send)
        self.send(requests.hello())
        self._requests = requests

    def send(self, item: Mark | Record) -> None:
        """Queue a record or a mark; never blocks, never drops."""
        if isinstance(item, EpochStart):
            self._pause_sampler.thread = threading.get_ident()
        elif isinstance(item, (Model, Trainer)) and item.backend is not None:
            self._profiles.backend = item.backend
        elif isinstance(item, Trainer) and self._profiles.backend is None:
            self._profiles.backend = item.framework
        if isinstance(item, Trainer):
            self._trainer = item
        self._queue.append(item)

    def send_metrics(self, t: int, values: Mapping[str, Any]) -> None:
        """Queue metrics unread: the side thread waits for their values."""
        self._read_ns = t
        self.reads.is_due = False
        self._queue.append(MetricsRead(t, values))

    def close(self, wait_s: float = math.inf) -> None:
        self._closing.set()
        self._thread.join()
        gpu_deadline = time.monotonic() + GPU_S
        if self.held_lock is not None:
            self.held_lock.close()
        self._flush(wait_s=0.0, finish=True)
        deadline = time.monotonic() + wait_s
        while self._collector.awaits_a_gpu and time.monotonic() < min(deadline, gpu_deadline):
            time.sleep(0.001)
            self._flush(wait_s=0.0, finish=True)
        self._unsent += self._last_line()
        while self._unsent and self._is_open and time.monotonic() < deadline:
            self._write(wait_s=min(1.0, wait_s))
        self._close_connection()

    def abandon(self, last: Record) -> None:
        """Send a last record if the socket takes it at once; may be called from any thread."""
        self._last = last
        self._closing.set()
        # The side thread may be sending: wait for its end before sending and closing here.
        if threading.current_thread() is not self._thread:
            self._thread.join(FLUSH_S)
            if not self._thread.is_alive():
                self._send_last(last)

    def _send_last(self, last: Record) -> None:
        if self._is_connected():
            # Complete a line that was sent in part.
            rest, newline, _ = bytes(self._unsent[self._sent_bytes :]).partition(b"\n")
            lines = rest + newline + encode(last) + self._last_line()
            with contextlib.suppress(OSError):
                self._connection.send(lines, socket.MSG_NOSIGNAL)
        self._close_connection()

    def _last_line(self) -> bytes:
        """Return the line that tells an end on purpose from a connection that the script closed."""
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
        """Return whether there is a connection; reconnect if the script has closed it."""
        if not self._is_open or is_same(self._connection.fileno(), self._status):
            return self._is_open
        # The descriptor may belong to a file of the script by now.
        self._connection.detach()
        try:
            if self._connect is None:
                raise ConnectionError
            self._hold(self._connect())
        except (ConnectionError, FileNotFoundError):
            self._leave()
            return False
        except OSError:
            # Too many files are open: try again later.
            return False
        # Send a line again that was sent in part.
        self._sent_bytes = 0
        if self._trainer is not None:
            self._unsent[:0] = encode(self._trainer)
        if self._requests is not None:
            self.take_requests()
        return True

    def _leave(self) -> None:
        """Send no more, and request a stop: the supervisor is gone."""
        self._unsent.clear()
        self.reads.ask_to_stop()
        self._close_connection()

    def _stack(self, number: int, request: Mapping[str, Any]) -> ProcessStack:
        threads = stacks_of_threads(self._pause_sampler.thread, threading.get_ident())
        return ProcessStack(time.monotonic_ns(), number, os.getpid(), threads)

    def _run(self) -> None:
        wait_s, waited_s = FLUSH_S, 0.0
        while not self._closing.wait(wait_s):
            try:
                waited_s += wait_s
                # A queued item may end a pause.
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
        """Take requests and sample a pause of training; return how long to wait afterwards."""
        requests = self._requests
        if requests is not None and self._is_connected() and not requests.take():
            self._requests = None
        now = time.monotonic_ns()
        self._profiles.tick(now)
        if now - self._memory_ns >= READ_NS:
            self._memory_ns = now
            self._queue.extend(self._memory.read(now))
            self._queue.extend(self._imported.read(now))
        collector = self._collector
        quiet_ns = collector.quiet_since_ns
        if quiet_ns is not None:
            quiet_ns = max(quiet_ns, self.reads.stepped_ns)
        stack = self._pause_sampler.take(quiet_ns, collector.last_steps_us, now)
        if stack is not None:
            self._queue.append(stack)
        thread = self._pause_sampler.thread
        if self.reads.is_own_code_sampled and thread is not None and quiet_ns is not None:
            self._queue.extend(self._own_code.take(thread, now))
        if self.held_lock is not None:
            self.held_lock.set_again(now)
        return self._pause_sampler.wait_s or FLUSH_S

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
            part = self._unsent[self._sent_bytes : self._sent_bytes + 64 * 1024]
            try:
                # The script may have reset SIGPIPE, which would end it. `part` is a copy: a view
                # that a script holds by `gc.get_objects` would keep us from resizing the buffer.
                self._sent_bytes += self._connection.send(part, socket.MSG_NOSIGNAL)
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
            line_end = self._unsent.rfind(b"\n", 0, self._sent_bytes) + 1
            del self._unsent[:line_end]
            self._sent_bytes -= line_end
