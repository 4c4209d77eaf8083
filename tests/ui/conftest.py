"""Fixtures that put a screen before a test: a log that grows under it, a clock, no real sensors."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, closing
from functools import partial

import pytest
from fakes import quiet, style_sheets
from fakes.recorded import BEGIN_NS
from fakes.screens import (
    Clock,
    FakeSensors,
    FakeSupervisor,
    GrowingLog,
    Shown,
    dlmon_app_with,
    fake_machine,
)
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.app import App

import dlmon.session.follower
from dlmon.cli.start import Sources
from dlmon.log.directory import list_sessions
from dlmon.session.follower import SessionFollower
from dlmon.session.machine_history import MachineHistory
from dlmon.session.source import MachineSource
from tui.live.live_screen import LiveScreen
from tui.machine import machine
from tui.messages import TrainAgain
from tui.screens import chart_screen as charts
from tui.watch import processes_screen


@pytest.fixture(autouse=True)
def pilots_wait_for_the_screen(monkeypatch):
    quiet.install(monkeypatch)


@pytest.fixture(autouse=True)
def style_sheets_are_parsed_once(monkeypatch):
    style_sheets.install(monkeypatch)


class SilentMachine(MachineSource):
    """A machine without readings."""

    history = MachineHistory(1.0)


@pytest.fixture(autouse=True)
def no_process_of_this_machine_is_listed(monkeypatch):
    monkeypatch.setattr(processes_screen, "all_processes", SilentMachine)


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch, tmp_path):
    """Keep the last script and hidden panes of another test out of this one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def toasts_stay(monkeypatch):
    """Keep a toast for longer than a busy machine takes to look at it, and so a note."""
    monkeypatch.setattr(App, "NOTIFICATION_TIMEOUT", 600)
    for module in (machine, charts):
        monkeypatch.setattr(module, "ZOOM_NOTE_S", 600)


class TextFile(SingleFileSnapshotExtension):
    """A text file for each test."""

    _write_mode = WriteMode.TEXT
    _file_extension = "txt"


@pytest.fixture
def text_snapshot(snapshot):
    """The text of this test in `__snapshots__`."""
    return snapshot.use_extension(TextFile)


@pytest.fixture
def log_dir(tmp_path):
    return tmp_path / "sessions"


@pytest.fixture
def clock():
    return Clock(BEGIN_NS)


@pytest.fixture
def growing_log(log_dir):
    """Return a function that begins a log, locked as if its supervisor ran."""
    logs = []

    def begin(records):
        logs.append(GrowingLog(log_dir, records))
        return logs[-1]

    yield begin
    for log in logs:
        log.drop_lock()


class ShownSession(Shown):
    """A live screen with what stands around it."""

    def __init__(self, log, follower, supervisor, repeatable):
        super().__init__(LiveScreen(follower, repeatable))
        self.log = log
        self.supervisor = supervisor
        self.follower = follower

    async def begin(self):
        """Read the log, and once more: an end without a result shows when nothing new was read."""
        await self.pilot.pause()
        self.screen.show_entries(list_sessions(self.log.path.parent.parent))
        await self.tick()
        await self.tick()
        await self.settle()

    async def settle(self):
        """Let all that follows from a change be drawn: rows get their places first."""
        before, text = None, self.text
        while text != before:
            before = text
            self.screen.paint()
            await self.pilot.pause()
            text = self.text

    async def tick(self):
        self.screen.tick()
        await self.pilot.pause()
        while self.follower.read_share is not None:
            # Slower machines need more than a slice for a log.
            await self.pilot.pause(0.01)
            self.screen.tick()
            await self.pilot.pause()

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def resize(self, width, height):
        await self.pilot.resize_terminal(width, height)
        await self.settle()

    @property
    def left(self):
        """What the screen asked of its app: to be left, after a stop or not, or to run again."""
        return [
            "again" if isinstance(message, TrainAgain) else message.screen.stop_requested
            for message in self.app.asked
        ]


@pytest.fixture
def show_session(growing_log, clock):
    """Return a context in which the live screen shows a log of these records."""

    @asynccontextmanager
    async def show(records, *, size=(120, 40), ours=True, repeatable=False, follow=SessionFollower):
        log, supervisor = growing_log(records), FakeSupervisor() if ours else None
        with closing(follow(log.path, clock, supervisor)) as follower:
            shown = ShownSession(log, follower, supervisor, repeatable)
            async with shown.on(size):
                yield shown

    return show


@pytest.fixture
def sensing(monkeypatch):
    """Return all sensors that started, those that a test speaks for."""
    monkeypatch.setattr(FakeSensors, "started", [])
    return FakeSensors.started


@pytest.fixture
def dlmon_app(clock, sensing):
    """Return what makes the app, with sensors that a test speaks for."""
    return dlmon_app_with(Sources(machine=partial(fake_machine, clock=clock)))


class SlowFollower(SessionFollower):
    """Reads a log by one record at a time, and each after the first one only when that is said."""

    turns = asyncio.Semaphore(0)
    is_slow = True

    def poll(self, max_s=None):
        return super().poll(0 if self.is_slow else max_s)

    async def pause(self):
        if self.is_slow:
            await self.turns.acquire()
        await super().pause()


class SlowReading:
    """Says when a slow viewer reads on."""

    def __init__(self, follower):
        self.follower = follower
        self.sources = Sources(follow=follower, machine=fake_machine)

    def begin(self):
        self.follower.turns, self.follower.is_slow = asyncio.Semaphore(0), True

    def go_on(self):
        self.follower.turns.release()

    def finish(self):
        """Read all that is left, and from now on as ever."""
        self.follower.is_slow = False
        self.follower.turns.release()


@pytest.fixture
def slow_reading(monkeypatch):
    monkeypatch.setattr(dlmon.session.follower, "AT_ONCE", 1)

    class OwnViewer(SlowFollower):
        """With turns of this test's own."""

    reading = SlowReading(OwnViewer)
    reading.begin()
    return reading
