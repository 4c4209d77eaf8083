"""A headless Chromium that is driven over a pipe, where one is installed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_DEADLINE_S = 30.0
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page of Chromium: what it asked for, what it complained about, and what is drawn."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._write, self._read = to_browser, from_browser
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[Any] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Ask for something of the DevTools protocol, and return the answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
        raise TimeoutError(method)

    def open(self, path: Path, width: int, scheme: str = "light") -> None:
        """Open a file in a window of that width."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.requests.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.until(lambda: self.value("document.readyState") == "complete")

    def value(self, expression: str) -> Any:
        """Return the value of an expression on the page."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds on the page."""
        deadline = time.monotonic() + _DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Move the mouse, or press or release its left button."""
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button, **more)

    def _next(self) -> Any:
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 16)
            assert chunk, "the browser has ended"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, parameters: Any) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(parameters)
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(parameters)


@contextlib.contextmanager
def browser_in(folder: Path) -> Iterator[Browser]:
    """Start a browser that keeps what it keeps in a folder, and end it."""
    assert CHROMIUM is not None
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()

    # The protocol's descriptors are 3 and 4.
    command = f'exec "$0" "$@" 3<&{their_in} 4>&{their_out}'
    process = subprocess.Popen(
        ["bash", "-c", command, CHROMIUM, *_OPTIONS, f"--user-data-dir={folder}"],
        pass_fds=(their_in, their_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(their_in)
    os.close(their_out)
    try:
        browser = Browser(our_out, our_in)
        yield browser
        browser._session = None
        with contextlib.suppress(AssertionError, OSError):
            browser.call("Browser.close")
    finally:
        os.close(our_out)
        os.close(our_in)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
