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
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from dlmon.instrument.around import hide_this_frame
from dlmon.instrument.requests import Requests
from dlmon.instrument.stacks import stacks_of_threads
from dlmon.records import ProcessStack, Record, encode

LOADER_WORKER = "loader worker"
# A monitor that is busy is not waited for longer than that.
SEND_S = 2


def answering(following: Callable[..., Any], path: str) -> Callable[..., Any]:
    """Return what a worker runs, which answers a monitor's questions meanwhile.

    Args:
        following: what it runs; a spawned one finds this again by its name.
        path: the monitor's socket.
    """

    @wraps(following)
    def run(*arguments: Any, **named: Any) -> Any:
        with contextlib.suppress(Exception):
            thread = threading.Thread(target=_answer, args=(path,), name="dlmon-answer")
            thread.daemon = True
            thread.start()
        try:
            return following(*arguments, **named)
        except BaseException as error:
            hide_this_frame(error)
            raise

    return run


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
