"""The hardware under the throughput: one axis, every GPU, and the instant that is read."""

import re
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_NS, folded, recorded_session
from fakes.screens import OneScreen, screen_text
from hypothesis import given
from hypothesis import strategies as st
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from dlmon.records import Cpu, Process, ProcessTree
from dlmon.session.machine_history import MachineHistory
from tui.drawing.time_axis import TimeAxis
from tui.machine.charts import MachineCharts
from tui.machine.gpu_panel import GpuPanel, gpu_shape
from tui.machine.gpu_rows import GpuRows
from tui.machine.tiles import ChartTile
from tui.machine.view import MachineView
from tui.widgets.rows import RowWidget

SECOND_NS = 1_000_000_000
COLUMNS = 30


class Charts(Screen):
    """The charts alone, in a room of some size."""

    def __init__(self, width, height):
        super().__init__()
        self._room = width, height

    def compose(self) -> ComposeResult:
        charts = MachineCharts()
        charts.styles.width, charts.styles.height = self._room
        yield charts


class Shown:
    """Charts that show a session's machine."""

    def __init__(self, width, height, ascii, **options):
        self.app = OneScreen(Charts(width, height), ascii)
        session = folded(recorded_session("training", **options))
        self.view = MachineView(
            history=session.machine,
            facts=session.header.machine,
            age_s=0.2,
            interval_s=1.0,
            gpu_index=0 if options.get("gpus", 1) else None,
        )
        known = (session.machine.latest.t - BEGIN_NS) // SECOND_NS
        self.axis = TimeAxis(BEGIN_NS, SECOND_NS, COLUMNS, min(COLUMNS, known))

    async def show(self, pilot, **changes):
        charts = self.app.screen.query_one(MachineCharts)
        for _ in range(2):
            charts.show(replace(self.view, **changes), self.axis)
            await pilot.pause()

    @property
    def text(self):
        return screen_text(self.app)

    def rows(self, selector):
        widget = self.app.screen.query_one(selector)
        return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]

    def titles(self, selector):
        widget = self.app.screen.query_one(selector)
        return widget._border_title.plain, widget._border_subtitle.plain


def is_seen(widget):
    """Return whether nothing that it stands in is hidden."""
    return all(part.display for part in widget.ancestors_with_self if isinstance(part, Widget))


@asynccontextmanager
async def charts(width=120, height=13, ascii=False, **options):
    shown = Shown(width, height, ascii, **options)
    async with shown.app.run_test(size=(max(width, 60), max(height, 16))) as pilot:
        await pilot.pause()
        await shown.show(pilot)
        shown.pilot = pilot
        yield shown


@pytest.mark.parametrize("ascii", [False, True], ids=["unicode", "ascii"])
@pytest.mark.parametrize("size", [(60, 6), (80, 7), (120, 13), (200, 20)])
@pytest.mark.parametrize("gpus", [0, 1, 2, 4, 8, 16])
async def test_every_gpu_is_shown_and_no_row_is_wider_than_its_room(size, gpus, ascii):
    async with charts(*size, ascii=ascii, gpus=gpus) as shown:
        for widget in shown.app.screen.query(RowWidget):
            for y in range(widget.size.height):
                assert widget.render_line(y).cell_length == widget.size.width
        assert "CPU" in shown.text
        if gpus > 1:
            rows = "\n".join(shown.rows(GpuRows))
            drawn = r"[⠀-⣿_.=+*#─━╸-]+"
            indices = re.findall(rf"(\d+) +(?:{drawn} +\d+ %|(?:{drawn} +)?\d+/\d+%)", rows)
            more = re.search(r"(\d+) more$", rows)
            left_out = int(more[1]) if more else 0
            if not is_seen(shown.app.screen.query_one(GpuRows)):
                indices = []
            charted = [
                title
                for tile in shown.app.screen.query(ChartTile)
                if is_seen(tile) and re.match(r"GPU \d", title := tile._border_title.plain)
            ]
            indices = [re.match(r"GPU (\d+)", title)[1] for title in charted] + indices
            assert [int(index) for index in indices] == [*range(gpus - left_out)]
            assert not left_out or size == (60, 6)
        elif gpus:
            assert shown.titles("#gpu")[0].startswith("GPU 0 ─")
        else:
            # Below the chart, where there is one, stand labels of time.
            is_bar = is_seen(shown.app.screen.query_one("#memory-bar"))
            name = "#memory-bar" if is_bar else "#memory"
            assert shown.titles(name)[1].startswith("no GPU") == is_bar


