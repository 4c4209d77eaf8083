"""The screen of a machine that is recorded: fed from its log, stopped and left like any session."""

from contextlib import asynccontextmanager, closing
from dataclasses import replace

import pytest
from fakes.recorded import recorded_machine
from fakes.screens import FakeSupervisor, Shown, of_this_boot, until

from dlmon.records import Notice
from dlmon.session.follower import SessionFollower
from tui.machine.machine import MachinePanel
from tui.messages import GoBack
from tui.watch.detail_screens import GpusScreen
from tui.watch.recording import RecordingScreen

pytestmark = pytest.mark.usefixtures("utc")

SECOND = 1_000_000_000


class ShownRecording(Shown):
    """The screen of a recording, and the log under it."""

    def __init__(self, log, follower, supervisor):
        self.log, self.follower, self.supervisor = log, follower, supervisor
        super().__init__(RecordingScreen(follower, log.path.parent))

    async def begin(self):
        await until(self.pilot, lambda: self.screen._panel is not None)
        await self.tick()

    async def tick(self):
        """Read all that is new, and on: an end without a result shows when nothing new was read."""
        turns = 0
        while turns < 3 or self.follower.read_share is not None:
            self.screen.query_one(MachinePanel).paint()
            self.screen.tick()
            await self.pilot.pause()
            turns += 1

    @property
    def left(self):
        return [isinstance(message, GoBack) for message in self.app.asked]


@pytest.fixture
def recording(growing_log, clock):
    """Return a context in which the screen shows these records, and the log under it."""

    @asynccontextmanager
    async def show(records, *, ours=True):
        records = of_this_boot(records)
        clock.now_ns = records[-1].t
        log, supervisor = growing_log(records), FakeSupervisor() if ours else None
        with closing(SessionFollower(log.path, clock, supervisor)) as follower:
            shown = ShownRecording(log, follower, supervisor)
            async with shown.on():
                yield shown

    return show


async def test_what_is_recorded_meanwhile_is_shown_and_heard_of(recording):
    header, *samples = recorded_machine(status=None)
    async with recording([header, *samples[:20]]) as shown:
        late = replace(samples[20], memory=replace(samples[20].memory, used_mib=30_720))
        shown.log.write(late, Notice(late.t, "the sensors [b]ended[/b]; they are started again"))
        await shown.tick()
        assert "30.0 of 32.0 GiB" in shown.text
        await until(shown.pilot, lambda: len(shown.app._notifications))
        assert [toast.message for toast in shown.app._notifications] == [
            "the sensors [b]ended[/b]; they are started again"
        ]


async def test_it_reads_on_under_the_screen_of_every_gpu(recording):
    header, *samples = recorded_machine(status=None)
    async with recording([header, *samples[:20]]) as shown:
        await shown.press("g")
        assert isinstance(shown.app.screen, GpusScreen)
        shown.log.write(*samples[20:])

        def read_on():
            shown.screen.query_one(MachinePanel)._on_timer()
            return shown.follower.session.machine.latest.t == samples[-1].t

        await until(shown.pilot, read_on)


async def test_at_its_end_it_says_from_when_to_when_it_was_recorded(recording):
    header, *samples, result = recorded_machine()
    async with recording([header, *samples]) as shown:
        assert shown.footer.startswith("s Stop  d Detach")
        assert " now ─" in shown.text
        shown.log.write(result)
        await shown.tick()
        assert " RECORDED 0:29  14:56:00 to 14:56:29, completed\n" in shown.text
        assert "Stop" not in shown.footer
        assert "Detach" not in shown.footer
        assert "stale" not in shown.text
        assert " end ─" in shown.text
        assert " now ─" not in shown.text
        await shown.press("q")
        assert shown.left == [True]


async def test_a_log_that_is_lost_is_said(recording):
    async with recording(recorded_machine(), ours=False) as shown:
        shown.log.path.unlink()
        await shown.tick()
        removed = "the log was removed by another program: what it held until then is shown"
        assert removed in shown.text


async def test_silence_is_said_and_the_readings_are_stale(recording, clock):
    async with recording(recorded_machine(status=None), ours=False) as shown:
        clock.now_ns += 9 * SECOND
        await shown.tick()
        assert "no new record for 9 s" in shown.text
        assert "stale 9 s" in shown.text


async def test_s_asks_and_stops_it(recording):
    header, *samples, notice, result = recorded_machine(status="stopped")
    async with recording([header, *samples]) as shown:
        await shown.press("s")
        assert "Stop this recording?" in shown.text
        await shown.press("escape", "s", "s")
        assert shown.supervisor.words == ["stop"]
        assert "STOPPING 0:29  since 14:56:00" in shown.text
        shown.log.write(notice, result)
        await shown.tick()
        assert "14:56:00 to 14:56:29, stopped" in shown.text
        assert shown.left == []


async def test_d_leaves_it_running(recording):
    async with recording(recorded_machine(status=None)) as shown:
        await shown.press("d")
        assert (shown.supervisor.words, shown.screen.detached) == (["detach"], True)
        assert shown.left == [True]
