"""Answer scrapers over HTTP, a few at a time, whatever they do."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable

MOST_CONNECTIONS = 16
ANSWER_S = 5.0
"""A scraper that has not sent its request and taken the answer by then is cut off."""
_CUT_OFF = (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


class Server:
    """Answers GET requests.

    Args:
        answer: returns a body and its content type, for the Accept header of a request.
    """

    def __init__(self, answer: Callable[[str], tuple[bytes, str]]) -> None:
        self._answer = answer
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the request of one connection."""
        # `drain` waits until the kernel has taken all.
        writer.transport.set_write_buffer_limits(0)
        self._connections += 1
        try:
            if self._connections <= MOST_CONNECTIONS:
                with contextlib.suppress(*_CUT_OFF):
                    await asyncio.wait_for(self._exchange(reader, writer), ANSWER_S)
        finally:
            self._connections -= 1
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, body, content_type = "405 Method Not Allowed", b"GET /metrics\n", "text/plain"
        if head.startswith("GET "):
            accepted = re.search(r"^accept:(.*)", head, re.IGNORECASE | re.MULTILINE)
            status, (body, content_type) = "200 OK", self._answer(accepted[1] if accepted else "")
        fields = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{fields}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
