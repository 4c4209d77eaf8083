"""A session that was over before the sensors took a sample: nothing on it is to come."""

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import Clock, OneScreen, screen_text, until

from dlmon.records import Machine
from dlmon.session.replay import ReplaySource
from tui.live.replay_screen import ReplayScreen

NARROW, WIDE = (80, 24), (120, 40)
NOT_TAKEN = "no sample was taken"


def without_samples(**options):
    return [one for one in recorded_session(**options) if not isinstance(one, Machine)]


def says_what_is_to_come(text):
    return "waiting for the first sample" in text or "reading yet" in text


@pytest.mark.parametrize(
    ("size", "gpus", "status"),
    [(NARROW, 0, "completed"), (WIDE, 2, "failed")],
)
async def test_a_session_that_is_over_says_that_no_sample_was_taken(
    show_session, size, gpus, status
):
    async with show_session(without_samples(status=status, gpus=gpus), size=size) as shown:
        assert NOT_TAKEN in "\n".join(shown.rows("#cpu"))
        assert not says_what_is_to_come(shown.text)
        await shown.press("g")
        await until(shown.pilot, lambda: "Throughput" not in shown.text)
        assert not says_what_is_to_come(shown.text)


async def test_one_that_runs_waits_for_the_first_sample(show_session):
    records = without_samples(reached="training")
    async with show_session(records) as shown:
        assert "waiting for the first sample" in "\n".join(shown.rows("#cpu"))
        assert NOT_TAKEN not in shown.text


async def test_its_replay_says_so_at_the_end(tmp_path):
    source = ReplaySource(write_log(tmp_path, without_samples()), Clock(10**12))
    screen = ReplayScreen(source)
    app = OneScreen(screen)
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: source.ahead_share is None)
        await pilot.press("end")
        await until(pilot, lambda: NOT_TAKEN in screen_text(app))
        assert not says_what_is_to_come(screen_text(app))
