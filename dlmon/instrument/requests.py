"""Answer the supervisor's requests on the connection that sends records.

A request is a line of JSON with arguments of its own: `{"v": 1, "id": 7, "ask": "stack", "until":
123}`. The answer is a record with the id of the request. After `until` on CLOCK_MONOTONIC, there is
no answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from dlmon.instrument.descriptors import connect
from dlmon.instrument.stacks import stacks_of_threads
from dlmon.records import Answer, ProcessStack, Record, encode

VERSION = 1
LONGEST_BYTES = 4096
"""A longer request is not from our supervisor."""
LARGEST = 2**31
LOADER_WORKER = "loader worker"
# The longest wait for a busy monitor.
SEND_S = 2

Handler = Callable[[int, Mapping[str, Any]], "Record | None"]
"""Takes the id and the fields of a request; returns the answer, or None for "done"."""


class RefusedRequest(Exception):
    """A request is refused; the message says why."""


class Requests:
    """Reads and answers requests.

    Args:
        handlers: the handlers of requests by name.
        read: reads at most this many bytes, or raises BlockingIOError if there are none.
        send: takes the answers.
        worker: the kind of this process, if it isn't the one that trains.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        read: Callable[[int], bytes],
        send: Callable[[Record], None],
        worker: str | None = None,
    ) -> None:
        self._handlers, self._read, self._send = handlers, read, send
        self._unfinished = b""
        self._is_on = True
        self._worker = worker

    def hello(self) -> Answer:
        """Return the record that says that this process takes requests."""
        return self.answer(0)

    def answer(self, request: int, refused: str | None = None) -> Answer:
        """Return the answer to a request that no other record answers."""
        return Answer(time.monotonic_ns(), request, VERSION, os.getpid(), refused, self._worker)

    def take(self) -> bool:
        """Answer all requests that have arrived; return whether more may come."""
        if not self._is_on:
            return False
        try:
            data = self._read(LONGEST_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            # The monitor is gone.
            data = b""
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        self._is_on = bool(data) and len(self._unfinished) <= LONGEST_BYTES
        for line in lines:
            self._answer(line)
        return self._is_on

    def _answer(self, line: bytes) -> None:
        try:
            request = json.loads(line)
            number, ask, version = request["id"], request["ask"], request["v"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        if type(number) is not int or not 0 < number < LARGEST or not isinstance(ask, str):
            return
        if isinstance(until := request.get("until"), int) and time.monotonic_ns() > until:
            # This thread was blocked: nobody waits for the answer any more.
            return
        handler = self._handlers.get(ask)
        if version != VERSION or handler is None:
            self._send(self.answer(number, "the dlmon in this process does not know that request"))
            return
        try:
            self._send(handler(number, request) or self.answer(number))
        except RefusedRequest as why:
            self._send(self.answer(number, str(why)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._send(self.answer(number, f"{type(error).__name__}: {error}"[:300]))


def answer(path: str, bottom: str) -> None:
    """Answer a monitor's requests in a loader worker, from a thread that sleeps between them.

    Args:
        path: the monitor's socket.
        bottom: the file of the frame at which stacks end.
    """
    thread = threading.Thread(target=_answer, args=(path, bottom), name="dlmon-answer")
    thread.daemon = True
    thread.start()


def _answer(path: str, bottom: str) -> None:
    with contextlib.suppress(OSError), connect(path, SEND_S) as monitor:
        monitor.setblocking(True)
        monitor.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_S, 0))

        def send(record: Record) -> None:
            # The script may have reset SIGPIPE, which would end it.
            monitor.sendall(encode(record), socket.MSG_NOSIGNAL)

        def stack(number: int, request: Mapping[str, Any]) -> Record:
            threads = stacks_of_threads(None, threading.get_ident(), bottom)
            return ProcessStack(time.monotonic_ns(), number, os.getpid(), threads)

        requests = Requests({"stack": stack}, monitor.recv, send, LOADER_WORKER)
        send(requests.hello())
        while requests.take():
            pass
