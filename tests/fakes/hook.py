"""A server on loopback that takes alerts, or misbehaves as it is told."""

from __future__ import annotations

import http.server
import json
import threading
import time
from typing import Any

HANGS = "hangs"
TRICKLES = "trickles"
A_MEGABYTE = "a megabyte"
NO_HTTP = "no http"


class Hook:
    """Records what it is sent; `answers` says how each request is answered, the last for the rest.

    An answer is a status, `HANGS`, `TRICKLES`, `A_MEGABYTE` or `NO_HTTP`.
    """

    def __init__(self, *answers: int | str) -> None:
        self.answers = list(answers or (200,))
        self.bodies: list[Any] = []
        self.paths: list[str] = []
        self.times: list[float] = []
        self.released = threading.Event()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.times.append(time.monotonic())
                hook.paths.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.bodies.append(json.loads(body))
                hook.answer(self)

            def do_GET(self) -> None:
                hook.paths.append(f"GET {self.path}")
                self.send_error(404)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == HANGS:
            self.released.wait()
        elif answer == TRICKLES:
            while not self.released.wait(0.02):
                request.wfile.write(b"H")
        elif answer == NO_HTTP:
            request.wfile.write(b"\x00\xff" * 100 + b"\n")
        elif answer == A_MEGABYTE:
            request.send_response(200, "x" * 60_000)
            request.send_header("Content-Length", str(1 << 20))
            request.end_headers()
            request.wfile.write(b"x" * (1 << 20))
        else:
            assert isinstance(answer, int)
            request.send_response(answer, f"{self.url} is wrong")
            request.send_header("Location", f"{self.url}/elsewhere")
            request.end_headers()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/s3cret"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
