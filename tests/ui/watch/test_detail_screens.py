"""The machine in depth and its processes, over the live screen, the home screen and the watch."""

import re

import pytest
from fakes.details import WIDE, footer, rows, shown
from fakes.recorded import folded, recorded_session

from dlmon.figures.machine.readings import GPU_CURVES
from tui.home.home_screen import HomeScreen
from tui.live.live_screen import LiveScreen
from tui.machine.gpu_histories import GpuHistories
from tui.machine.machine import MachinePanel
from tui.machine.tile import MachineTile
from tui.machine.view import MachineView
from tui.watch.detail_screens import GpusScreen
from tui.watch.processes_screen import ProcessesScreen
from tui.watch.watch_screen import WatchScreen
from tui.widgets.lines import row_width

# ---- ways in, and out ----


@pytest.mark.parametrize(
    ("view", "keys", "below"),
    [
        ("live", ("g", "p"), LiveScreen),
        ("watch", ("g", "f5"), WatchScreen),
        ("home", ("g", "p"), HomeScreen),
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


def headings(stage):
    """Return the titles of the charts in sight."""
    tiles = [tile for tile in stage.app.screen.query(MachineTile) if tile.region.area]
    return [tile._border_title.plain.split(" ──")[0] for tile in tiles]


async def test_each_quantity_of_one_gpu_has_a_chart_with_its_value():
    async with shown("in-depth", "gpus", WIDE) as stage:
        assert len(headings(stage)) == 9
        for value in ("96 %", "118 of 120 W", "1860 of 1911 MHz", "61 of 93 °C"):
            assert f" {value} ─╮" in stage.text
        assert "Large" not in footer(stage)
        # What has no history stands below.
        assert "power cap" in stage.text
        assert "not supported" not in stage.text


async def test_two_gpus_open_large_and_enter_shows_a_row_each():
    async with shown("2-gpus-in-depth", "gpus", WIDE) as stage:
        assert "GPU 0 utilisation" in headings(stage)
        assert "All GPUs" in footer(stage)
        await stage.press("down")
        assert "GPU 1 utilisation" in headings(stage)
        assert "0000:42:00.0" in stage.text
        await stage.press("enter")
        assert headings(stage) == []
        # The values stand above the histories, which have the whole width of their column.
        heading, values, first, *_ = rows(stage, GpuHistories)
        assert heading.split()[:5] == ["GPU", "utilisation", "memory", "power", "clock"]
        at = heading.index("memory")
        assert values.index("96 %") == heading.index("utilisation")
        assert {*first[:at]} & {*"⣤⣶⣿"}
        assert "%" not in first
        # The last row has the times of all of them.
        *_, times = filter(None, rows(stage, GpuHistories))
        assert times.count("┊") >= 2
        await stage.press("enter")
        assert "GPU 1 utilisation" in headings(stage)


async def test_eight_gpus_have_a_row_each_and_enter_shows_one_large():
    async with shown("8-gpus-in-depth", "gpus", WIDE) as stage:
        assert headings(stage) == []
        assert "0000:41:00.0" in stage.text
        await stage.press("down")
        assert "0000:42:00.0" in stage.text
        await stage.press("enter")
        assert "GPU 1 utilisation" in headings(stage)
        assert "All GPUs" in footer(stage)
        await stage.press("up", "enter")
        assert headings(stage) == []
        assert "0000:41:00.0" in stage.text


@pytest.mark.parametrize("state", ["in-depth", "2-gpus-in-depth", "8-gpus-in-depth"])
async def test_the_charts_grow_to_fill_a_large_screen(state):
    async with shown(state, "gpus", (200, 60)) as stage:
        detail = stage.app.screen.query_one("#detail")
        for _ in range(2):
            # The GPUs' rows have the same height, which leaves a few.
            assert detail.scrolls or any(row.strip() for row in rows(stage, "#detail")[-8:])
            await stage.press("enter")


async def test_the_cursor_of_the_charts_below_moves_here_too():
    async with shown("in-depth", "gpus", WIDE) as stage:
        assert " at 0" not in stage.text
        await stage.press("left")
        live = stage.app.screen_stack[-2]
        assert live.window.cursor_ns is not None
        assert " at 0" in stage.text
        assert all(
            tile._picture.cursor is not None
            for tile in stage.app.screen.query(".panel")
            if tile.region.area
        )


@pytest.mark.parametrize("gpus", [2, 8, 16])
def test_every_gpu_has_its_histories_or_can_be_scrolled_to(gpus):
    session = folded(recorded_session("training", gpus=gpus))
    view = MachineView(session.machine, session.header.machine, 0.2, 1.0)
    for size in ((78, 15), (118, 20), (198, 34)):
        for chosen in (0, gpus - 1):
            table = GpuHistories()
            drawn = table.rows(*size, view, tuple(GPU_CURVES), chosen)
            assert len(drawn) <= size[1]
            assert all(row_width(row) <= size[0] for row in drawn)
            text = "\n".join("".join(text for text, _ in row) for row in drawn)
            assert f"▸ {chosen} " in text
            assert table.scrolls == (gpus > size[1] - 1)


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


async def test_what_says_that_there_is_nothing_stands_in_one_line():
    async with shown("in-depth", "gpus", WIDE) as stage:
        assert "encoder 0 %, Xid none, MIG off" in stage.text
        # A figure that has a history, or is above zero, keeps its place.
        assert "Utilisation" in stage.text
        assert re.search(r"decoder +\S+ +7 %", stage.text)
