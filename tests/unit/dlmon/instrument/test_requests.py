"""Requests of the supervisor, and what else may arrive where they do."""

import json
import time

import pytest

from dlmon.instrument.requests import LONGEST_BYTES, VERSION, RefusedRequest, Requests
from dlmon.records import Notice


class Asking:
    """What arrives at a process, and what it answers."""

    def __init__(self, **handlers):
        self.arrived: list[bytes] = []
        self.sent = []
        self.requests = Requests(handlers, self.read, self.sent.append)

    def read(self, size):
        if not self.arrived:
            raise BlockingIOError
        return self.arrived.pop(0)

    def ask(self, *parts):
        self.arrived += parts
        return [self.requests.take() for _ in parts][-1]


def line(ask="stack", number=7, version=VERSION, **fields):
    return json.dumps({"v": version, "id": number, "ask": ask, **fields}).encode() + b"\n"


def test_a_request_is_answered_by_its_handler_with_its_fields_once_it_is_whole():
    asking = Asking(profile=lambda number, request: Notice(number, f"{request['steps']} steps"))
    assert asking.ask(line("profile", steps=5)[:9])
    assert asking.sent == []
    assert asking.ask(line("profile", steps=5)[9:])
    assert asking.sent == [Notice(7, "5 steps")]
    # What is unknown or newer is refused with a sentence.
    asking.ask(line("dance"), line("profile", version=VERSION + 1))
    assert [answer.request for answer in asking.sent[1:]] == [7, 7]
    assert all("does not know" in answer.refused for answer in asking.sent[1:])


def test_one_that_nobody_waits_for_any_more_is_not_followed():
    asking = Asking(profile=lambda number, request: Notice(number, "profiled"))
    now = time.monotonic_ns()
    asking.ask(line("profile", 7, until=now), line("profile", 8, until=now + 60 * 10**9))
    assert [answer.t for answer in asking.sent] == [8]


def test_a_handler_that_refuses_or_fails_ends_nothing():
    def refuse(number, request):
        raise RefusedRequest("a profile is being made")

    def fail(number, request):
        raise KeyError("x" * 1000)

    asking = Asking(profile=refuse, stack=fail)
    assert asking.ask(line("profile"), line("stack"))
    refused, failed = [answer.refused for answer in asking.sent]
    assert refused == "a profile is being made"
    assert failed.startswith("KeyError: ")
    assert len(failed) <= 300


@pytest.mark.parametrize(
    "hostile",
    [
        b"\n",
        b"\xff\xfe{}\n",
        b"[" * 3000 + b"\n",
        b"[1, 2]\n",
        b'{"v": 1}\n',
        line(number="7"),
        line(number=True),
        line(number=-1),
        line(number=10**30),
        line(ask=["stop"]),
    ],
)
def test_what_is_no_request_is_not_answered_and_the_next_one_is(hostile):
    asking = Asking(stop=lambda number, request: None)
    assert asking.ask(hostile, line("stop"))
    assert [answer.request for answer in asking.sent] == [7]


def test_who_sends_a_line_without_an_end_is_not_heard_any_more():
    asking = Asking()
    assert not asking.ask(b"x" * LONGEST_BYTES, b"x" * LONGEST_BYTES)


def test_the_end_of_the_connection_and_a_pipe_that_can_not_be_read_end_the_reading():
    assert not Asking().ask(b"")

    def refuse(size):
        raise OSError(9, "Bad file descriptor")

    assert not Requests({}, refuse, print).take()
