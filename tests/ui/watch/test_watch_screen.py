"""The machine alone: what its sensors report, for as long as the screen is up."""

from dataclasses import replace
from functools import partial

import pytest
from fakes.recorded import recorded_session
from fakes.screens import Shown, fake_machine, until

from dlmon.records import Facts, Machine
from tui.machine.machine import MachinePanel
from tui.machine.tile import MachineTile
from tui.screens.help import HelpScreen
from tui.watch.watch_screen import WatchScreen


class ShownWatch(Shown):
    """The watch screen."""

    def __init__(self, clock, interval_s=1.0, pcie=False):
        super().__init__(WatchScreen(fake_machine(interval_s, pcie, clock)))

    async def paint(self):
        """Paint until all parts have their places and what belongs there."""
        for _ in range(3):
            self.screen.query_one(MachinePanel).paint()
            await self.pilot.pause()
            await self.pilot.pause()


@pytest.fixture
def watch(sensing, clock):
    return partial(ShownWatch, clock)


def speak(sensors, *, change=lambda sample: sample, facts=lambda machine: machine, **options):
    """Have sensors report what a machine is, and samples of it; return the last one."""
    records = recorded_session(**options)
    header = records[0]
    sensors.say(Facts(header.t, header.wall, header.host, facts(header.machine)))
    samples = [change(record) for record in records if isinstance(record, Machine)]
    sensors.say(*samples)
    return samples[-1]


async def test_it_samples_at_the_interval_that_was_asked_for_while_it_is_up(watch, sensing):
    shown = watch(interval_s=0.25, pcie=True)
    async with shown.on() as pilot:
        # Help over it leaves no hole in its charts.
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(shown.app.screen, HelpScreen)
        assert [(s.interval_s, s.pcie, s.running) for s in sensing] == [(0.25, True, True)]
    assert not sensing[0].running


async def test_the_first_sample_is_painted_before_it_is_time_to_paint(watch, sensing, clock):
    shown = watch()
    async with shown.on() as pilot:
        shown.screen.query_one(MachinePanel)._timer.pause()
        clock.now_ns = speak(sensing[0], gpus=1).t
        await until(pilot, lambda: "of 120 W" in shown.text)


async def test_gpus_whose_driver_hangs_stay_in_sight_with_the_reason(watch, sensing, clock):
    shown = watch()
    async with shown.on((120, 40)):
        last = speak(sensing[0], gpus=2)
        await shown.paint()
        # What the sensors say that go on without the driver.
        why = {"gpus": "lost: the sensors gave no sample for 3 s"}
        machine = replace(recorded_session()[0].machine, gpus=None, driver=None, why=why)
        sensing[0].say(Facts(last.t, 0.0, "here", machine))
        sensing[0].say(Machine(last.t + 1_000_000_000, 0.0, why=why))
        sensing[0].notify("the sensors gave no sample for 3 s; they go on without the GPUs")
        clock.now_ns = last.t + 1_000_000_000
        await shown.paint()
        for tile in ("#chart-0", "#chart-2"):
            assert "lost: the sensors gave no sample" in shown.titles(tile)[0]
        assert "2 × NVIDIA" in shown.text
        assert "no GPU" not in shown.text
        (notice,) = shown.app._notifications
        assert notice.message.startswith("the sensors gave no sample")


@pytest.mark.parametrize(("size", "gpus"), [((80, 24), 0), ((120, 40), 8), ((200, 60), 4)])
async def test_all_charts_show_the_same_time_up_to_now(watch, sensing, clock, size, gpus):
    shown = watch()
    async with shown.on(size):
        clock.now_ns = speak(sensing[0], gpus=gpus).t
        await shown.paint()
        for tile in (tile for tile in shown.screen.query(MachineTile) if tile.region.area):
            axis, own = tile.axes
            assert own.start_ns <= axis.start_ns
            assert axis.end_ns <= own.end_ns < axis.end_ns + 2 * own.column_ns
            rows = [row.ljust(tile.size.width) for row in shown.rows(f"#{tile.id}")]
            cells = [x for row in rows for x, c in enumerate(row) if "\u2801" <= c <= "\u28ff"]
            assert max(cells) == tile.size.width - 1
