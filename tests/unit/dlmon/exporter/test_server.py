"""Scrapers of every kind: one that leaves, one that never reads, one that sends garbage, many."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from dlmon.exporter import server
from dlmon.exporter.server import MOST_CONNECTIONS, Server

BODY = b"x" * (8 << 20)
"""More than the buffers of a socket hold."""


@asynccontextmanager
async def serving(body=b"metrics"):
    """Yield the port of a server, and a list of what was accepted in each request."""
    accepted = []

    def answer(accept):
        accepted.append(accept.strip())
        return body, "text/plain"

    listening = await asyncio.start_server(Server(answer).serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1], accepted
    finally:
        listening.close()


async def answer_to(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_a_get_is_answered_in_the_format_that_it_accepts():
    async with serving() as (port, accepted):
        head, _, body = (
            await answer_to(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\naccept: a/b\r\n\r\n")
        ).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 7" in head
    assert (body, accepted) == (b"metrics", ["a/b"])


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"POST / HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 "),
        (b"\x00\xff\x1b[31m\r\n\r\n", b"HTTP/1.1 405 "),
        (b"GET /" + b"x" * (1 << 20), b""),
        (b"GET / HTT", b""),
    ],
    ids=["post", "garbage", "endless", "cut"],
)
async def test_what_is_no_get_gets_no_metrics(monkeypatch, request_head, status):
    monkeypatch.setattr(server, "ANSWER_S", 0.2)
    async with serving() as (port, accepted):
        assert (await answer_to(port, request_head)).startswith(status)
        assert accepted == []
        assert b"metrics" in await answer_to(port, b"GET / HTTP/1.1\r\n\r\n")


async def test_one_that_never_reads_is_cut_off_and_one_that_leaves_is_let_go(monkeypatch):
    monkeypatch.setattr(server, "ANSWER_S", 0.2)
    async with serving(BODY) as (port, accepted):
        silent = []
        for leaves in [False, True] * 4:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            writer.transport.pause_reading()
            if leaves:
                writer.transport.abort()
            silent.append(writer)
        assert (await answer_to(port, b"GET / HTTP/1.1\r\n\r\n")).endswith(BODY)
        assert len(accepted) >= 5
        for writer in silent:
            writer.transport.abort()


async def test_more_than_a_few_at_once_are_turned_away_until_there_is_room(monkeypatch):
    monkeypatch.setattr(server, "ANSWER_S", 0.3)
    async with serving() as (port, _):
        waiting = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS)
        ]
        assert await answer_to(port, b"GET / HTTP/1.1\r\n\r\n") == b""
        # They are cut off, as they ask for nothing.
        assert [await reader.read() for reader, _ in waiting] == [b""] * MOST_CONNECTIONS
        assert b"metrics" in await answer_to(port, b"GET / HTTP/1.1\r\n\r\n")
        for _, writer in waiting:
            writer.close()
