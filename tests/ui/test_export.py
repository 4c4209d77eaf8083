"""What a screen shows is handed on with two keys: a report, Markdown, a picture."""

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import of_this_boot, screen_text, until

from tui.live.replay_screen import ReplayScreen
from tui.live.screen import LiveScreen
from tui.requests import Replay
from tui.screens.export import ExportScreen
from tui.sessions.screen import SessionsScreen


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return the working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def log(log_dir):
    return write_log(log_dir, of_this_boot(recorded_session()))


async def shown_on(pilot, app, kind):
    await until(pilot, lambda: isinstance(app.screen, kind))
    await until(pilot, lambda: "cifar10-cnn" in screen_text(app))


async def on_screen(pilot, app, kind, log):
    """Open a screen of a session."""
    await shown_on(pilot, app, LiveScreen)
    if kind is ReplayScreen:
        app.post_message(Replay([log]))
    if kind is SessionsScreen:
        await pilot.press("r")
    await shown_on(pilot, app, kind)
    if kind is SessionsScreen:
        await until(pilot, lambda: app.screen.table.highlighted is not None)


SCREENS = [LiveScreen, ReplayScreen, SessionsScreen]


@pytest.mark.parametrize("kind", SCREENS)
async def test_two_keys_write_a_report_and_say_where(dlmon_app, log_dir, log, here, kind):
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await on_screen(pilot, app, kind, log)
        await pilot.press("e", "h")
        await until(pilot, lambda: "saved" in screen_text(app))
    (report,) = here.glob("dlmon-report-*.html")
    assert "cifar10-cnn" in report.read_text()


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_all_that_can_be_made_can_be_read_at_every_size(dlmon_app, log_dir, log, here, size):
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=size) as pilot:
        await on_screen(pilot, app, LiveScreen, log)
        await pilot.press("e")
        await until(pilot, lambda: "Share as" in screen_text(app))
        text = screen_text(app)
        buttons = ("│ Report (h) │", "│ Markdown (m) │", "│ Picture (p) │", "┃ Back (esc) ┃")
        texts = [each.follows for each in ExportScreen.ANSWERS]
        assert [each for each in (*buttons, *texts) if each not in text] == []


@pytest.mark.parametrize("kind", SCREENS)
async def test_two_keys_send_markdown_to_the_clipboard(dlmon_app, log_dir, log, here, kind):
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await on_screen(pilot, app, kind, log)
        await pilot.press("e", "m")
        await until(pilot, lambda: app.clipboard)
        assert app.clipboard.startswith("## 20261120-145600-cifar10-cnn")
        await until(pilot, lambda: "clipboard" in screen_text(app))
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("kind", SCREENS)
async def test_two_keys_save_a_picture_of_the_screen_without_the_question(
    dlmon_app, log_dir, log, here, kind
):
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await on_screen(pilot, app, kind, log)
        await pilot.press("e", "p")
        await until(pilot, lambda: "saved" in screen_text(app))
        assert isinstance(app.screen, kind)
    (picture,) = here.glob("dlmon-*.svg")
    text = picture.read_text()
    assert "cifar10" in text
    assert "Hand" not in text


@pytest.mark.parametrize(("key", "said"), [("h", "can't be written"), ("p", "can't be saved")])
async def test_a_folder_that_cant_be_written_is_one_sentence(
    dlmon_app, log_dir, log, here, monkeypatch, key, said
):
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await on_screen(pilot, app, LiveScreen, log)
        gone = here / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        await pilot.press("e", key)
        await until(pilot, lambda: said in " ".join(screen_text(app).split()))


async def test_a_log_that_is_gone_is_one_sentence(dlmon_app, log_dir, log, here):
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await on_screen(pilot, app, LiveScreen, log)
        log.unlink()
        await pilot.press("e", "h")
        await until(pilot, lambda: "session.jsonl" in screen_text(app))
    assert list(here.iterdir()) == []
