"""A terminal that changes its size, or has none, or from which anything comes: one can leave."""

import random
import time
from contextlib import ExitStack, suppress

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.sessions import DEADLINE_S
from fakes.terminal import FULL_SCREEN, PseudoTerminal

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


KEYS = ("\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[6~", "\x1bOP", "\r", "\t", "\x7f", "\x10", "\x1b", " ")
# None of it starts anything: what is played is a recording.
LETTERS = "abcdefghijlmnoprstuvwxyz0123456789+-.,:/?<>"


def test_whatever_comes_from_a_terminal_q_leaves(terminal):
    draw, one = random.Random(1), terminal("replay", 120, 40)
    one.wait_for(FULL_SCREEN)
    for _ in range(60):
        for _ in range(draw.randint(1, 6)):
            x, y = draw.randint(1, 200), draw.randint(1, 60)
            button = draw.choice((0, 0, 2, 64, 65))
            mouse = f"\x1b[<{button};{x};{y}M\x1b[<{button};{x};{y}m"
            one.press(draw.choice((draw.choice(KEYS), draw.choice(LETTERS), mouse)))
        if draw.random() < 0.2:
            one.resize(draw.randint(60, 200), draw.randint(16, 60))
        time.sleep(0.02)
    for _ in range(100):
        if one.process.poll() is not None:
            break
        with suppress(OSError):
            one.press("q")
            time.sleep(0.1)
            one.press("\x1b")
            time.sleep(0.2)
    assert one.process.wait(DEADLINE_S) == 0
