"""The last row: the keys that can be pressed now, with the key that lists them all in sight."""

from textual.app import App
from textual.binding import Binding
from textual.widgets import Input

from tui.widgets.key_footer import KeyFooter


class Stage(App):
    """A few keys, more than the row has room for."""

    BINDINGS = [  # noqa: RUF012
        Binding("question_mark", "app.help", "Help", key_display="?", tooltip="Explain"),
        *(Binding(key, f"note('{key}')", f"Command {key}") for key in "abcdef"),
    ]
    asked = 0

    def compose(self):
        yield Input()
        yield KeyFooter()

    def action_help(self):
        self.asked += 1


async def test_help_is_in_sight_at_the_right_end_and_a_click_presses_it():
    app = Stage()
    async with app.run_test(size=(40, 5)) as pilot:
        app.set_focus(None)
        await pilot.pause()
        await pilot.click(KeyFooter, offset=(38, 0))
        await pilot.pause()
    assert app.asked == 1


async def test_the_keys_that_have_room_are_shown_and_follow_what_can_be_pressed():
    app = Stage()
    async with app.run_test(size=(40, 5)) as pilot:
        app.set_focus(None)
        await pilot.pause()
        footer = app.query_one(KeyFooter)
        assert footer.render().plain == " a Command a  b Command b        ? Help "
        await pilot.resize_terminal(120, 5)
        app.bind("f2", "note", description="Banana")
        app.refresh_bindings()
        await pilot.pause()
        assert "f Command f  f2 Banana " in footer.render().plain
