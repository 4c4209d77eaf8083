"""Start the process that serves metrics to Prometheus (`dlmon.exporter`), on a socket of ours.

The socket is bound here, so that a port that is in use is known before anything else starts.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import ipaddress
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dlmon.records.sanitize import quoted
from dlmon.system.children import die_with_parent, python_command
from dlmon.system.this_host import IS_MACOS

LOOPBACK = "127.0.0.1"
DEFAULT_ADDRESS = f"{LOOPBACK}:9817"


class ServeError(ValueError):
    """Metrics can't be served; the message is one sentence for a person."""


def address_of(text: str) -> tuple[str, int]:
    """Parse ADDRESS:PORT, or a PORT of loopback; nothing is port 9817 there.

    Raises:
        ServeError: it is neither.
    """
    host, _, port = (text.strip() or DEFAULT_ADDRESS).rpartition(":")
    host = LOOPBACK if host in ("", "localhost") else host.strip("[]")
    try:
        ipaddress.ip_address(host)
        number = int(port[:6]) if port.isascii() and port.isdecimal() else -1
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 16:
        raise ServeError(
            f"metrics are served at ADDRESS:PORT, as {DEFAULT_ADDRESS}, not {quoted(text)}"
        )
    return host, number


def listen(text: str) -> socket.socket:
    """Return a socket that listens at an address; a port of 0 is any free one.

    Raises:
        ServeError: the address is wrong or in use, or prometheus-client is not installed.
    """
    host, port = address_of(text)
    if find_spec("prometheus_client") is None:
        raise ServeError("metrics need prometheus-client: pip install 'dlmon[prometheus]'")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        if error.errno == errno.EADDRINUSE:
            reason = "another program uses the port; name another one"
        raise ServeError(f"metrics can't be served at {host}:{port}: {reason}") from None


@contextlib.contextmanager
def serving_beside(
    listening: socket.socket, directory: Path, interval_s: float, pcie: bool
) -> Iterator[None]:
    """Serve this machine and the sessions of a log directory meanwhile, in another process."""
    options = ["--interval", str(interval_s), *(["--pcie"] if pcie else [])]
    process = _start([listening], directory, options, preexec_fn=die_with_parent(os.getpid()))
    try:
        yield
    finally:
        process.kill()
        process.wait()


def serve_sessions(text: str, directory: Path) -> subprocess.Popen[bytes] | None:
    """Start a process that serves the sessions of a log directory until none runs.

    Return None if one serves them already.

    Raises:
        ServeError: they can't be served.
    """
    if IS_MACOS:
        raise ServeError("on a Mac, dlmon watch --serve serves the metrics of sessions")
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    with socket.socket(socket.AF_UNIX) as taken:
        try:
            # This name lasts until the last process that holds the socket ends.
            taken.bind(f"\0dlmon/metrics/{os.geteuid()}/{digest}")
        except OSError:
            return None
        with listen(text) as listening:
            return _start([listening, taken], directory, ["--until-idle"])


def _start(
    sockets: Sequence[socket.socket], directory: Path, options: Sequence[str], **more: Any
) -> subprocess.Popen[bytes]:
    """Start the process, which serves on the first of the sockets."""
    fds, nothing = [held.fileno() for held in sockets], subprocess.DEVNULL
    return subprocess.Popen(
        [*python_command("dlmon.exporter"), *options, str(fds[0]), str(directory)],
        **{"stdin": nothing, "stdout": nothing, "stderr": nothing, **more},
        pass_fds=fds,
        start_new_session=True,
    )
