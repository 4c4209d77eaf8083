"""Send messages: each address has a thread of its own, so that a slow one delays nothing."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dlmon.alerts.alert_settings import Address, AlertSettings, Service, address_of
from dlmon.alerts.message import Message, payload_of, request_of, text_of, title_of

MOST_WAITING = 100
EVERY_S = 60.0
"""A session sends one message in this time; the next holds all that came meanwhile."""
CLOSE_S = 10.0
"""The time that a session that ends waits for unsent messages."""
PAUSES_S = (1.0, 5.0)
"""The pauses before the second and the third try."""
ANSWER_S = 5.0
_LOOK_S = 0.05
COMMAND_S = 10.0

Deliver = Callable[[Message, float], str | None]
"""Sends a message within a number of seconds; returns why not, if so, without the address."""


class Destination(NamedTuple):
    """A receiver of messages.

    Attributes:
        name: its name, without secrets.
        deliver: sends a message to it.
        pauses_s: the pause before each further try.
        answer_s: the time limit of one try.
    """

    name: str
    deliver: Deliver
    pauses_s: tuple[float, ...] = PAUSES_S
    answer_s: float = ANSWER_S


def destinations_of(settings: AlertSettings) -> list[Destination]:
    """Return the destinations in the settings."""
    destinations = []
    for text in settings.url:
        address = address_of(text, here=False)
        deliver = _notify if address.service is Service.APPRISE else _post
        destinations.append(Destination(address.name, _InTime(partial(deliver, address))))
    if settings.command:
        run = partial(_run, settings.command)
        destinations.append(Destination("the alert command", run, (), COMMAND_S))
    return destinations


_NO_ANSWER = "it does not answer in time"


class _InTime:
    """Abandons a try after its time limit, even one that blocks in a name lookup or a handshake.

    While an abandoned try still runs, no other is started.
    """

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._trying = threading.Thread()

    def __call__(self, payload: Message, timeout_s: float) -> str | None:
        if self._trying.is_alive():
            return _NO_ANSWER
        answers: list[str | None] = []
        self._trying = threading.Thread(
            target=lambda: answers.append(self._deliver(payload, timeout_s)), daemon=True
        )
        self._trying.start()
        self._trying.join(timeout_s)
        return answers[0] if answers else _NO_ANSWER


class SendQueue:
    """The messages that wait for one destination, and the thread that sends them."""

    def __init__(
        self, destination: Destination, failed: Callable[[str], None], every_s: float = EVERY_S
    ) -> None:
        self._destination = destination
        self._failed = failed
        self._every_s = every_s
        self._waiting: deque[Message] = deque()
        self._left_out = 0
        self._next_at = 0.0
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, message: Message) -> None:
        """Queue a message; beyond `MOST_WAITING`, the oldest are dropped and counted."""
        with self._changed:
            self._waiting.append(message)
            if len(self._waiting) > MOST_WAITING:
                self._waiting.popleft()
                self._left_out += 1
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Send the waiting messages at once, then end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    @property
    def is_done(self) -> bool:
        """True once the thread has ended, or if it never started."""
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                while (wait_s := self._wait_s()) is None or wait_s > 0:
                    self._changed.wait(wait_s)
                if not self._waiting:
                    return
                payload = payload_of(tuple(self._waiting), self._left_out)
                self._waiting.clear()
                self._left_out = 0
            self._next_at = time.monotonic() + self._every_s
            why = self._try(payload)
            if why is not None:
                self._failed(f"an alert could not be sent to {self._destination.name}: {why}")

    def _wait_s(self) -> float | None:
        """Return the seconds until something is to be sent; None if nothing waits."""
        if self._is_closed:
            return 0.0
        return max(0.0, self._next_at - time.monotonic()) if self._waiting else None

    def _try(self, payload: Message) -> str | None:
        """Send a message, trying again after each pause; return why it failed, if so."""
        why = None
        for pause_s in (0.0, *self._destination.pauses_s):
            with self._changed:
                # Closing the queue ends the pause.
                self._changed.wait_for(lambda: self._is_closed, pause_s)
            why = self._destination.deliver(payload, self._destination.answer_s)
            if why is None or why.startswith(LASTING):
                return why
        return f"{why} ({len(self._destination.pauses_s) + 1} tries)"


class Sender:
    """Sends messages to every destination in the settings.

    Args:
        settings: the destinations.
        failed: called from another thread, with a sentence, if a message could not be sent.
    """

    def __init__(self, settings: AlertSettings, failed: Callable[[str], None]) -> None:
        self._queues = [SendQueue(destination, failed) for destination in destinations_of(settings)]

    def put(self, message: Message) -> None:
        """Queue a message for every destination; doesn't block."""
        for queue in self._queues:
            queue.put(message)

    async def finish(self, hurry: asyncio.Event | None = None) -> bool:
        """Send all waiting messages within `CLOSE_S`, or until `hurry`; return whether all were."""
        for queue in self._queues:
            queue.close()
        end_at = time.monotonic() + CLOSE_S
        while not (is_done := all(queue.is_done for queue in self._queues)):
            if time.monotonic() >= end_at or (hurry is not None and hurry.is_set()):
                break
            await asyncio.sleep(_LOOK_S)
        return is_done


