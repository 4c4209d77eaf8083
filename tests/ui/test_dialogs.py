"""Keys and clicks that come faster than a dialog closes: it is answered once, and nothing ends."""

import itertools

import pytest
from fakes.hands import Hands
from fakes.screens import until
from fakes.states import on_stage
from textual.command import CommandList
from textual.widgets import Button, Input, OptionList

from tui.textual_internals import SteadyScreen

# How each is opened: the view that it lies on, and the keys.
OPENED = {
    "palette": ("watch", ["ctrl+p"]),
    "themes": ("watch", ["t"]),
    "help": ("watch", ["question_mark"]),
    "quit": ("live", ["q"]),
    "stop": ("live", ["s"]),
    "seek": ("replay", ["colon"]),
    "rename": ("rename", []),
    "delete": ("delete", []),
    "sweep": ("home", ["slash", "ctrl+s"]),
    "script": ("home", ["E"]),
}


@pytest.fixture
def hurry(monkeypatch):
    """Return a function that opens a dialog, has it hurried, and returns how often it closed."""
    closed = []

    async def run(name, hurried):
        view, keys = OPENED[name]
        async with on_stage("earlier-runs", view) as stage:
            if keys:
                await stage.press(*keys)
            dialog = stage.app.screen
            monkeypatch.setattr(dialog, "_pop_result_callback", lambda: closed.append(dialog))
            hurried(Hands(stage.app), dialog)
            await stage.pilot.pause()
            assert isinstance(dialog, SteadyScreen)
        return len(closed)

    return run


@pytest.mark.parametrize(("name", "key"), [*zip(OPENED, itertools.cycle(("enter", "escape")))])
async def test_a_key_held_down_closes_a_dialog_once_at_most(hurry, name, key):
    assert await hurry(name, lambda hands, dialog: hands.press(*[key] * 4)) <= 1


@pytest.mark.parametrize("name", ["palette", "themes", "quit", "sweep"])
async def test_many_clicks_close_a_dialog_once_at_most(hurry, name):
    def click(hands, dialog):
        for widget in dialog.query("Button, OptionList, Input"):
            assert isinstance(widget, (Button, OptionList, Input))
            region = widget.region
            hands.click(region.x + 3, region.y + (region.height > 1), times=3)
        # What lies beside it: a click there closes some.
        hands.click(0, 0, times=3)

    assert await hurry(name, click) <= 1


async def test_the_palette_is_taken_off_while_it_looks_for_commands():
    async with on_stage("earlier-runs", "watch") as stage:
        await stage.press("ctrl+p")
        palette = stage.app.screen
        palette._gather_commands("e")
        stage.app.pop_screen()
        await until(stage.pilot, lambda: not palette.query(CommandList))
        palette._gather_commands("ex")
        await stage.pilot.pause()
        assert palette not in stage.app.screen_stack


async def test_the_palette_is_opened_again_before_the_one_before_is_gone():
    async with on_stage("earlier-runs", "watch") as stage:
        for _ in range(3):
            stage.app.action_command_palette()
            await stage.pilot.pause()
            stage.app.screen.dismiss()
        stage.app.action_command_palette()
        stage.app.screen.dismiss()
        stage.app.action_command_palette()
        stage.app.action_command_palette()
        await stage.pilot.pause()
        assert len(stage.app.screen_stack) == 2
