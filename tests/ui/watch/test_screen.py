"""The machine alone: what its sensors report, for as long as the screen is up."""

from dataclasses import fields, replace
from functools import partial

import pytest
from fakes.recorded import recorded_session
from fakes.screens import OneScreen, fake_machine, screen_text, until

from dlmon.records import Facts, Gpu, Machine
from tui.machine.machine import MachinePanel
from tui.machine.tile import MachineTile
from tui.requests import GoBack
from tui.screens.help import HelpScreen
from tui.watch.screen import WatchScreen
from tui.widgets.lines import BAR, BRIGHT, HIGH, PLAIN


class ShownWatch:
    """The watch screen, and whether it was left."""

    def __init__(self, clock, interval_s=1.0, pcie=False):
        self.screen = WatchScreen(fake_machine(interval_s, pcie, clock))
        self.app = OneScreen(self.screen)

    @property
    def left(self):
        return [isinstance(message, GoBack) for message in self.app.asked]

    @property
    def text(self):
        return screen_text(self.app)

    @property
    def footer(self):
        return self.text.splitlines()[-1].strip()

    def rows(self, selector):
        widget = self.screen.query_one(selector)
        return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]

    def titles(self, selector):
        widget = self.screen.query_one(selector)
        return widget._border_title.plain, widget._border_subtitle.plain

    def stands_out(self, selector):
        """Return how much a tile's title stands out; empty for not at all."""
        tile = self.screen.query_one(selector)
        return next((level for level in ("high", "bad") if tile.has_class(f"-{level}")), "")

    async def paint(self, pilot):
        """Paint until all parts have their places and what belongs there."""
        for _ in range(3):
            self.screen.query_one(MachinePanel).paint()
            await pilot.pause()
            await pilot.pause()


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
    async with shown.app.run_test() as pilot:
        await pilot.pause()
        # Help over it leaves no hole in its charts.
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(shown.app.screen, HelpScreen)
        assert [(s.interval_s, s.pcie, s.running) for s in sensing] == [(0.25, True, True)]
    assert not sensing[0].running


async def test_the_first_sample_is_painted_before_it_is_time_to_paint(watch, sensing, clock):
    shown = watch()
    async with shown.app.run_test() as pilot:
        await pilot.pause()
        shown.screen.query_one(MachinePanel)._timer.pause()
        clock.now_ns = speak(sensing[0], gpus=1).t
        await until(pilot, lambda: "of 120 W" in shown.text)


async def test_a_lost_gpu_says_so_and_leaves_a_gap(watch, sensing, clock):
    shown = watch()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        last = speak(sensing[0])
        lost = {spec.name: "lost" for spec in fields(Gpu) if spec.default is None}
        for second in range(1, 7):
            t = last.t + second * 1_000_000_000
            sensing[0].say(Machine(t, 0.0, gpus=(Gpu(0, why=lost),)))
        clock.now_ns = last.t + 8_000_000_000
        await shown.paint(pilot)
        assert shown.titles("#chart-0")[0].endswith("─ lost")
        assert shown.stands_out("#chart-0") == "high"
        assert "98 %" not in shown.text
        # Its history stays, up to when it was lost.
        assert any("⣿" in row for row in shown.rows("#chart-0"))


async def test_gpus_whose_driver_hangs_stay_in_sight_with_the_reason(watch, sensing, clock):
    shown = watch()
    async with shown.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        last = speak(sensing[0], gpus=2)
        await shown.paint(pilot)
        # What the sensors say that go on without the driver.
        why = {"gpus": "lost: the sensors gave no sample for 3 s"}
        machine = replace(recorded_session()[0].machine, gpus=None, driver=None, why=why)
        sensing[0].say(Facts(last.t, 0.0, "here", machine))
        sensing[0].say(Machine(last.t + 1_000_000_000, 0.0, why=why))
        sensing[0].notify("the sensors gave no sample for 3 s; they go on without the GPUs")
        clock.now_ns = last.t + 1_000_000_000
        await shown.paint(pilot)
        for tile in ("#chart-0", "#chart-1"):
            assert "lost: the sensors gave no sample" in shown.titles(tile)[0]
        assert "2 × NVIDIA" in shown.text
        assert "no GPU" not in shown.text
        (notice,) = shown.app._notifications
        assert notice.message.startswith("the sensors gave no sample")


async def test_readings_that_are_too_old_say_how_old_and_are_muted(watch, sensing, clock):
    def styles_of(selector):
        widget = shown.screen.query_one(selector)
        rows = widget.draw(*widget.size)
        return {style for row in rows for text, style in row if text.strip()}

    shown = watch()
    async with shown.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        last = speak(sensing[0])
        vivid = {BRIGHT, BAR, HIGH, PLAIN}
        for seconds, is_stale in ((1, False), (7, True)):
            clock.now_ns = last.t + seconds * 1_000_000_000
            await shown.paint(pilot)
            for selector in ("#cpu", "#chart-0"):
                assert shown.titles(selector)[0].endswith("─ stale 7 s") is is_stale
            for selector in ("#cpu", "#chart-0", "#cores", "#meters"):
                assert bool(styles_of(selector) & vivid) is not is_stale, selector
        sensing[0].notify("the sensors ended (killed); they are started again")
        await shown.paint(pilot)
        assert shown.rows("#identity")[-1].startswith("the sensors ended (killed)")


async def test_one_zooms_from_the_last_minute_out_to_everything_and_back(watch, sensing, clock):
    shown = watch()
    async with shown.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        clock.now_ns = speak(sensing[0]).t
        # All is more than ten minutes by then.
        clock.advance(1_800)
        panel = shown.screen.query_one(MachinePanel)
        await shown.paint(pilot)
        seen = [panel.time_shown]
        for key in ("minus", "minus", "minus", "plus", "plus", "plus", "plus"):
            await pilot.press(key)
            seen.append(panel.time_shown)
        # The charts have 104 columns, of whole seconds where they show no less than a minute.
        minute, ten, whole = "last 01:44", "last 10:24", "all since the start"
        all_of_it = f"{whole}, nothing more to show"
        near, nearest = "last 52 s", "last 10 s"
        assert seen == [minute, ten, whole, all_of_it, ten, minute, near, nearest]
        await pilot.press("plus")
        assert panel.time_shown == f"{nearest}, nothing finer to show"


@pytest.mark.parametrize(("size", "gpus"), [((80, 24), 0), ((120, 40), 8), ((200, 60), 4)])
async def test_all_charts_show_the_same_time_up_to_now(watch, sensing, clock, size, gpus):
    shown = watch()
    async with shown.app.run_test(size=size) as pilot:
        await pilot.pause()
        clock.now_ns = speak(sensing[0], gpus=gpus).t
        await shown.paint(pilot)
        for tile in (tile for tile in shown.screen.query(MachineTile) if tile.region.area):
            axis, own = tile.axes
            assert own.start_ns <= axis.start_ns
            assert axis.end_ns <= own.end_ns < axis.end_ns + 2 * own.column_ns
            rows = [row.ljust(tile.size.width) for row in shown.rows(f"#{tile.id}")]
            cells = [x for row in rows for x, c in enumerate(row) if "\u2801" <= c <= "\u28ff"]
            assert max(cells) == tile.size.width - 1


async def test_it_is_left_by_a_key(watch):
    shown = watch()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert shown.footer.endswith("? Help")
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert shown.left == [True]
