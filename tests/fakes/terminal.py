"""A command in a pseudo-terminal, and every byte that it wrote there."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
import time

from fakes.sessions import DEADLINE_S

FULL_SCREEN = b"\x1b[?1049h"
"""What a terminal is told before a screen is drawn."""


def _without_sizes(environment):
    """Leave out what pytest-xdist sets, and what Textual believes rather than the terminal."""
    sizes = ("COLUMNS", "LINES")
    return {name: value for name, value in environment.items() if name not in sizes}


class PseudoTerminal:
    """Runs a command as a terminal would; leaving the context ends it."""

    def __init__(self, command, environment=None, width=120, height=40, directory=None):
        self._master, slave = pty.openpty()
        self.resize(width, height)
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**_without_sizes(os.environ), "TERM": "xterm-256color", **(environment or {})},
            cwd=directory,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # EIO: the last process that had it is gone
                return
            if not data:
                return
            self.written += data

    def resize(self, width, height):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def leave(self):
        """Press q once all is painted, and wait for the end of what runs here."""
        self.wait_for(FULL_SCREEN)
        self.wait_until_quiet(0.2)
        self.press("q")
        assert self.process.wait(DEADLINE_S) == 0

    def press(self, keys):
        os.write(self._master, keys.encode())

    def wait_for(self, part):
        """Wait until these bytes have been written."""
        deadline = time.monotonic() + DEADLINE_S
        while part not in self.written:
            assert time.monotonic() < deadline, f"waited in vain for {part!r}"
            time.sleep(0.02)

    def wait_until_quiet(self, quiet_s):
        """Wait until nothing has been written for a while."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            before = len(self.written)
            time.sleep(quiet_s)
            if len(self.written) == before:
                return
            assert time.monotonic() < deadline, f"never quiet: {self.written[before:][:200]!r}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        os.close(self._master)
