"""Pictures of the screens in colour, as somebody looked at them and found them right.

After a change that is meant to show, look at `snapshot_report.html`, then accept
it with `pytest tests/ui/test_snapshots.py --snapshot-update`. Every other state is
kept as text: see `test_states.py`.
"""

import sys

import pytest
from fakes.states import STATES, staged

from tui.drawing.themes import DARK, LIGHT

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11),
    reason="the pictures were taken on Python 3.11; another one may draw the same in other words",
)


@pytest.fixture
def looks_right(snap_compare):
    """Return a function that compares a state on a screen with its picture."""

    def compare(view, state, theme):
        with staged(STATES[state], view, theme=theme) as stage:
            return snap_compare(stage.app, terminal_size=(120, 40), run_before=stage.begin)

    return compare


@pytest.mark.parametrize(
    ("view", "state", "theme"),
    [
        *((view, "training", DARK) for view in ("live", "quit", "help", "palette")),
        *((view, "training", DARK) for view in ("compare", "replay", "home", "watch", "gpus")),
        ("metrics", "training", DARK),
        *(("live", "failed-with-traceback", DARK), ("live", "earlier-runs", DARK)),
        ("marked", "earlier-runs", DARK),
        *(("processes", "2-gpus-in-depth", DARK), ("stacks", "stalled-and-over", DARK)),
        *((view, "earlier-runs", LIGHT) for view in ("live", "home")),
    ],
    ids=lambda value: value,
)
def test_a_screen(looks_right, view, state, theme):
    assert looks_right(view, state, theme)
