"""A session that was over before the sensors took a sample: nothing on it is to come."""

from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import Clock, OneScreen, screen_text, until

from dlmon.records import Machine
from dlmon.session.replay import ReplaySource
from tui.live.replay_screen import ReplayScreen

NARROW, WIDE = (80, 24), (120, 40)


def without_samples(**options):
    return [one for one in recorded_session(**options) if not isinstance(one, Machine)]


def says_what_is_to_come(text):
    return "waiting for the first sample" in text or "reading yet" in text


@pytest.mark.parametrize(
    ("size", "gpus", "status"),
    [(NARROW, 0, "completed"), (WIDE, 2, "failed")],
)
async def test_a_session_that_is_over_has_no_panel_of_a_machine_that_was_not_read(
    show_session, size, gpus, status
):
    async with show_session(without_samples(status=status, gpus=gpus), size=size) as shown:
        assert shown.rows("#cpu") == []
        assert not says_what_is_to_come(shown.text)
        await shown.press("g")
        await until(shown.pilot, lambda: "Throughput" not in shown.text)
        assert not says_what_is_to_come(shown.text)


async def test_one_that_trains_has_that_panel_from_the_first_sample_on(show_session):
    records = without_samples(reached="training")
    sample = next(one for one in recorded_session("training") if isinstance(one, Machine))
    async with show_session(records) as shown:
        assert shown.rows("#cpu") == []
        shown.log.write(replace(sample, t=records[-1].t))
        await shown.tick()
        await until(shown.pilot, lambda: "╭─ CPU " in shown.text)


async def test_its_replay_waits_for_none_at_the_end(tmp_path):
    source = ReplaySource(write_log(tmp_path, without_samples()), Clock(10**12))
    screen = ReplayScreen(source)
    app = OneScreen(screen)
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: source.ahead_share is None)
        await pilot.press("end")
        await until(pilot, lambda: "╭─ Loss " in screen_text(app))
        assert not says_what_is_to_come(screen_text(app))