# ---- by HTTP ----

LASTING = "it refuses"
"""The beginning of a reason that makes another try useless."""
_TRIED_AGAIN = (408, 425, 429)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: messages go only to the configured address."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _post(address: Address, payload: Message, timeout_s: float) -> str | None:
    url, body, headers = request_of(address, payload)
    headers["User-Agent"] = "dlmon"
    try:
        request = urllib.request.Request(url, body, headers, method="POST")
        # The status is enough; the body is not read.
        with _OPENER.open(request, timeout=timeout_s):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        if 300 <= error.code < 400:
            return f"it redirects elsewhere (HTTP {error.code})"
        is_lasting = 400 <= error.code < 500 and error.code not in _TRIED_AGAIN
        return f"{LASTING} it (HTTP {error.code})" if is_lasting else f"HTTP {error.code}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return _reason(error)


def _reason(error: Exception) -> str:
    """Return why a request failed; the error's own text may contain the address."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return _NO_ANSWER
    if isinstance(cause, socket.gaierror):
        return "there is no host of that name"
    if isinstance(cause, ssl.SSLError):
        return "its certificate or TLS is not accepted"
    if isinstance(cause, OSError) and cause.errno is not None:
        return os.strerror(cause.errno).lower()
    return f"its answer is not understood ({type(cause).__name__})"


# ---- by apprise and by a command ----


def _notify(address: Address, payload: Message, timeout_s: float) -> str | None:
    try:
        import apprise
    except ImportError:
        return f"{LASTING} it: apprise is not installed"
    service = apprise.Apprise()
    if not service.add(address.text):
        return f"{LASTING} it: apprise does not know such an address"
    # A plugin waits for a connection, and then for an answer.
    for plugin in service:
        plugin.socket_connect_timeout = plugin.socket_read_timeout = timeout_s / 2
    sent = service.notify(title=title_of(payload), body=text_of(payload))
    return None if sent else "apprise could not send it"


# The shell prints the exit code: other code of this process may reap our children first.
_PRINT_EXIT_CODE = '"$@" >/dev/null 2>&1; echo $?'


def _run(command: Sequence[str], payload: Message, timeout_s: float) -> str | None:
    """Run a command with a message on its stdin, and kill it after `timeout_s`."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(json.dumps(payload).encode())
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _PRINT_EXIT_CODE, "sh", *command],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return f"it can't be started ({type(error).__name__})"
    assert process.stdout is not None
    with process.stdout as stdout:
        if not select.select([stdout], [], [], timeout_s)[0]:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"it did not end within {timeout_s:.0f} s"
        code = stdout.read(16).strip().decode("ascii", "replace")
    process.wait()
    return None if code == "0" else f"it ended with exit code {code or 'unknown'}"
