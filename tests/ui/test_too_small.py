"""A terminal that has no room for a screen: it says so, and no key does what can't be seen."""

from functools import partial

import pytest
from fakes.recorded import recorded_session
from fakes.screens import (
    FakeSupervisor,
    dlmon_app_with,
    fake_machine,
    of_this_boot,
    screen_text,
    until,
)
from textual import events
from textual.command import CommandPalette

from dlmon.cli.start import Sources
from tui.home.home_screen import HomeScreen
from tui.live.live_screen import LiveScreen
from tui.screens.session_controls import QuitScreen
from tui.widgets.text_field import TextField

SMALL, LARGE = (100, 13), (100, 30)


@pytest.fixture
def launches():
    return []


@pytest.fixture
def dlmon_app(clock, sensing, launches):
    """Return what makes the app, with a launcher that notes what it was asked for."""

    def launch(job):
        launches.append(job)
        return FakeSupervisor()

    return dlmon_app_with(Sources(machine=partial(fake_machine, clock=clock), launch=launch))


def says_so(app):
    text = screen_text(app)
    return "This window is too small" in text and "press Ctrl+Q to quit" in text


async def show_home(pilot, app):
    await until(pilot, lambda: app.screen.query("RunForm"))
    await pilot.pause()


async def test_no_key_reaches_what_the_message_covers(dlmon_app, log_dir, launches):
    app = dlmon_app(log_dir)
    async with app.run_test(size=LARGE) as pilot:
        await show_home(pilot, app)
        await pilot.press("slash", "escape")
        field = app.screen.query_one("#epochs", TextField)
        field.focus()
        await pilot.pause()
        before = screen_text(app)
        await pilot.resize_terminal(*SMALL)
        assert says_so(app)
        for key in ("7", "q", "enter", "tab", "escape", "f2", "f5", "ctrl+p", "ctrl+r", "f1"):
            await pilot.press(key)
        app.post_message(events.Paste("9"))
        await pilot.pause()
        assert says_so(app)
        await pilot.resize_terminal(*LARGE)
        await until(pilot, lambda: screen_text(app) == before)
        assert isinstance(app.screen, HomeScreen)
        assert (app.focused, field.value) == (field, "")
        assert launches == []


async def test_a_menu_is_covered_too_and_takes_no_key(dlmon_app, log_dir):
    app = dlmon_app(log_dir)
    async with app.run_test(size=LARGE) as pilot:
        await show_home(pilot, app)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await pilot.resize_terminal(*SMALL)
        await until(pilot, lambda: says_so(app))
        await pilot.press("t", "h", "enter", "escape")
        await pilot.resize_terminal(*LARGE)
        await until(pilot, lambda: not says_so(app))
        assert isinstance(app.screen, CommandPalette)
        assert app.focused.value == ""


async def test_whoever_leaves_a_run_is_asked_where_the_question_can_be_seen(
    dlmon_app, log_dir, growing_log
):
    log = growing_log(of_this_boot(recorded_session("training")))
    supervisor = FakeSupervisor()
    app = dlmon_app(log_dir, log=log.path, started=supervisor)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LiveScreen) and app.screen.is_mounted)
        await pilot.press("s", "d", "enter")
        assert isinstance(app.screen, LiveScreen)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, QuitScreen))
        assert "cifar10-cnn is still training." in screen_text(app)
        assert not says_so(app)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))
        assert supervisor.words == []
