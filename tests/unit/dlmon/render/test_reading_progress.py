"""The bar that says how much of the logs is read."""

import io
import sys

import pytest

from dlmon.render import reading_progress as progress
from dlmon.render.reading_progress import reading_progress


class Screen(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("screen", "after_s", "is_shown"),
    [(Screen(), 0, True), (Screen(), 60, False), (io.StringIO(), 0, False)],
    ids=["a while", "a short reading", "no terminal"],
)
def test_a_terminal_shows_how_much_is_read_where_that_takes_a_while(
    monkeypatch, screen, after_s, is_shown
):
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(progress, "SHOWN_AFTER_S", after_s)
    with reading_progress() as on_read:
        for share in (0.1, 0.43, 1.0):
            on_read(share)
    assert ("reading" in screen.getvalue()) is ("10%" in screen.getvalue()) is is_shown