async def test_both_charts_have_the_columns_of_one_axis():
    async with charts(gpus=2) as shown:
        widget = shown.app.screen.query_one(MachineCharts)
        assert widget.plot_columns == 2 * (60 - 2 - 6)


async def test_a_chart_without_room_gives_its_rows_to_the_gpus():
    async with charts(80, 7, gpus=8) as shown:
        assert not shown.app.screen.query_one("#gpu").display
    async with charts(80, 13, gpus=3) as shown:
        assert shown.app.screen.query_one("#gpu").display


@pytest.mark.parametrize(("height", "gpus", "has_chart"), [(12, 8, False), (22, 16, True)])
async def test_under_each_other_the_gpus_chart_has_room_or_is_not_there(height, gpus, has_chart):
    async with charts(96, height, gpus=gpus) as shown:
        shown.app.screen.query_one(MachineCharts).styles.layout = "vertical"
        for chart in shown.app.screen.query("MachineCharts > *"):
            chart.styles.height = "1fr"
        await shown.pilot.pause()
        await shown.show(shown.pilot)
        gpu = shown.app.screen.query_one("#gpu")
        assert gpu.display == has_chart
        assert not has_chart or gpu.size.height >= 3
        rows = "\n".join(shown.rows(GpuRows))
        assert all(re.search(rf"GPU {index}\b", rows) for index in range(has_chart, gpus))


@pytest.mark.parametrize(
    ("ascii", "first", "second"),
    [
        (False, "▸GPU 0 ⣀", " 1 ──   0 % 0.0/6G   2"),
        (True, ">GPU 0 _", " 1 ..   0 % 0.0/6G   2"),
    ],
)
async def test_without_room_for_a_history_there_is_a_bar_and_the_gpu_that_trains_is_marked(
    ascii, first, second
):
    async with charts(80, 7, gpus=8, ascii=ascii) as shown:
        rows = shown.rows(GpuRows)
        assert rows[0].startswith(first)
        assert any(row.startswith(second) for row in rows)
    async with charts(120, 13, gpus=2) as shown:
        assert not any("▸" in row for row in shown.rows(GpuRows))


@pytest.mark.parametrize(
    ("width", "below"),
    [
        (80, ["4.7 of 6.0 GiB", "peak 4.7  1.3 left  118 of 120 W"]),
        (120, ["4.7 of 6.0 GiB", "peak 4.7  1.3 left  118 of 120 W  power cap  1860 MHz"]),
        (200, ["4.7 of 6.0 GiB  peak 4.7  1.3 left", "power cap  1860 MHz"]),
    ],
)
async def test_of_many_gpus_the_one_that_trains_says_what_memory_is_left_and_was_used(width, below):
    async with charts(width, 13, gpus=8) as shown:
        rows = [re.sub(" {3,}", "  ", row).strip() for row in shown.rows(GpuRows)]
        memory = re.sub("^mem [⠀-⣿]+  ", "", rows[1])
        assert rows[1].startswith("mem ⣶")
        assert [memory, rows[2]] == below
        assert any(row.startswith("GPU 7 ") for row in rows)


@pytest.mark.parametrize(
    ("width", "said"),
    [(120, "curves over the time of the CPU chart"), (64, "time as in CPU chart")],
)
async def test_rows_in_a_frame_say_what_time_their_curves_are_of(width, said):
    async with charts(width, 13, gpus=8) as shown:
        assert any(said in title for title in shown.titles("#gpus"))
        panel = shown.app.screen.query_one(GpuPanel)
        assert panel.shape.framed


async def test_a_row_shows_history_and_figures():
    async with charts(200, 9, gpus=3) as shown:
        first, second = (re.sub(" {2,}", "  ", row) for row in shown.rows(GpuRows))
        # It has no sensor for its power, whose column stays empty.
        assert re.fullmatch(r"GPU 1 [⠀-⣿]+  0 %  34 °C  0\.0 of 6\.0 GiB  139 MHz", first)
        figures = r"0 %  34 °C  10 of 120 W  0\.0 of 6\.0 GiB  139 MHz"
        assert re.fullmatch(rf"GPU 2 [⠀-⣿]+  {figures}", second)


