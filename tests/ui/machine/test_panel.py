"""The machine beside other things: the essentials in a narrow column of any height."""

import re
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session
from fakes.screens import OneScreen, fake_machine, screen_text
from textual.app import ComposeResult
from textual.screen import Screen

from dlmon.records import Facts, Machine, MachineFacts
from tui.machine.panel import MachinePanel
from tui.machine.tiles import ChartTile


class Beside(Screen):
    """A panel in a room of some size, and what it posts."""

    def __init__(self, clock, width, height):
        super().__init__()
        self._room = width, height
        self._source = fake_machine(clock=clock)
        self.facts: list[MachineFacts] = []

    def compose(self) -> ComposeResult:
        panel = MachinePanel(self._source)
        panel.styles.width, panel.styles.height = self._room
        yield panel

    def on_mount(self):
        self.query_one(MachinePanel).start()

    def on_machine_panel_facts_read(self, event: MachinePanel.FactsRead):
        self.facts.append(event.machine)


async def speak(sensors, clock, pilot, **options):
    header, *records = recorded_session(**options)
    # No run is watched here, and so none has a share of the CPU.
    samples = [replace(record, process=None) for record in records if isinstance(record, Machine)]
    sensors.say(Facts(header.t, header.wall, header.host, header.machine), *samples)
    clock.now_ns = samples[-1].t
    for _ in range(3):
        pilot.app.screen.query_one(MachinePanel).paint()
        await pilot.pause()
        await pilot.pause()
    return header.machine


@pytest.mark.parametrize(
    ("gpus", "ascii"), [(0, False), (1, True), (2, False), (16, False), (16, True)]
)
@pytest.mark.parametrize("size", [(36, 8), (42, 16), (62, 36)])
async def test_the_essentials_are_shown_at_every_height(sensing, clock, size, gpus, ascii):
    app = OneScreen(Beside(clock, *size), ascii)
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        await speak(sensing[0], clock, pilot, gpus=gpus)
        lines = screen_text(app).splitlines()
        text = "\n".join(lines)
        assert "Intel i7-9700K" in lines[0]
        assert "3.4 of 8 cores" in text
        assert "5.1 of 32.0 GiB" in text or (gpus == 16 and size[1] == 8)
        assert all(len(line) <= size[0] for line in lines)
        assert not any(lines[size[1] :])
        gpu_rows = re.findall(r"GPU \d+|^ ?\d+ +[⠀-⣿_.=+*#-]{2}", text, re.MULTILINE)
        assert bool(gpu_rows) == bool(gpus) or size[1] <= 12
        for tile in app.screen.query(ChartTile):
            assert tile.region.height == 0 or tile.size.height >= 3


async def test_what_it_waits_for_is_shown(sensing, clock):
    app = OneScreen(Beside(clock, 42, 21))
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        app.screen.query_one(MachinePanel).paint()
        await pilot.pause()
        text = screen_text(app)
        assert "waiting for the sensors" in text
        assert "waiting for the first sample" in text


async def test_the_facts_are_posted_once_they_are_read(sensing, clock):
    app = OneScreen(Beside(clock, 42, 21))
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        assert app.screen.facts == []
        machine = await speak(sensing[0], clock, pilot)
        assert app.screen.facts == [machine]


async def test_a_second_gpu_that_turns_up_gets_its_place(sensing, clock):
    app = OneScreen(Beside(clock, 75, 36))
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        await speak(sensing[0], clock, pilot, gpus=1)
        assert "GPU 1" not in screen_text(app)
        await speak(sensing[0], clock, pilot, gpus=2)
        assert "GPU 1" in screen_text(app)


async def test_while_it_is_stopped_nothing_goes_stale(sensing, clock):
    app = OneScreen(Beside(clock, 42, 21))
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        await speak(sensing[0], clock, pilot)
        panel = app.screen.query_one(MachinePanel)
        panel.stop()
        assert not sensing[0].running
        clock.advance(60)
        panel.start()
        panel.paint()
        await pilot.pause()
        assert "stale" not in screen_text(app)


async def test_it_paints_by_itself_only_while_it_samples(sensing, clock):
    app = OneScreen(Beside(clock, 42, 21))
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        panel = app.screen.query_one(MachinePanel)
        paints = panel._timer._active
        assert paints.is_set()
        panel.stop()
        assert not paints.is_set()
        panel.start()
        assert paints.is_set()
