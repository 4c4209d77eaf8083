"""The machine in depth and its processes, over the live screen, the home screen and the watch."""

import signal
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session
from fakes.states import State, on_stage
from textual.widgets import Input

from dlmon.records import Machine, Process
from dlmon.system.foreign_processes import NoSignal
from tui.home.home_screen import HomeScreen
from tui.live.live_screen import LiveScreen
from tui.machine.machine import MachinePanel
from tui.machine.process_list import ProcessDetails, ProcessList
from tui.screens.help import HelpScreen
from tui.watch.detail_screens import GpusScreen, ProcessesScreen, SignalScreen
from tui.watch.watch_screen import WatchScreen

NARROW, WIDE = (80, 24), (120, 40)


def shown(state, view="processes", size=NARROW):
    """Show a state; the stage holds what is seen."""
    return on_stage(state, view, size)


def rows(stage, selector):
    widget = stage.app.screen.query_one(selector)
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


def heading(stage):
    return rows(stage, ProcessList)[0]


def pids(stage):
    """Return the pids in sight, from the top."""
    found = [row[1:].lstrip(" ▸●>*").split(" ")[0] for row in rows(stage, ProcessList)[1:]]
    return [int(pid) for pid in found if pid.isdecimal()]


def chosen(stage):
    process = stage.app.screen.query_one(ProcessList).highlighted
    return process and process.pid


def footer(stage):
    return stage.text.splitlines()[-1].strip()


async def report(stage, *processes):
    """Let the session's sensors report these processes, a second later."""
    stage.app.screen_stack[0]._source.session.add(
        Machine(stage._clock.now_ns + 1, 0.0, processes=processes)
    )
    await stage.settle()


# ---- ways in, and out ----


@pytest.mark.parametrize(
    ("view", "keys", "below"),
    [
        ("live", ("g", "p"), LiveScreen),
        ("watch", ("g", "f5"), WatchScreen),
        ("home", ("f4", "f5"), HomeScreen),
    ],
)
async def test_every_screen_with_a_machine_leads_to_it_and_back(view, keys, below):
    async with shown("in-depth", view) as stage:
        for key, screen in zip(keys, (GpusScreen, ProcessesScreen), strict=True):
            await stage.press(key)
            assert type(stage.app.screen) is screen
            assert ("0000:41:00.0" if screen is GpusScreen else "4242") in stage.text
            assert " q Back " in footer(stage)
            await stage.press("escape")
            assert type(stage.app.screen) is below


async def test_one_leads_to_the_other_and_the_same_key_leaves():
    async with shown("in-depth", "gpus") as stage:
        depth = len(stage.app.screen_stack)
        await stage.press("p")
        assert type(stage.app.screen) is ProcessesScreen
        await stage.press("g")
        assert type(stage.app.screen) is GpusScreen
        assert len(stage.app.screen_stack) == depth
        await stage.press("g")
        assert type(stage.app.screen) is LiveScreen


# ---- every GPU in depth ----


async def test_a_tick_without_news_draws_nothing():
    async with shown("in-depth", "processes") as stage:
        screen = stage.app.screen
        painted = []
        screen.paint_machine = painted.append
        screen.tick()
        assert painted == []
        stage._clock.advance(12.0)
        screen.tick()
        assert [view.stale for view in painted] == ["stale 12 s"]


async def test_the_panel_below_paints_nothing_until_it_is_seen_again():
    async with shown("in-depth", "watch") as stage:
        panel, sensors = stage.app.screen.query_one(MachinePanel), stage.sensors
        paint, painted = panel.paint, []
        panel.paint = lambda: painted.append(True) or paint()
        await stage.pilot.press("f4")
        await stage.pilot.pause()
        painted.clear()
        panel._on_timer()
        assert painted == []
        assert stage.sensors is sensors
        await stage.pilot.press("escape")
        await stage.pilot.pause()
        assert type(stage.app.screen) is WatchScreen
        assert painted
        assert stage.sensors is sensors


# ---- the processes ----


async def test_it_is_sorted_by_what_is_held_on_gpus_at_first():
    async with shown("2-gpus-in-depth") as stage:
        assert "▼GPU mem" in heading(stage)
        assert pids(stage)[:3] == [4_242, 5_001, 981]
    async with shown("no-gpu-in-depth") as stage:
        assert "▼CPU %" in heading(stage)
        assert "GPU" not in heading(stage)
        assert pids(stage)[:3] == [4_242, 7_311, 4_250]


