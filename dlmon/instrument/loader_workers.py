"""Let the processes that load a PyTorch loader's data say what they do, when they are asked.

Each has a thread that waits for a question and costs nothing else.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

from dlmon.instrument.requests import Requests
from dlmon.instrument.stacks import stacks_of_threads
from dlmon.records import ProcessStack, Record, encode

LOADER_WORKER = "loader worker"
# A monitor that is busy is not waited for longer than that.
SEND_S = 2


def answer(path: str) -> None:
    """Answer a monitor's questions from a thread, as long as this process loads data.

    Args:
        path: the monitor's socket.
    """
    thread = threading.Thread(target=_answer, args=(path,), name="dlmon-answer")
    thread.daemon = True
    thread.start()


def _answer(path: str) -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as monitor:
        monitor.connect(path)
        monitor.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_S, 0))

        def send(record: Record) -> None:
            # A script may have made SIGPIPE end it again.
            monitor.sendall(encode(record), socket.MSG_NOSIGNAL)

        def stack(number: int, request: Mapping[str, Any]) -> Record:
            threads = stacks_of_threads(None, threading.get_ident(), bottom=__file__)
            return ProcessStack(time.monotonic_ns(), number, os.getpid(), threads)

        requests = Requests({"stack": stack}, monitor.recv, send, LOADER_WORKER)
        send(requests.hello())
        while requests.take():
            pass
