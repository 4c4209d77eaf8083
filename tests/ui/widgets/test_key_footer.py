"""The last row: keys that can be pressed by the mouse, and are explained under it."""

from __future__ import annotations

import pytest
from textual.app import App
from textual.binding import Binding
from textual.widgets import Input

from tui.widgets.key_footer import KeyFooter

MOVE = Binding.Group("Move")


class Stage(App):
    """Four keys in the row: one is disabled, two are a group; and one that is hidden."""

    BINDINGS = [  # noqa: RUF012
        Binding("a", "note('a')", "Apple", tooltip="Take an apple"),
        Binding("x", "refused", "Extra"),
        Binding("left", "note('left')", "Back", key_display="←", group=MOVE),
        Binding("right", "note('right')", "On", key_display="→", group=MOVE),
        Binding("h", "note('h')", "Hidden", show=False),
    ]

    def __init__(self):
        super().__init__()
        self.noted = []

    def compose(self):
        yield Input()
        yield KeyFooter()

    def action_note(self, key):
        self.noted.append(key)

    def check_action(self, action, parameters):
        return None if action == "refused" else True

    @property
    def footer(self):
        return self.query_one(KeyFooter)

    @property
    def row(self):
        return self.footer.render().plain


@pytest.fixture
async def stage():
    app = Stage()
    async with app.run_test(size=(60, 5)) as pilot:
        await pilot.pause()
        app.set_focus(None)
        await pilot.pause()
        app.pilot = pilot
        yield app


async def test_keys_stand_in_the_order_of_the_bindings_and_a_group_behind_its_keys(stage):
    assert stage.row == " a Apple  x Extra  ←→ Move "


@pytest.mark.parametrize(
    ("word", "noted"), [("Apple", ["a"]), ("←", ["left"]), ("→", ["right"]), ("Move", [])]
)
async def test_a_click_presses_the_key_under_the_mouse(stage, word, noted):
    await stage.pilot.click(KeyFooter, offset=(stage.row.index(word), 0))
    await stage.pilot.pause()
    assert stage.noted == noted


async def test_the_key_under_the_mouse_is_explained(stage):
    for word, tooltip in [("Apple", "Take an apple"), ("Extra", "Extra"), ("Move", None)]:
        await stage.pilot.hover(KeyFooter, offset=(stage.row.index(word), 0))
        await stage.pilot.pause()
        assert stage.footer.tooltip == tooltip
    await stage.pilot.hover(KeyFooter, offset=(0, 0))
    await stage.pilot.hover(Input)
    await stage.pilot.pause()
    assert stage.footer.tooltip is None


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (26, " a Apple  x Extra  ←→ Move "),
        (25, " a Apple  x Extra       … "),
        (18, " a Apple         … "),
        (1, "… "),
    ],
)
async def test_a_key_that_would_be_cut_is_left_out_and_the_row_says_so(stage, width, row):
    await stage.pilot.resize_terminal(width, 5)
    await stage.pilot.pause()
    assert stage.row == row


async def test_other_keys_are_shown_when_others_can_be_pressed(stage):
    stage.query_one(Input).focus()
    await stage.pilot.pause()
    stage.bind("f2", "note('b')", description="Banana")
    stage.refresh_bindings()
    await stage.pilot.pause()
    assert stage.row == " f2 Banana "


async def test_where_keys_are_left_out_the_row_ends_with_the_key_that_lists_them_all(stage):
    stage.bind("question_mark", "app.help", description="Help", key_display="?")
    asked = []
    stage.action_help = lambda: asked.append(True)
    stage.refresh_bindings()
    await stage.pilot.pause()
    assert stage.row.endswith(" ? Help ")
    await stage.pilot.resize_terminal(31, 5)
    await stage.pilot.pause()
    assert stage.row == " a Apple  x Extra  … ? all keys "
    assert "Help" not in stage.row
    await stage.pilot.click(KeyFooter, offset=(stage.row.index("all keys"), 0))
    await stage.pilot.pause()
    assert asked == [True]
