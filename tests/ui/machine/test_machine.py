"""The machine in rooms of all sizes: under other charts, and in a panel of its own."""

import re
from contextlib import asynccontextmanager
from dataclasses import replace

from fakes.recorded import BEGIN_NS, folded, recorded_session
from fakes.screens import OneScreen, Shown, fake_machine, screen_text
from textual.app import ComposeResult
from textual.screen import Screen

from dlmon.records import Facts, Machine, MachineFacts, Process
from dlmon.session.machine_history import MachineHistory
from tui.drawing.time_axis import TimeAxis
from tui.machine import machine
from tui.machine.gpu_rows import GpuRows
from tui.machine.machine import MachinePanel
from tui.machine.view import MachineView

SECOND_NS = 1_000_000_000
COLUMNS = 30


class Room(Screen):
    """A widget in a room of some size, and what it posts."""

    def __init__(self, widget, size):
        super().__init__()
        self._widget = widget
        widget.styles.width, widget.styles.height = size
        self.facts: list[MachineFacts] = []

    def compose(self) -> ComposeResult:
        yield self._widget

    def on_machine_panel_facts_read(self, event: MachinePanel.FactsRead):
        self.facts.append(event.machine)


class ShownMachine(Shown):
    """A machine under other charts."""

    def __init__(self, width, height, **options):
        self.machine = machine.MachineCharts(below=True)
        super().__init__(Room(self.machine, (width, height)))
        session = folded(recorded_session("training", **options))
        training = (0,) if options.get("gpus", 1) else ()
        facts = session.header.machine
        self.view = MachineView(session.machine, facts, 0.2, 1.0, training)
        known = (session.machine.latest.t - BEGIN_NS) // SECOND_NS
        self.axis = TimeAxis(BEGIN_NS, SECOND_NS, COLUMNS, min(COLUMNS, known))

    async def show(self, **changes):
        for _ in range(2):
            self.machine.show(replace(self.view, **changes), self.axis)
            await self.pilot.pause()

    async def read(self, column, **changes):
        """Show the instant that a column of the axis begins with."""
        at_ns = BEGIN_NS + column * SECOND_NS
        await self.show(cursor_ns=at_ns, cursor_label=f"at 00:{column:02}", **changes)

    async def begin(self):
        await self.pilot.pause()
        await self.show()


@asynccontextmanager
async def charts(width=120, height=13, **options):
    shown = ShownMachine(width, height, **options)
    async with shown.on((max(width, 60), max(height, 16))):
        yield shown


async def test_the_gpu_that_trains_comes_first():
    async with charts(gpus=2) as shown:
        assert shown.titles("#chart-0")[0].startswith("GPU 0 ─")
        await shown.show(training=(1,))
        assert shown.titles("#chart-0")[0].startswith("GPU 1 ─")
        assert shown.titles("#chart-1")[0].startswith("GPU 0 ─")


async def test_at_the_cursor_the_charts_show_the_values_of_that_instant():
    async with charts(gpus=2, height=11) as shown:
        now = shown.titles("#cpu")[0]
        await shown.read(1)
        assert re.search(r"at 00:01  \d+ %  run \d+ %", shown.titles("#cpu")[0])
        assert "at 00:01  0 %" in shown.titles("#chart-0")[0]
        assert "61 °C" not in shown.titles("#chart-0")[0]
        await shown.read(COLUMNS - 1)
        assert "at 00:29  –" in shown.titles("#cpu")[0]
        assert "at 00:29  –" in shown.titles("#chart-0")[0]
        await shown.show()
        assert shown.titles("#cpu")[0] == now
    async with charts(gpus=16, height=11) as shown:
        assert " 96 %" in shown.rows(GpuRows)[0]
        await shown.read(1)
        assert " 0 %" in shown.rows(GpuRows)[0]


async def test_readings_at_the_cursor_are_never_stale():
    async with charts(80, 10, gpus=8) as shown:
        await shown.show(age_s=12.0)
        assert shown.titles("#cpu")[0].endswith("stale 12 s")
        assert "stale 12 s" in shown.rows(GpuRows)[0]
        await shown.read(1, age_s=12.0)
        assert "stale" not in shown.text


async def test_memory_has_a_row_with_the_peak_and_what_is_the_runs_and_what_is_left():
    async with charts(160, height=11) as shown:
        latest = shown.view.history.latest
        own = (Process(1, gpus=(0,), gpu_memory_mib=4505, of_run=True),)
        most = replace(latest.gpus[0], memory_used_mib=5120)
        for second, gpu in ((1, most), (2, latest.gpus[0])):
            t = latest.t + second * SECOND_NS
            shown.view.history.add(replace(latest, t=t, gpus=(gpu,), processes=own))
        await shown.show()
        title = shown.titles("#chart-0")[1]
        assert title.endswith("4.7 of 6.0 GiB  peak 5.0  this run 4.4  1.3 left")
        assert " mem " in shown.rows("#chart-0")[-1]


def test_what_the_run_holds_of_a_gpu_is_not_known_where_a_process_is_on_several():
    session = folded(recorded_session("training"))
    view = MachineView(session.machine, session.header.machine, 0.2, 1.0)
    gpu = view.history.latest.gpus[0]

    def held(*rows):
        history = MachineHistory()
        history.add(replace(view.history.latest, processes=rows))
        return replace(view, history=history).run_gpu_memory_mib(gpu)

    mine = Process(1, gpus=(0,), gpu_memory_mib=4505, of_run=True)
    other = Process(2, gpus=(0,), gpu_memory_mib=100, of_run=False)
    assert held(mine, other, replace(mine, pid=3)) == 9010
    assert held(other) is None
    assert held(mine, replace(mine, pid=3, gpus=(0, 1))) is None
    assert held(mine, replace(mine, pid=3, gpu_memory_mib=None)) is None


# ---- a panel of its own ----


@asynccontextmanager
async def panel(clock, size):
    app = OneScreen(Room(MachinePanel(fake_machine(clock=clock)), size))
    async with app.run_test(size=(100, 40)) as pilot:
        app.screen.query_one(MachinePanel).start()
        await pilot.pause()
        yield pilot


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


async def test_it_says_what_it_waits_for_then_posts_the_facts_and_gives_gpus_a_place(
    sensing, clock
):
    async with panel(clock, (75, 36)) as pilot:
        pilot.app.screen.query_one(MachinePanel).paint()
        await pilot.pause()
        assert "waiting for the sensors" in screen_text(pilot.app)
        assert "waiting for the first sample" in screen_text(pilot.app)
        assert pilot.app.screen.facts == []
        one = await speak(sensing[0], clock, pilot, gpus=1)
        assert "GPU 1" not in screen_text(pilot.app)
        two = await speak(sensing[0], clock, pilot, gpus=2)
        assert "GPU 1" in screen_text(pilot.app)
        assert pilot.app.screen.facts == [one, two]
