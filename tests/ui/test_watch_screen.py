"""The machine alone: what its sensors tell, for as long as the screen is up."""

from dataclasses import fields

import pytest
from fakes.recorded import NO_DRIVER, recorded_session
from fakes.screens import OneScreen, screen_text

from dlmon.records import Facts, Gpu, Machine
from tui.screens.watch import WatchScreen
from tui.widgets.machine_panel import MachinePanel
from tui.widgets.rows import RowWidget


class ShownWatch:
    """The watch screen, and whether it was left."""

    def __init__(self, **options):
        self.left = []
        self.screen = WatchScreen(lambda: self.left.append(True), **options)
        self.app = OneScreen(self.screen)

    @property
    def text(self):
        return screen_text(self.app)

    def rows(self, selector):
        widget = self.screen.query_one(selector)
        return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]

    async def paint(self, pilot):
        self.screen.query_one(MachinePanel).paint()
        await pilot.pause()
        await pilot.pause()


@pytest.fixture
def watch(sensing):
    return ShownWatch


def speak(sensors, **options):
    """Have sensors tell what a machine is, and samples of it; return the last one."""
    records = recorded_session(**options)
    header = records[0]
    sensors.say(Facts(header.t, header.wall, header.host, header.machine))
    told = [record for record in records if isinstance(record, Machine)]
    sensors.say(*told)
    return told[-1]


async def test_it_samples_at_the_interval_that_was_asked_for_while_it_is_up(watch, sensing):
    shown = watch(interval_s=0.25)
    async with shown.app.run_test() as pilot:
        await pilot.pause()
        assert [(s.interval_s, s.running) for s in sensing] == [(0.25, True)]
    assert not sensing[0].running


@pytest.mark.parametrize("gpus", [0, 1, 2])
async def test_it_shows_cpu_and_gpus_or_memory(watch, sensing, clock, gpus):
    shown = watch()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        clock.now_ns = speak(sensing[0], gpus=gpus).t
        await shown.paint(pilot)
        assert "42 %  3.4 of 8 cores  4.6 GHz" in shown.text
        if gpus:
            assert "98 %  61 °C  118 of 120 W  power limit  1860 MHz" in shown.text
            assert "4.7 of 6.0 GiB  NVIDIA GTX 1060 6GB" in shown.text
        else:
            assert f"no GPU: {NO_DRIVER}" in shown.text
        assert ("GPU 1 " in shown.text) == (gpus == 2)


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
        assert shown.screen.query_one("#gpu")._border_title.plain.endswith("─ lost")
        # The CPU is told of for six seconds longer: two columns stand in a cell.
        ends = [
            max(len(row) for row in shown.rows(chart) if "⣿" in row or "⡇" in row)
            for chart in ("#cpu", "#gpu")
        ]
        assert ends[0] - ends[1] == 3


async def test_nothing_is_repainted_between_two_samples(watch, sensing, clock, monkeypatch):
    shown = watch()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        clock.now_ns = speak(sensing[0], gpus=2).t
        await shown.paint(pilot)
        drawn = []
        monkeypatch.setattr(RowWidget, "render_line", lambda widget, y: drawn.append((widget, y)))
        for _ in range(4):
            await shown.paint(pilot)
        assert drawn == []


@pytest.mark.parametrize("key", ["q", "escape", "ctrl+c", "ctrl+q"])
async def test_it_is_left_by_every_key_that_means_it(watch, key):
    shown = watch()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert shown.text.splitlines()[-1].strip() == "q Quit"
        await pilot.press(key)
        await pilot.pause()
        assert shown.left == [True]


async def test_a_terminal_that_is_too_small_says_what_is_needed(watch):
    shown = watch()
    async with shown.app.run_test(size=(80, 15)):
        assert shown.text.strip() == "dlmon needs 60 × 16, this is 80 × 15"