@pytest.mark.parametrize("height", [11, 13, 20])
async def test_a_second_gpu_has_a_chart_too_where_there_is_room(height):
    async with charts(height=height, gpus=2) as shown:
        assert not shown.app.screen.query_one(GpuRows).display
        assert shown.titles("#gpu-0")[0].startswith("GPU 1 ─")
        heights = [shown.app.screen.query_one(name).size.height for name in ("#gpu", "#gpu-0")]
        assert heights[0] >= heights[1] >= 3
        await shown.show(shown.pilot, history=shown.view.history, gpu_index=1)
        assert shown.titles("#gpu")[0].startswith("GPU 1 ─")
        assert shown.titles("#gpu-0")[0].startswith("GPU 0 ─")


async def test_a_gpu_with_a_chart_is_not_shown_a_second_time():
    async with charts(80, 7, gpus=2) as shown:
        assert shown.titles("#gpu")[0].startswith("GPU 0 ─")
        (row,) = shown.rows(GpuRows)
        assert re.match("GPU 1 ", row)


async def test_at_the_cursor_the_charts_show_the_values_of_that_instant():
    async with charts(gpus=3, height=7) as shown:
        await shown.pilot.pause()
        now = shown.titles("#cpu")[0]
        await shown.show(shown.pilot, cursor=1, cursor_label="at 00:01")
        assert "14 %" not in now
        assert "at 00:01  1" in shown.titles("#cpu")[0]
        assert shown.titles("#gpu")[0].startswith("GPU 0 ─")
        assert "at 00:01  0 %" in shown.titles("#gpu")[0]
        assert "61 °C" not in shown.titles("#gpu")[0]
        assert re.search(r"GPU 1 .* 0 %", shown.rows(GpuRows)[0])
        assert shown.rows(GpuRows)[0].endswith("34 °C")
        await shown.show(shown.pilot)
        assert shown.titles("#cpu")[0] == now


async def test_the_cpu_chart_draws_the_run_apart_from_everything_else():
    async with charts(80, 9) as shown:
        assert "39 %  ⣿ this run 35 %" in shown.titles("#cpu")[0]
        text = "".join(shown.rows("#cpu"))
        assert "⣿" in text
        styles = {
            str(segment.style.color)
            for y in range(shown.app.screen.query_one("#cpu").size.height)
            for segment in shown.app.screen.query_one("#cpu").render_line(y)
            if set(segment.text) & set("⣿⣒⣛⣓⣶⣤")
        }
        assert len(styles) > 1


async def test_the_run_is_distinguished_without_colour_and_with_plain_characters():
    async with charts(80, 9, ascii=True) as shown:
        shared = MachineHistory()
        latest = shown.view.history.latest
        for second in range(1, 9):
            t = BEGIN_NS + second * SECOND_NS
            shared.fold(replace(latest, t=t, cpu=Cpu(100.0), process=ProcessTree(cpu_pct=320.0)))
        await shown.show(shown.pilot, history=shared)
        assert "100 %  # this run 40 %" in shown.titles("#cpu")[0]
        drawn = [row[6:].strip() for row in shown.rows("#cpu")[:-1]]
        assert {*"".join(drawn)} == {":", "#"}
        assert drawn[0].count(":") == drawn[-1].count("#") == 4


@pytest.mark.parametrize("width", [80, 120])
async def test_the_cursor_reads_the_cpu_of_the_machine_and_of_the_run(width):
    async with charts(width, 9) as shown:
        await shown.show(shown.pilot, cursor=1, cursor_label="at 00:01")
        title = shown.titles("#cpu")[0]
        assert re.search(r"at 00:01  \d+ %  run \d+ %", title)
        assert len(title) <= width // 2 - 6


async def test_without_a_run_the_cpu_chart_is_of_the_machine():
    async with charts(80, 9) as shown:
        alone = MachineHistory()
        alone.fold(replace(shown.view.history.latest, process=None))
        await shown.show(shown.pilot, history=alone)
        assert "this run" not in shown.text
        assert not set("".join(shown.rows("#cpu"))) & set("⣒⣛⣓")


async def test_where_the_cursor_stands_on_nothing_it_says_so():
    async with charts() as shown:
        await shown.show(shown.pilot, cursor=COLUMNS - 1, cursor_label="at 00:29")
        assert "at 00:29  –" in shown.titles("#cpu")[0]
        assert "at 00:29  –" in shown.titles("#gpu")[0]


