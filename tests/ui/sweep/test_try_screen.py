"""The screen of `dlmon try`: what is tried, the pairs of each, and what came of all.

The pictures are texts in `__snapshots__`; after a change that is meant to show, look at them
and accept with `pytest tests/ui/sweep/test_try_screen.py --snapshot-update`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from fakes.screens import A_JOB, Shown
from fakes.still_pairs import MS, StillRun
from fakes.sweeps import pairs_plan

from dlmon.records import Closed, Model, Outcome, PairRule, RunStatus, Slot, Status
from dlmon.records.sweep import Ended
from dlmon.sweep.candidates import Candidate, FirstRun
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.tries import NO_TIME, FirstSession, Try, TryRun
from tui.messages import GoBack, ShowSweptSession
from tui.sweep.pair_screen import PairPanels, PairRows
from tui.sweep.sweep_screen import SweepSentences, SweepTable
from tui.sweep.try_screen import TryScreen, TryStopScreen

SIZES = ((80, 24), (120, 40))
WORKERS = Candidate("num_workers", 4, "waits for data 71 % of a step, and no worker loads it", 0.7)
FUSED = Candidate("fused", "on", "the optimizer takes 12 % of a step, and is not fused", 0.12)
AUTOCAST = Candidate("autocast", "bfloat16", "forward and backward take 60 % of a step", 0.3)
FASTER = [(new, base) for base, new in MS]
FIRST = FirstSession("s", None, None, FirstRun("torch", Model(1000, None, 32, 3200, 100, 1)))


class StillTries(TryRun):
    """Tries whose experiments a test makes; they end when `over` is set."""

    def __init__(self, directory):
        super().__init__(replace(A_JOB, workload="train.py", log_dir=str(directory)), PAIRS, None)
        self.over, self.directory, self.writers = asyncio.Event(), directory, []

    async def run(self):
        await self.over.wait()
        self.ended = True

    def choose(self, *candidates):
        self.first, self.tries = FIRST, [Try(candidate) for candidate in candidates]

    def begin(self, number):
        """Let the experiment of a candidate begin."""
        candidate = self.tries[number].candidate
        plan = pairs_plan({f"set:{candidate.name}": ["as it is", candidate.value]})
        plan = replace(plan, pairs=replace(plan.pairs, until_proven=True))
        for writer in self.writers[-1:]:
            writer.close()
        self.writers.append(SweepWriter.create(self.directory, new_header(plan, 1, number)))
        self.experiment = StillRun(self.writers[-1])
        self.experiment.on_event = self.on_event
        self.experiment.slower = "optimizer" if candidate is FUSED else "wait"
        self.tries[number] = Try(candidate, f"{number}", self.experiment.sweep)

    def close_experiment(self, status=Status.COMPLETED):
        self.experiment._write(Closed(status, 1.0))


PAIRS = PairRule(0.05, 600.0, 10.0)


class ShownTries(Shown):
    def __init__(self, directory):
        self.run = StillTries(directory)
        super().__init__(TryScreen(self.run, clock=lambda: 100.0))

    async def settle(self):
        for _ in range(2):
            self.screen.tick()
            await self.pilot.pause()

    async def end(self):
        self.run.over.set()
        await self.pilot.pause()
        await self.settle()


@pytest.fixture
def shown(tmp_path):
    shown = ShownTries(tmp_path)
    yield shown
    for writer in shown.run.writers[-1:]:
        writer.close()


async def make_all(shown):
    """Try three settings: one is faster, one is slower, one fails."""
    shown.run.choose(WORKERS, FUSED, AUTOCAST)
    for number, pairs in enumerate((FASTER, MS, ())):
        shown.run.begin(number)
        shown.run.experiment.make(*pairs)
        if not pairs:
            failed = Outcome(RunStatus.FAILED, "RuntimeError: no bfloat16 here")
            shown.run.experiment._write(Ended(Slot(1, 1), failed, 1.0))
        shown.run.close_experiment()
    await shown.settle()


@pytest.mark.parametrize("size", SIZES)
async def test_the_settings_and_the_pairs_of_the_one_under_way(shown, size, text_snapshot):
    async with shown.on(size):
        shown.run.choose(WORKERS, FUSED)
        shown.run.begin(0)
        shown.run.experiment.make(*FASTER)
        shown.run.close_experiment()
        shown.run.begin(1)
        shown.run.experiment.make(*MS[:2])
        await shown.settle()
        assert shown.text == text_snapshot


@pytest.mark.parametrize("size", SIZES)
async def test_at_the_end_it_says_what_to_write_and_what_did_not_help(shown, size, text_snapshot):
    async with shown.on(size):
        await make_all(shown)
        await shown.end()
        # What leads stands on top, and nothing is said again below.
        first, second, *_ = shown.rows("#headline")
        assert "FASTER 1.064×  with num_workers 4 (1.059× to 1.069×; 5 pairs)" in first
        assert "write DataLoader(..., num_workers=4)" in second
        assert shown.text.index("FASTER") < shown.text.index("Settings to try")
        assert not shown.screen.query_one("#runs").display
        for setting, state in (("num_workers 4", "faster"), ("fused on", "slower")):
            assert any(
                f" {setting} " in row and f" {state} " in row for row in shown.rows("#tries")
            )
        assert shown.text == text_snapshot


async def test_the_pairs_are_those_of_the_highlighted_setting(shown):
    async with shown.on():
        await make_all(shown)
        assert not shown.screen.query_one(PairRows).count
        await shown.press("up", "up")
        assert shown.screen.query_one(PairRows).count == len(MS)
        assert "FASTER 1.064×" in shown.text
        await shown.press("enter")
        assert [m.session for m in shown.asked(ShowSweptSession)] == ["session-1-5"]
        # What begins later does not move the highlight, until f.
        shown.screen._changed = True
        await shown.settle()
        assert shown.screen.query_one(SweepTable).index == 0
        await shown.press("f")
        assert shown.screen.query_one(SweepTable).index == 2


async def test_a_setting_that_waits_shows_no_pairs_of_another(shown):
    async with shown.on():
        shown.run.choose(WORKERS, FUSED)
        shown.run.begin(0)
        shown.run.experiment.make(*FASTER)
        await shown.settle()
        await shown.press("down")
        assert not shown.screen.query_one(PairPanels).display
        assert "the optimizer takes 12 %" in shown.text


async def test_nothing_to_try_and_no_time_are_said(shown):
    async with shown.on():
        shown.run.choose()
        await shown.end()
        assert "NOTHING TO TRY  the parts of its steps were not measured (--window)" in shown.text


async def test_what_had_no_time_says_so(shown):
    async with shown.on():
        shown.run.choose(WORKERS)
        shown.run.tries = [Try(WORKERS, skipped=NO_TIME)]
        await shown.end()
        assert NO_TIME in shown.text
        assert f"NOT TRIED  num_workers 4: {NO_TIME}" in shown.text


async def test_q_asks_and_stops_the_experiment(shown):
    async with shown.on():
        shown.run.choose(WORKERS)
        shown.run.begin(0)
        await shown.press("q")
        assert isinstance(shown.app.screen, TryStopScreen)
        await shown.press("s")
        assert shown.run.stopping
        assert shown.run.experiment.stopping
        assert not shown.asked(GoBack)
        await shown.end()
        assert [message.screen.exit_code for message in shown.asked(GoBack)] == [130]


async def test_foreign_text_is_no_markup(shown):
    async with shown.on((80, 24)):
        shown.run.choose(WORKERS)
        shown.run.begin(0)
        shown.run.experiment.make()
        failed = Outcome(RunStatus.FAILED, "[red]no[/red] " * 30)
        shown.run.experiment._write(Ended(Slot(1, 1), failed, 1.0))
        shown.run.close_experiment()
        await shown.settle()
        assert "[red]no[/red]" in shown.text
        assert shown.screen.query_one("#runs", SweepSentences) is not None
