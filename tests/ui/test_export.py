"""What a screen shows is handed on with two keys: a report, Markdown, a picture."""

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import of_this_boot, screen_text, until

from tui.live.live_screen import LiveScreen
from tui.live.replay_screen import ReplayScreen
from tui.messages import Replay
from tui.sessions.sessions_screen import SessionsScreen


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


@pytest.mark.parametrize("kind", [LiveScreen, ReplayScreen, SessionsScreen])
async def test_two_keys_write_a_report_send_markdown_and_save_a_picture(
    dlmon_app, log_dir, log, here, kind
):
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await on_screen(pilot, app, kind, log)
        await pilot.press("e", "m")
        await until(pilot, lambda: app.clipboard)
        assert app.clipboard.startswith("## 20261120-145600-cifar10-cnn")
        await until(pilot, lambda: "clipboard" in screen_text(app))
        assert list(here.iterdir()) == []
        # The picture is of the screen without the question.
        for key, pattern, hidden in (
            ("p", "dlmon-*.svg", "Hand"),
            ("h", "dlmon-report-*.html", "\x1b"),
        ):
            app.clear_notifications()
            await until(pilot, lambda: "saved" not in screen_text(app))
            await pilot.press("e", key)
            await until(pilot, lambda: "saved" in screen_text(app))
            assert isinstance(app.screen, kind)
            (written,) = here.glob(pattern)
            assert "cifar10" in written.read_text()
            assert hidden not in written.read_text()


async def test_what_cant_be_written_or_read_is_one_sentence(
    dlmon_app, log_dir, log, here, monkeypatch
):
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await on_screen(pilot, app, LiveScreen, log)
        gone = here / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        for key, said in (("h", "can't be written"), ("p", "can't be saved")):
            await pilot.press("e", key)
            await until(pilot, lambda said=said: said in " ".join(screen_text(app).split()))
        monkeypatch.chdir(here)
        log.unlink()
        await pilot.press("e", "h")
        await until(pilot, lambda: "session.jsonl" in screen_text(app))
    assert list(here.iterdir()) == []
