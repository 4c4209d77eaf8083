"""A terminal that changes its size, or has none, or from which anything comes: one can leave."""

import random
import time
from contextlib import ExitStack

import pytest
from fakes.recorded import recorded_session, write_log
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