async def test_readings_at_the_cursor_are_never_stale():
    async with charts(gpus=8) as shown:
        await shown.show(shown.pilot, age_s=12.0)
        assert shown.titles("#cpu")[0].endswith("stale 12 s")
        assert "stale 12 s" in shown.rows(GpuRows)[0]
        await shown.show(shown.pilot, age_s=12.0, cursor=1, cursor_label="at 00:01")
        assert "stale" not in shown.text


async def test_memory_at_the_cursor_is_shown_too():
    async with charts(gpus=0) as shown:
        await shown.show(shown.pilot, cursor=1, cursor_label="at 00:01")
        assert shown.rows("#memory-bar")[0].endswith("5.1 of 32.0 GiB")
        assert "this run" not in shown.titles("#memory-bar")[0]
        assert "Cores now" in shown.titles("#cores-beside")[0]
        await shown.show(shown.pilot, cursor=1, cursor_label="at 00:01", age_s=None)
        assert "Cores at the end" in shown.titles("#cores-beside")[0]


@pytest.mark.parametrize(("width", "says"), [(120, " at the end"), (64, ", last")])
async def test_of_a_run_that_is_over_titles_say_that_their_figures_are_the_last(width, says):
    async with charts(width=width, gpus=1) as shown:
        for part in ("#cpu", "#gpu"):
            await shown.show(shown.pilot, age_s=0.0)
            assert says not in shown.titles(part)[0]
            await shown.show(shown.pilot, age_s=None)
            assert says in shown.titles(part)[0]
            await shown.show(shown.pilot, age_s=None, cursor=1, cursor_label="at 00:01")
            assert says not in shown.titles(part)[0]
    async with charts(width=width, gpus=0) as shown:
        await shown.show(shown.pilot, age_s=None)
        assert "Memory at the end" in shown.titles("#memory-bar")[0]


async def test_the_title_of_the_last_memory_does_not_run_into_that_of_the_run():
    async with charts(width=78, gpus=0) as shown:
        for age_s, title in ((0.0, "Memory ─"), (None, "Memory, last ─")):
            await shown.show(shown.pilot, age_s=age_s)
            above = shown.titles("#memory-bar")[0]
            assert above.startswith(title)
            assert "─ this run " in above


# ---- the GPU that trains, a grid, a row each ----


