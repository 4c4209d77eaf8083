"""The desktop notification at the end of a run."""

from tui.notification import desktop_notification


def test_it_is_one_osc_9_sequence():
    assert desktop_notification("mnist completed") == "\x1b]9;dlmon: mnist completed\x07"


def test_no_text_can_end_it_early_or_begin_another():
    notification = desktop_notification("a\x07b\x1b]52;c;eA==\x07\x1b\\c\x9c" + "d" * 10_000)
    assert notification.startswith("\x1b]9;dlmon: ab")
    assert notification.count("\x1b") == 1
    assert notification.count("\x07") == 1
    assert "\x9c" not in notification
    assert len(notification) < 300


def test_it_is_never_taken_for_a_progress_report():
    assert not desktop_notification("4;1;50").startswith("\x1b]9;4")