async def test_what_is_chosen_stays_chosen_when_the_order_changes_and_is_shown_whole():
    async with shown("in-depth") as stage:
        assert chosen(stage) is None
        await stage.press("down", "down", "down")
        assert chosen(stage) == 7_311
        await stage.press("i")
        assert chosen(stage) == 7_311
        pointed = [row for row in rows(stage, ProcessList) if "▸" in row]
        assert len(pointed) == 1
        assert "tar c /home" in pointed[0]
        assert rows(stage, ProcessDetails)[0].strip() == "tar c /home"
        await report(stage, Process(5, command="new", cpu_pct=900.0), Process(7_311, command="tar"))
        assert chosen(stage) == 7_311
        await report(stage, Process(5, command="new", cpu_pct=900.0))
        assert chosen(stage) is None
        assert "choose a process" in rows(stage, ProcessDetails)[0]


async def test_what_is_typed_filters_and_the_footer_offers_what_works_then():
    async with shown("in-depth") as stage:
        usual = footer(stage)
        await stage.press("slash")
        assert footer(stage).split() == ["⏎", "Keep", "esc", "Clear", "f1", "Help"]
        # Letters that are commands are letters here; the arrows still choose.
        await stage.press(*"/?qsigpt")
        assert stage.app.screen.query_one(Input).value == "/?qsigpt"
        assert "No listed process matches that." in stage.text
        await stage.press("f1")
        assert isinstance(stage.app.screen, HelpScreen)
        await stage.press("escape", "escape")
        assert footer(stage) == usual
        await stage.press("slash", *"root")
        assert set(pids(stage)) == {7_311, 1}
        assert "2 of 6" in stage.text
        await stage.press("down")
        assert chosen(stage) == 7_311
        await stage.press("enter", "i")
        assert set(pids(stage)) == {7_311, 1}


async def test_why_there_are_no_processes_is_said():
    records = recorded_session("training")
    hidden = [
        replace(record, why={"processes": "denied: /proc is hidden"})
        if isinstance(record, Machine)
        else record
        for record in records
    ]
    for state, said in (
        ("training", "None yet: processes are read every 5 s."),
        ("completed", "No processes were recorded."),
        (State(hidden), "denied: /proc is hidden"),
    ):
        async with shown(state) as stage:
            assert said in stage.text


# ---- a signal ----


class Found:
    """A process that a test has found; it notes what it is sent."""

    def __init__(self, pid, started):
        self.pid, self.sent = pid, []

    def send(self, number):
        self.sent.append(number)


def with_found(stage, find):
    stage.app.screen._find = find


async def test_the_chosen_process_gets_the_signal_that_is_answered():
    found = []
    async with shown("in-depth") as stage:
        with_found(stage, lambda *which: found.append(Found(*which)) or found[-1])
        await stage.press("down")
        for key, sent in (
            ("e", signal.SIGTERM),
            ("i", signal.SIGINT),
            ("k", signal.SIGKILL),
            ("escape", None),
        ):
            await stage.press("K")
            assert isinstance(stage.app.screen, SignalScreen)
            assert "Send a signal to process 4242 of ada, a part of this run?" in stage.text
            assert found[-1].sent == []
            await stage.press(key)
            assert isinstance(stage.app.screen, ProcessesScreen)
            assert (found[-1].pid, found[-1].sent) == (4_242, [sent] if sent else [])


async def test_why_a_process_gets_no_signal_is_said_and_nothing_is_asked():
    def refused(pid, started):
        raise NoSignal(f"process {pid} belongs to another user")

    async with shown("in-depth", size=WIDE) as stage:
        with_found(stage, refused)
        await stage.press("K")
        assert "Signal" not in footer(stage)
        await stage.press("down")
        assert "K Signal" in footer(stage)
        await stage.press("K")
        assert isinstance(stage.app.screen, ProcessesScreen)
        (said,) = stage.app._notifications
        assert said.message == "process 4242 belongs to another user"


async def test_no_signal_is_offered_to_what_another_machine_has_or_a_session_had():
    async with shown("over-in-depth", size=WIDE) as stage:
        await stage.press("down", "K")
        assert isinstance(stage.app.screen, ProcessesScreen)
        assert "Signal" not in footer(stage)
