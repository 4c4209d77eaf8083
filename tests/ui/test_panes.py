"""Panes of the live and the watch screen: each shown alone, and hidden for good."""

import pytest
from fakes.states import STATES, on_stage, staged

from dlmon.options.settings import remember, remembered
from tui.live.comparison import ComparisonPanel
from tui.live.epochs import EpochTable
from tui.live.output_pane import OutputPane
from tui.live.session_charts import LossChart
from tui.machine.meters import CoreRows
from tui.machine.tile import MachineTile

SIZES = ((80, 24), (120, 40), (200, 60))


@pytest.mark.parametrize("size", SIZES)
async def test_a_pane_of_a_run_is_shown_alone_and_escape_shows_all_again(size):
    async with on_stage("training", size=size) as stage:
        await stage.press("tab")
        screen = stage.app.screen
        before = stage.text
        assert screen.focused is screen._throughput
        await stage.press("enter")
        assert screen._throughput.size.width >= size[0] - 2
        assert screen._throughput.size.height > size[1] // 2
        assert screen.plot_columns == screen._throughput.plot_columns
        assert "Seconds per epoch" not in stage.text
        await stage.press("escape")
        assert stage.text == before


async def test_a_hidden_pane_leaves_its_room_to_the_others_and_stays_hidden():
    async with on_stage("training") as stage:
        await stage.press("2")
        screen = stage.app.screen
        assert not screen.query_one(ComparisonPanel).display
        assert screen.query_one(LossChart).region.y == screen._throughput.region.y
        await stage.press("4")
        assert not screen.query_one(EpochTable).display
        assert remembered("hidden-panes") == "comparison epochs"
        await stage.press("2", "4")
        assert screen.query_one(ComparisonPanel).display
        assert remembered("hidden-panes") == ""


async def test_what_was_hidden_is_hidden_at_the_next_start():
    with staged(STATES["training"]) as stage:
        remember("hidden-panes", "machine output comparison [b]")
        async with stage.app.run_test(size=SIZES[0]) as pilot:
            await stage.begin(pilot)
            output = stage.app.screen.query_one(OutputPane)
            for size in SIZES:
                await stage.resize(size)
                assert not stage.app.screen._machine.display
                assert not output.display
                assert "GPU 0 " not in stage.text.splitlines()[size[1] // 2]
                await stage.press("l")
                assert output.size.height > size[1] // 2
                await stage.press("l")


async def test_what_another_screen_hid_meanwhile_stays_hidden():
    async with on_stage("training") as stage:
        remember("hidden-panes", "cpu")
        await stage.press("2")
        assert remembered("hidden-panes") == "comparison cpu"


async def test_one_pane_stays():
    async with on_stage("training") as stage:
        await stage.press(*"12345678")
        screen = stage.app.screen
        assert [note.message for note in stage.app._notifications] == ["one pane has to stay"]
        assert len(screen.hidden_panes) == 7


async def test_panes_of_a_machine_are_hidden_and_shown_alone():
    async with on_stage("in-depth", "watch") as stage:
        await stage.press("2")
        screen = stage.app.screen
        assert not screen.query_one(CoreRows).region
        cpu = screen.query_one("#cpu", MachineTile)
        assert cpu.size.width == 118
        await stage.press("1", "4")
        assert not cpu.region
        assert "Command" not in stage.text
        await stage.press("1", "tab", "enter")
        first = screen.query(MachineTile).first()
        assert screen.maximized is first
        assert first.size.height > 30
        await stage.press("escape")
        assert screen.maximized is None


async def test_the_replay_of_a_machine_alone_has_nothing_but_its_charts():
    async with on_stage("recorded", "replay") as stage:
        await stage.press("end")
        panels = stage.app.screen.query_one("#panels")
        assert [panel.id for panel in panels.children if panel.display] == ["machine"]
        assert panels.query_one("#machine").size.width == 120
