"""Every byte that reaches the terminal: none too many, and the ones that were asked for."""

from __future__ import annotations

import re
import signal

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.sessions import DEADLINE_S
from fakes.terminal import PseudoTerminal

LEAVES_ALTERNATE_SCREEN = b"\x1b[?1049l"
SHOWS_CURSOR = b"\x1b[?25h"


@pytest.fixture
def attach(dlmon_command, log_dir):
    """Return a function that shows a finished session in a terminal of its own."""
    write_log(log_dir, recorded_session())

    def show(*options, environment=None):
        command = [dlmon_command, "attach", "last", "--log-dir", log_dir, *options]
        return PseudoTerminal(command, environment)

    return show


def test_a_session_that_is_over_writes_nothing_while_nothing_changes(attach):
    with attach() as terminal:
        terminal.wait_for(b"completed")
        # Longer than any timer of the screen.
        terminal.wait_until_quiet(3.0)


def test_without_colour_no_colour_is_written(attach):
    with attach(environment={"NO_COLOR": "1"}) as terminal:
        terminal.wait_for(b"completed")
        terminal.wait_until_quiet(0.5)
        codes = re.findall(rb"\x1b\[([0-9;]*)m", terminal.written)
        numbers = {number for code in codes for number in code.split(b";")}
        # 38 and 48 begin a colour of one's own; 30 to 37 and 40 to 47 are the first eight.
        coloured = {n for n in numbers if re.fullmatch(rb"[34][0-8]|9[0-7]|10[0-7]", n)}
        assert coloured == set()


@pytest.mark.parametrize(
    "environment", [{"TERM": "linux"}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}]
)
def test_a_terminal_that_can_show_no_other_gets_ascii_by_itself(attach, environment):
    with attach(environment=environment) as terminal:
        terminal.wait_for(b"completed")
        terminal.wait_until_quiet(0.5)
        assert terminal.written.isascii()
        # A glyph that is left out rather than drawn with another.
        assert b"??" not in terminal.written


def test_an_end_by_signal_leaves_a_terminal_that_can_be_used(attach):
    with attach() as terminal:
        terminal.wait_for(b"completed")
        terminal.process.send_signal(signal.SIGTERM)
        terminal.process.wait(DEADLINE_S)
        terminal.wait_for(LEAVES_ALTERNATE_SCREEN)
        terminal.wait_for(SHOWS_CURSOR)
