"""Pictures of the screens in colour, as somebody looked at them and found them right.

After a change that is meant to show, look at `snapshot_report.html`, then accept
it with `pytest tests/ui/test_snapshots.py --snapshot-update`. Every other state is
kept as text: see `test_states.py`.
"""

import sys

import pytest
from fakes.states import NAMED_SESSIONS, STATES, VIEWS, staged

from tui.drawing.themes import DARK, LIGHT

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11),
    reason="the pictures were taken on Python 3.11; another one may draw the same in other words",
)


@pytest.fixture
def looks_right(snap_compare):
    """Return a function that compares a state on a screen with its picture."""

    def compare(view, state, size=(120, 40), **settings):
        with staged(STATES[state], view, **settings) as stage:
            return snap_compare(stage.app, terminal_size=size, run_before=stage.begin)

    return compare


# A page of help has the colours of any other one.
@pytest.mark.parametrize("view", [view for view in VIEWS if not view.endswith("-help")])
def test_every_screen(looks_right, view):
    assert looks_right(view, "training", theme=DARK)


@pytest.mark.parametrize("view", ["live", "home", "sessions", "quit", "gpus", "compare"])
def test_the_light_theme(looks_right, view):
    assert looks_right(view, "earlier-runs", theme=LIGHT)


@pytest.mark.parametrize(
    "state", ["compiling", "completed", "failed", "earlier-runs", "8-gpus", "no-gpu", "lost-gpu"]
)
def test_the_live_screen(looks_right, state):
    assert looks_right("live", state, theme=DARK)


@pytest.mark.parametrize("view", ["gpus", "processes"])
def test_the_machine_in_depth(looks_right, view):
    assert looks_right(view, "2-gpus-in-depth", theme=DARK)


@pytest.mark.parametrize("view", NAMED_SESSIONS)
def test_what_is_done_with_sessions(looks_right, view):
    assert looks_right(view, "earlier-runs", theme=DARK)


@pytest.mark.parametrize("view", ["live", "home", "quit"])
def test_a_small_terminal(looks_right, view):
    assert looks_right(view, "training", size=(80, 24), theme=DARK)


@pytest.mark.parametrize("view", ["live", "quit"])
def test_a_terminal_that_is_too_small(looks_right, view):
    assert looks_right(view, "training", size=(50, 12), theme=DARK)