@given(st.integers(1, 40), st.integers(20, 150), st.integers(3, 60))
def test_gpus_never_take_more_room_than_there_is(count, width, height):
    shape = gpu_shape(count, width, height)
    rows = -(-shape.charts // shape.columns)
    if shape.columns > 1:
        assert rows * 5 <= height
        assert width // shape.columns >= 28
    else:
        taken = shape.memory + shape.curves + shape.rows + shape.each * max(0, shape.charts - 1)
        assert taken + (5 if shape.memory else 0) <= height
    assert shape.charts in (0, 1, count)
    assert shape.charts == count or shape.rows > 0 or count == 1


async def test_memory_has_a_curve_with_what_is_left_the_peak_and_what_is_the_runs():
    async with charts(height=11) as shown:
        latest = shown.view.history.latest
        own = (Process(1, gpus=(0,), gpu_memory_mib=4505, of_run=True),)
        most = replace(latest.gpus[0], memory_used_mib=5120)
        for second, gpu in ((1, most), (2, latest.gpus[0])):
            t = latest.t + second * SECOND_NS
            shown.view.history.fold(replace(latest, t=t, gpus=(gpu,), processes=own))
        await shown.show(shown.pilot)
        title = shown.titles("#gpu-memory")[0]
        assert title.endswith(" 4.7 of 6.0 GiB  peak 5.0  this run 4.4")
        assert "6G" in shown.rows("#gpu-memory")[0]
    async with charts(160, height=11) as wide:
        wide.view = shown.view
        await wide.show(wide.pilot)
        assert wide.titles("#gpu-memory")[0].endswith("peak 5.0  this run 4.4  1.3 left")


@pytest.mark.parametrize(("ascii", "low", "full"), [(False, "⣀", "⣿"), (True, "_", "#")])
async def test_where_memory_has_no_chart_it_has_the_lowest_row_of_the_gpus(ascii, low, full):
    async with charts(80, 8, ascii=ascii) as shown:
        latest = shown.view.history.latest
        (gpu,) = latest.gpus
        for second in range(1, 11):
            used_mib = 100 if second <= 5 else 6100
            record = replace(
                latest,
                t=latest.t + second * SECOND_NS,
                gpus=(replace(gpu, memory_used_mib=used_mib),),
            )
            shown.view.history.fold(record)
        shown.axis = TimeAxis(latest.t, SECOND_NS, COLUMNS, 11)
        await shown.show(shown.pilot)
        *_, ruler, row = shown.rows("#gpu")
        assert row.startswith("  mem ")
        drawn = row.partition("mem ")[2]
        assert drawn.index(low) < drawn.index(full)
        assert "mem" not in ruler


async def test_a_low_chart_gives_the_row_of_its_marks_to_the_memory():
    async with charts(80, 6) as low, charts(80, 7) as higher:
        for shown, marked in ((low, False), (higher, True)):
            await shown.show(shown.pilot, epoch_starts=((1, BEGIN_NS),))
            rows = shown.rows("#gpu")
            assert rows[-1].startswith("  mem ")
            assert rows[-2].startswith("    0 ") is not marked


@pytest.mark.parametrize("height", [5, 11])
async def test_memory_has_no_row_where_the_chart_is_low_or_memory_has_its_own(height):
    async with charts(80, height) as shown:
        assert not any("mem" in row for row in shown.rows("#gpu"))


def test_what_the_run_holds_of_a_gpu_is_not_known_where_a_process_is_on_several():
    view = Shown(80, 9, False).view
    gpu = view.history.latest.gpus[0]

    def held(*rows):
        history = MachineHistory()
        history.fold(replace(view.history.latest, processes=rows))
        return replace(view, history=history).run_gpu_memory_mib(gpu)

    mine = Process(1, gpus=(0,), gpu_memory_mib=4505, of_run=True)
    other = Process(2, gpus=(0,), gpu_memory_mib=100, of_run=False)
    assert held(mine, other, replace(mine, pid=3)) == 9010
    assert held(other) is None
    assert held(mine, replace(mine, pid=3, gpus=(0, 1))) is None
    assert held(mine, replace(mine, pid=3, gpu_memory_mib=None)) is None


async def test_power_and_temperature_have_curves_where_there_is_room():
    async with charts(160, 24) as shown:
        assert shown.titles("#gpu-power")[0].endswith("118 of 120 W")
        assert shown.titles("#gpu-temperature")[0].endswith("61 °C")
        assert any(set(row) & set("⣿⣶⣤⣀") for row in shown.rows("#gpu-temperature"))


async def test_eight_gpus_stand_in_an_even_grid_whose_curves_span_the_same_time():
    async with charts(240, 12, gpus=8) as shown:
        tiles = [tile for tile in shown.app.screen.query("GpuPanel > ChartTile") if is_seen(tile)]
        assert len(tiles) == 8
        assert len({tile.size for tile in tiles}) == 1
        assert len({tile.region.y for tile in tiles}) == 2
        known = [sum(value is not None for value in tile._picture.columns) for tile in tiles]
        assert min(known) == max(known) > 5
        assert shown.app.screen.query_one(MachineCharts).plot_columns == 2 * (120 - 2 - 6)


async def test_where_a_grid_has_no_room_each_gpu_has_a_row_and_the_one_that_trains_is_first():
    async with charts(120, 12, gpus=8) as shown:
        await shown.show(shown.pilot, gpu_index=3)
        rows = shown.rows("#gpus")
        assert rows[0].startswith("▸GPU 3 ")
        assert [row[1:6] for row in rows if "GPU" in row[1:]][1:] == [
            f"GPU {index}" for index in range(8) if index != 3
        ]
        assert shown.titles("#gpus")[0].startswith("GPUs")


async def test_without_a_gpu_memory_is_a_bar_beside_the_cores():
    async with charts(120, 8, gpus=0) as shown:
        (row,) = shown.rows("#memory-bar")
        assert re.fullmatch(r"in use ━+─+ 5\.1 of 32\.0 GiB", row)
        assert shown.titles("#memory-bar")[0].endswith("this run 1.9 GiB")
        assert "39 %" in shown.rows("#cores-beside")[0]
