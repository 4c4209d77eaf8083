"""The screen of an experiment of pairs: its pairs, their interval, and where it comes from.

The pictures are texts in `__snapshots__`; after a change that is meant to show, look at them
and accept with `pytest tests/ui/sweep/test_pair_screen.py --snapshot-update`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.screens import Shown
from fakes.still_pairs import MS, StillRun
from fakes.sweeps import pairs_plan, result_of

from dlmon.records import Began, Closed, Doubt, Ended, Outcome, RunStatus, Slot, Status
from dlmon.sweep.log import SweepWriter, new_header
from tui.drawing.pair_dots import axis_reach, dot_row, interval_row
from tui.messages import ShowSweptSession
from tui.sweep.pair_screen import PairRows, PairScreen

SIZES = ((80, 24), (120, 40))


class ShownPairs(Shown):
    def __init__(self, run):
        self.run = run
        super().__init__(PairScreen(run, clock=lambda: 100.0))


@pytest.fixture
def show(tmp_path):
    writers = []

    def make(size, vary=None):
        writers.append(SweepWriter.create(tmp_path, new_header(pairs_plan(vary), 1, 1.0)))
        shown = ShownPairs(StillRun(writers[-1]))
        return shown, shown.on(size)

    yield make
    for writer in writers:
        writer.close()


@pytest.mark.parametrize("size", SIZES)
async def test_the_pairs_their_interval_and_the_parts(show, size, text_snapshot):
    shown, context = show(size)
    async with context:
        shown.run.make(*MS)
        shown.screen.tick()
        await shown.pilot.pause()
        assert "SLOWER 1.064×  workers 8 against workers 4 (1.0" in shown.text
        assert "all of it is waiting for data, +1.28" in shown.text
        assert shown.text == text_snapshot


async def test_before_a_pair_it_says_what_the_first_runs_are_for(show):
    shown, context = show((80, 24))
    async with context:
        assert "the first run of each side is" in shown.text


async def over(shown):
    """End the experiment, and paint it."""
    shown.run.over.set()
    await shown.pilot.pause()
    shown.screen.tick()
    await shown.pilot.pause()


async def test_at_an_end_without_a_pair_nothing_is_still_to_come(show):
    shown, context = show((80, 24))
    async with context:
        shown.run.make()
        shown.run._write(Closed(Status.COMPLETED, 1.0))
        await over(shown)
        assert "no pair is complete" in shown.text
        assert "no pair yet" not in shown.text
        assert "known once" not in shown.text


async def test_a_run_that_fails_leaves_its_output_and_what_helps_on_the_screen(show):
    shown, context = show((80, 24), {"commit": ["main", "HEAD"]})
    async with context:
        slot = Slot(0, 0)
        shown.run._write(Began(slot, "session-0-0", 1.0))
        failed = Outcome(RunStatus.FAILED, "exit code 1", session="session-0-0")
        shown.run._write(Ended(slot, failed, 2.0))
        shown.run._write(Closed(Status.FAILED, 2.0))
        shown.run.last_lines = ("FileNotFoundError: [Errno 2] No such file or directory: 'x.bin'",)
        await over(shown)
        await shown.pilot.press("enter")
        assert "FAILED" in shown.text
        assert "No such file or directory: 'x.bin'" in shown.text
        assert "no pair is complete" not in shown.text
        assert "--resume" not in shown.text
        assert [m.session for m in shown.asked(ShowSweptSession)] == ["session-0-0"]


async def test_an_experiment_that_could_not_begin_says_so_at_the_top(show):
    shown, context = show((80, 24))
    async with context:
        shown.run.problem = "the commit main can't be copied: the disk is full"
        await over(shown)
        assert "FAILED" in shown.text
        assert "NOT YET" not in shown.text
        assert "the disk is full" in shown.text


async def test_a_problem_after_some_pairs_leaves_their_verdict_at_the_top(show):
    shown, context = show((80, 24))
    async with context:
        shown.run.make(*MS)
        shown.run.problem = "the log can't be written: the disk is full"
        await over(shown)
        assert "against workers 4" in shown.text
        assert "the disk is full" in shown.text


async def test_sides_that_look_alike_when_cut_are_called_base_and_new(show):
    shown, context = show((80, 24), {"workers": ["a long name, first", "a long name, second"]})
    async with context:
        shown.run.make(*MS)
        shown.screen.tick()
        await shown.pilot.pause()
        assert "pair         base          new" in shown.text


async def test_enter_shows_a_session_of_the_highlighted_pair(show):
    shown, context = show((80, 24))
    async with context:
        shown.run.make(*MS)
        shown.screen.tick()
        await shown.pilot.press("up", "enter")
        await shown.pilot.pause()
        assert [m.session for m in shown.asked(ShowSweptSession)] == ["session-1-4"]


async def test_a_pair_that_is_set_aside_is_drawn_hollow_and_named(show):
    shown, context = show((80, 24))
    async with context:
        aside = replace(result_of(0.4), against={Doubt.STEAL: "steal 9 %"})
        shown.run.make(*MS[:3], (0.2, aside))
        shown.screen.tick()
        await shown.pilot.pause()
        assert "○" in shown.rows(PairRows.__name__)[4]
        assert "1 set aside: CPU steal in workers 8" in " ".join(shown.text.split())


@pytest.mark.parametrize("names", [["界" * 40, "b" * 300], ["a", "[red]b"]])
async def test_names_of_any_length_fit(show, names):
    shown, context = show((80, 24), {"workers": names})
    async with context:
        shown.run.make(*MS[:1])
        shown.screen.tick()
        await shown.pilot.pause()
        assert len(shown.text.splitlines()) <= 24
        assert "[red]" not in names[1] or "[red]" in shown.text


def test_dots_stand_where_their_ratio_is():
    reach = axis_reach([0.5, 2.0], None, 0.02)
    assert dot_row(1.0, False, reach, 21).index("●") == 10
    left, right = (dot_row(ratio, False, reach, 21).index("●") for ratio in (0.5, 2.0))
    assert left + right == 20
    assert left < 10 < right
    assert set(interval_row(None, reach, 21)) == {" ", "│"}
