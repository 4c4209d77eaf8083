"""Pictures of the screens, as somebody looked at them and found them right.

After a change that is meant to show, look at `snapshot_report.html`, then accept
it with `pytest tests/ui/test_snapshots.py --snapshot-update`.
"""

import sys

import pytest
from fakes.recorded import BEGIN_WALL, recorded_session, write_log
from fakes.screens import OneScreen, of_this_boot

from dlmon.records import Facts, Machine
from dlmon.sessions import list_sessions
from tui.screens.home import HomeScreen
from tui.screens.watch import WatchScreen
from tui.widgets.machine_panel import MachinePanel

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11),
    reason="the pictures were taken on Python 3.11; another one may draw the same in other words",
)
both_sizes = pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])

LIVE = {
    "compiling": recorded_session("compiling"),
    "training": recorded_session("training"),
    "completed": recorded_session(),
    "failed": recorded_session(status="failed"),
    "interrupted": of_this_boot(recorded_session("training")),
    "two-gpus": recorded_session("training", gpus=2),
    "no-gpu": recorded_session("training", gpus=0),
}


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch, utc):
    """Keep what a machine or a person has set out of the pictures."""
    for name in ("NO_COLOR", "COLORTERM", "TERM"):
        monkeypatch.delenv(name, raising=False)


@both_sizes
@pytest.mark.parametrize("state", list(LIVE))
def test_live_screen(session_screen, log_dir, snap_compare, state, size):
    if state == "training":
        yesterday = recorded_session(session_id="yesterday", begin_wall=BEGIN_WALL - 86_400)
        write_log(log_dir, yesterday)
    shown = session_screen(LIVE[state], running=state != "interrupted")
    assert snap_compare(shown.app, terminal_size=size, run_before=shown.begin)


@both_sizes
@pytest.mark.parametrize("screen", ["home", "watch"])
def test_machine_screens(sensing, clock, log_dir, snap_compare, screen, size):
    write_log(log_dir, of_this_boot(recorded_session()))
    entries = list_sessions(log_dir)
    app = OneScreen(
        HomeScreen(entries, lambda workload: None)
        if screen == "home"
        else WatchScreen(lambda: None)
    )

    async def speak(pilot):
        await pilot.pause()
        header, *records = recorded_session(gpus=2)
        samples = [record for record in records if isinstance(record, Machine)]
        sensing[0].say(Facts(header.t, header.wall, header.host, header.machine), *samples)
        clock.now_ns = samples[-1].t
        for _ in range(2):
            # Rows for cores and GPUs take their places, then are drawn in them.
            app.screen.query_one(MachinePanel).paint()
            await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=speak)


def test_question(session_screen, snap_compare):
    shown = session_screen(LIVE["training"])
    assert snap_compare(shown.app, press=["q"], terminal_size=(80, 24), run_before=shown.begin)
