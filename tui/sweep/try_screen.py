"""The screen of `dlmon try`: what is tried, and the pairs of the highlighted one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult

from dlmon.figures import units
from dlmon.figures.tries import (
    best_sentences,
    best_so_far,
    tries_findings,
    tries_headline,
    tries_notes,
    tries_problems,
    tries_status,
    tries_table,
    try_headline,
    try_sentences,
)
from dlmon.log.folder import log_of
from dlmon.sweep.tries import Try, TryRun
from tui.messages import ShowSweptSession
from tui.screens.question import AnswerButton, QuestionScreen, stay
from tui.sweep.experiment_screen import ExperimentScreen
from tui.sweep.pair_screen import PairPanels, show_headline
from tui.sweep.sweep_screen import SweepProgress, SweepSentences, SweepTable, current_text
from tui.widgets.headline import Headline
from tui.widgets.lines import ACCENT, BAD, PLAIN, STRONG, OneLine, TextRow, joined, shows


class TryTopLine(OneLine):
    """One row: the script, how many settings were tried, and the time so far."""

    def rows(self, width: int, height: int, run: TryRun, elapsed_s: float) -> list[TextRow]:
        head: TextRow = (("dlmon  ", ACCENT), ("try  ", PLAIN))
        name = (run.job.workload, STRONG)
        status = ((f"{tries_status(run)}  {units.clock(elapsed_s)}", PLAIN),)
        return [joined((*head, name), status, width)]

    show = shows(rows)


class TryStopScreen(QuestionScreen):
    """Answers `stop` or `stay`."""

    QUESTION = "Stop trying?"
    ANSWERS = (
        AnswerButton("stop", "s", "Stop now", "what was proven is kept", "error", "Now"),
        stay("Go on"),
    )
    ON_CTRL_C = "stop"


class TryScreen(ExperimentScreen):
    """Settings that are tried in a script, whose runs this screen starts."""

    CSS_PATH = "sweep.tcss"
    HELP_PAGES = (Path(__file__).with_name("tries.md"), Path(__file__).with_name("pairs.md"))
    STOP: ClassVar[type[QuestionScreen]] = TryStopScreen
    RUNS: ClassVar[str] = "Settings are still being tried."

    run: TryRun
    _table: SweepTable
    _shown: Try | None = None

    def __init__(self, run: TryRun, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(run, "", clock)

    @property
    def end_text(self) -> str:
        return ": ".join(["dlmon try", *tries_findings(self.run)[:1]])

    def compose_parts(self) -> ComposeResult:
        yield TryTopLine()
        yield Headline(id="headline")
        yield SweepTable(id="tries")
        yield PairPanels(id="sweep")
        yield SweepSentences(id="runs")
        yield SweepProgress(id="progress")

    def prepare_parts(self) -> None:
        self._table, self._panels = self.query_one(SweepTable), self.query_one(PairPanels)
        self._table.set_titles("Settings to try")

    @property
    def _highlighted(self) -> Try | None:
        tries = self.run.tries
        return tries[self._table.index] if self._table.index < len(tries) else None

    def paint(self) -> None:
        if self._has_left:
            return
        run = self.run
        if self._changed or len(run.tries) != self._table.count:
            self._changed = False
            self._paint_tries()
        if not run.tries:
            word, sentences = tries_headline(run)
            self.query_one(Headline).show(word, sentences, BAD if tries_problems(run) else STRONG)
        if run.experiment is None and run.follower is not None:
            self._panels.display = True
            self._panels.show_alone(run.follower.session)
        elif run.experiment is not None and not run.ended and self._highlighted is run.current:
            self._panels.show_current(run.experiment)
        self.query_one(TryTopLine).show(run, self.elapsed_s)
        progress = self.query_one(SweepProgress)
        progress.display = run.experiment is not None and not run.ended
        if run.experiment is not None:
            progress.show(run.experiment)
        self._paint_run()

    def _paint_tries(self) -> None:
        self._table.display = bool(self.run.tries)
        self._table.show(tries_table(self.run.tries, self.run.ended), range(len(self.run.tries)))
        # As high as its rows, its heading and its border.
        self._table.styles.height = len(self.run.tries) + 3
        if self._follows and self.run.current is not None:
            self._table.highlight(self.run.tries.index(self.run.current))
        self._paint_pairs()

    def paint_highlighted(self) -> None:
        """Show another setting; a highlighted pair, which is of the same one, changes nothing."""
        if self._highlighted is not self._shown:
            self._paint_pairs()

    def _paint_pairs(self) -> None:
        """Show the pairs of the highlighted setting, if it was tried."""
        tried, headline = self._highlighted, self.query_one(Headline)
        self._shown = tried
        sweep = None if tried is None else tried.sweep
        self._panels.display = sweep is not None
        if tried is not None and sweep is not None:
            best = best_so_far(self.run.tries, tried)
            if best is not None and best.sweep is not None:
                show_headline(headline, best.sweep, best_sentences(best, tried))
            else:
                show_headline(headline, sweep, try_sentences(tried))
            self._panels.show(sweep)
        elif tried is not None:
            headline.show(*try_headline(tried))

    def _paint_run(self) -> None:
        run, line = self.run, self.query_one("#runs", SweepSentences)
        problems = tries_problems(run)
        # Without a setting, the headline says what the problem is.
        sentences, style = [*run.last_lines, *(problems if run.tries else ())], BAD
        if not problems:
            sentences, style = tries_notes(run.tries) if run.ended else [], PLAIN
            if run.experiment is not None and run.experiment.current:
                current = run.experiment.current.values()
                sentences = [
                    *run.experiment.notes,
                    *(current_text(run.experiment, c) for c in current),
                ]
        # Between two runs, the line of the last one stays.
        if sentences or run.ended or run.experiment is None:
            line.display = bool(sentences)
            line.show(sentences, style)

    def action_show(self) -> None:
        """Show the run that is under way, or the run of new in the highlighted pair."""
        tried, current = self._highlighted, self.run.under_way
        is_over = tried is not None and tried.sweep is not None and tried.sweep.closed is not None
        if current is not None and not is_over:
            session = current.session.header.id
            self.post_message(ShowSweptSession(current.path, None, session, True))
        elif (
            tried is not None
            and tried.sweep is not None
            and (session_of_pair := self._panels.session) is not None
        ):
            log = log_of(Path(self.run.job.log_dir) / session_of_pair)
            self.post_message(ShowSweptSession(log, None, session_of_pair))
        else:
            self.notify("nothing was run yet", severity="warning", markup=False)
