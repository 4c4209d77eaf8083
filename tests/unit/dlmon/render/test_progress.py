"""The bar that says how much of the logs is read."""

import io
import sys

import pytest

from dlmon.render import progress
from dlmon.render.progress import reading_progress


class Screen(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self):
        return True


@pytest.fixture
def stderr(monkeypatch):
    """Return what puts a stream in place of stderr."""

    def put(stream):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm-256color")
        return stream

    return put


def read(shares=(0.1, 0.43, 1.0)):
    with reading_progress() as on_read:
        for share in shares:
            on_read(share)


def test_a_terminal_shows_how_much_is_read_where_that_takes_a_while(stderr, monkeypatch):
    monkeypatch.setattr(progress, "SHOWN_AFTER_S", 0)
    screen = stderr(Screen())
    read()
    assert "reading" in screen.getvalue()
    assert "10%" in screen.getvalue()


def test_a_short_reading_shows_nothing(stderr):
    screen = stderr(Screen())
    read()
    assert "reading" not in screen.getvalue()


def test_nothing_but_a_terminal_is_written_to(stderr, monkeypatch):
    monkeypatch.setattr(progress, "SHOWN_AFTER_S", 0)
    pipe = stderr(io.StringIO())
    read()
    assert pipe.getvalue() == ""
