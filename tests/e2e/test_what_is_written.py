"""Every byte that reaches a terminal: none too many, the ones that were asked for; its sizes."""

from __future__ import annotations

import random
import re
import signal
import time
from contextlib import ExitStack

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.sessions import DEADLINE_S
from fakes.terminal import FULL_SCREEN, PseudoTerminal

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


# ---- sizes that change, or are none: one can leave ----

START_S, SIZES = 1.2, 6
NONE = (0, 0)


@pytest.fixture
def terminal(dlmon_command, tmp_path):
    """Return a function that starts dlmon in a terminal; all of them are ended."""
    log = write_log(tmp_path / "sessions", recorded_session("training", gpus=2))
    commands = {"home": [], "watch": ["watch"], "replay": ["replay", log]}
    with ExitStack() as stack:

        def start(screen, width, height):
            command = [dlmon_command, *commands[screen]]
            # What saves a report or a picture is among the keys: it lies where dlmon runs.
            return stack.enter_context(PseudoTerminal(command, {}, width, height, tmp_path))

        yield start


def test_each_screen_can_be_left_whatever_sizes_came_while_it_started(terminal):
    draw = random.Random(1)
    terminals = [terminal(screen, 120, 40) for screen in ("home", "watch", "replay")]
    for one in terminals:
        one.wait_for(FULL_SCREEN)
    for _ in range(SIZES):
        for one in terminals:
            one.resize(draw.randint(60, 200), draw.randint(16, 60))
        time.sleep(draw.uniform(0, 2 * START_S / SIZES))
    for one in terminals:
        one.leave()


def test_a_screen_can_be_left_where_the_terminal_has_no_size_yet(terminal):
    terminals = [terminal(screen, *NONE) for screen in ("home", "watch", "replay")]
    for one in terminals:
        one.wait_for(FULL_SCREEN)
    for one in terminals:
        one.leave()
