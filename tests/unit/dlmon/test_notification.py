"""The desktop notification at the end of a run."""

import io

import pytest
from fakes.sessions import eventually

from dlmon.notification import DesktopAlerts, desktop_notification, notify_send
from dlmon.records import Alert, AlertEvent


def test_it_is_one_osc_9_sequence_which_no_text_can_end_early():
    assert desktop_notification("mnist completed") == "\x1b]9;dlmon: mnist completed\x07"
    notification = desktop_notification("a\x07b\x1b]52;c;eA==\x07\x1b\\c\x9c" + "d" * 10_000)
    assert notification.startswith("\x1b]9;dlmon: ab")
    assert (notification.count("\x1b"), notification.count("\x07")) == (1, 1)
    assert "\x9c" not in notification
    assert len(notification) < 300
    # Nor is it taken for a report of progress.
    assert not desktop_notification("4;1;50").startswith("\x1b]9;4")


def test_a_desktop_that_is_there_is_asked_by_its_own_program(monkeypatch, tmp_path):
    program = tmp_path / "notify-send"
    program.write_text(
        f'#!/bin/sh\nfor word; do echo "$word"; done > {tmp_path}/new\n'
        f"mv {tmp_path}/new {tmp_path}/asked\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":0")
    assert notify_send("--it\x1b[31m failed")
    asked = eventually(lambda: (tmp_path / "asked").exists(), "the notification")
    assert asked
    assert (tmp_path / "asked").read_text().splitlines()[1:] == ["--", "dlmon", "--it failed"]


class Shown:
    """A session that is shown, all of whose log is read."""

    read_share = None
    newest_alert = None

    def __init__(self):
        self.session = self


class Terminal(io.StringIO):
    def isatty(self):
        return True


def alert(text):
    return Alert(5, AlertEvent.NAN, text, 5, False, ())


def test_the_desktop_is_told_once_of_each_alert_that_is_new(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    shown, terminal = Shown(), Terminal()
    desktop = DesktopAlerts(True, terminal)
    shown.read_share, shown.newest_alert = 0.5, alert("from before")
    desktop.notify(shown)
    shown.read_share, shown.newest_alert = None, alert("from before, too")
    desktop.notify(shown)
    assert terminal.getvalue() == ""
    shown.newest_alert = alert("The loss is NaN")
    desktop.notify(shown)
    desktop.notify(shown)
    assert terminal.getvalue() == "\x1b]9;dlmon: The loss is NaN\x07"


@pytest.mark.parametrize(("is_wanted", "terminal"), [(False, Terminal), (True, io.StringIO)])
def test_nothing_is_written_where_that_is_not_wanted_or_to_no_terminal(is_wanted, terminal):
    shown, written = Shown(), terminal()
    desktop = DesktopAlerts(is_wanted, written)
    desktop.notify(shown)
    shown.newest_alert = alert("The loss is NaN")
    desktop.notify(shown)
    assert written.getvalue() == ""
