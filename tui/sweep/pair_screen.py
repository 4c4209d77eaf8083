"""The screen of an experiment of pairs: their ratios, and where the difference comes from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Container

from dlmon.comparison.compared_run import RATE_UNITS
from dlmon.figures.comparison import verdicts
from dlmon.figures.pairs import (
    causes_in,
    claim_of,
    difference_text,
    pair_findings,
    part_text,
    rate_text,
    side_headings,
    side_names,
    sides_compared,
    sides_text,
    verdict_in_short,
)
from dlmon.log.folder import log_of
from dlmon.session.session import Session
from dlmon.sweep.pairs import BASE, NEW, Pair, Verdict, broken_run, verdict_of
from dlmon.sweep.plan import Plan
from dlmon.sweep.progress import Sweep
from dlmon.sweep.runner import SweepRun
from dlmon.sweep.variants import AS_IT_IS
from tui.drawing.pair_dots import axis_reach, axis_row, dot_row, interval_row
from tui.messages import ShowSweptSession
from tui.screens.question import QuestionScreen
from tui.sweep.chart import RunCurves
from tui.sweep.experiment_screen import SweepStopScreen
from tui.sweep.sweep_screen import SweepProgress, SweepScreen, SweepSentences, SweepTopLine
from tui.widgets.headline import Headline
from tui.widgets.lines import (
    ACCENT,
    APART,
    BAD,
    GOOD,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    TextRow,
    fit,
    fit_right,
    shows,
)
from tui.widgets.tables import MARGIN, RowList

_NUMBER, _RATE, _CHANGE = 4, 11, 9
_PART, _MS, _DIFFERENCE = 20, 10, 18
_LONGEST_BAR, BLOCK = 40, "█"
_MOST_PARTS, _LONGEST_NAME = 8, 22
_WITH_CURVES, _LEAST_ROWS = 34, 6
# The heading, the row of all pairs and the border.
_AROUND_PAIRS = 4


def _headings(names: tuple[str, str], width: int) -> list[str]:
    """Return the names of both sides as headings of at least this width.

    They are base and new where they look alike when cut.
    """
    cut = [fit_right(name, max(width, min(_LONGEST_NAME, cell_len(name)))) for name in names]
    return cut if cut[0] != cut[1] else [fit_right(name, width) for name in ("base", "new")]


class PairTopLine(SweepTopLine):
    """One row: the script and both sides, and how far the experiment is."""

    def head(self, plan: Plan) -> TextRow:
        base, new = side_names(plan)
        return (
            ("dlmon  ", ACCENT),
            ("ab  ", PLAIN),
            (plan.workloads[0], STRONG),
            (f"  {base} (base) → {new} (new)", MUTED),
        )


class PairRows(RowList):
    """The pairs, the newest last, below the interval of all."""

    _verdict: Verdict | None = None
    _to = 0.0
    _is_over = False
    _headings: Sequence[str] = ()

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return () if self._verdict is None else self._verdict.pairs

    @property
    def count(self) -> int:
        return len(self.pairs)

    def show(self, sweep: Sweep) -> None:
        """Show the pairs; the highlight follows the newest one until it is moved."""
        before, self._is_over = self.count, sweep.closed is not None
        self._verdict = verdict_of(sweep)
        self._headings = _headings(side_headings(sweep.plan), _RATE)
        self._to = 0.0 if sweep.plan.pairs is None else sweep.plan.pairs.to
        if self.index >= before - 1:
            self.highlight(self.count - 1)
        self.redraw()

    def heading(self, width: int) -> TextRow:
        texts = f"{'pair':>{_NUMBER}}  {'  '.join(self._headings)}"
        room = self._room(width)
        return ((f"{texts}  {'new/base':>{_CHANGE}}  {axis_row(self._reach, room)}", MUTED),)

    def row_of(self, index: int, width: int) -> TextRow:
        assert self._verdict is not None
        pair = self.pairs[index]
        rates = (
            f"{rate_text(rate):>{cell_len(name)}}"
            for rate, name in zip(pair.rates, self._headings, strict=True)
        )
        change = "" if pair.ratio is None else verdicts.change(pair.ratio)
        is_set_aside = pair.set_aside is not None
        row = f"{pair.number:>{_NUMBER}}  {'  '.join(rates)}  {change:>{_CHANGE}}  "
        dots = dot_row(pair.ratio, is_set_aside, self._reach, self._room(width))
        return ((row, MUTED if is_set_aside else PLAIN), (dots, MUTED if is_set_aside else ACCENT))

    def foot(self, width: int) -> TextRow:
        """Return the row of all pairs that count."""
        ratio = None if self._verdict is None else self._verdict.ratio
        change = "" if ratio is None else verdicts.change(ratio.value)
        rates = sum(APART + cell_len(name) for name in self._headings)
        before = f"{'all':>{_NUMBER}}{'':{rates}}  {change:>{_CHANGE}}  "
        style = STRONG
        if ratio is not None and ratio.is_proven:
            style = GOOD if ratio.value > 1 else BAD
        return (before, STRONG), (interval_row(ratio, self._reach, self._room(width)), style)

    def draw(self, width: int, height: int) -> list[TextRow]:
        if not self.count:
            text = "no pair is complete" if self._is_over else "no pair yet"
            row: TextRow = ((text, MUTED),)
            return [row][:height]
        return [*super().draw(width, height - 1), self.foot(width - MARGIN)]

    @property
    def _reach(self) -> float:
        ratios = [pair.ratio for pair in self.pairs if pair.ratio is not None]
        ratio = None if self._verdict is None else self._verdict.ratio
        return axis_reach(ratios, ratio, self._to)

    def _room(self, width: int) -> int:
        rates = sum(map(cell_len, self._headings))
        return max(1, width - (_NUMBER + rates + _CHANGE + 4 * APART + 1))


_BEFORE_A_PAIR = (
    "the first run of each side is thrown away, because it warms up what later runs find"
)


class PartRows(Lines):
    """The parts of a step of both sides, with their differences."""

    DEFAULT_CLASSES = "panel"

    def rows(self, width: int, height: int, sweep: Sweep) -> list[TextRow]:
        causes = causes_in(sweep)
        if causes is None:
            over = "not known: no pair is complete"
            return [((over if sweep.closed else "known once a pair is complete", MUTED),)]
        base, new = _headings(side_headings(sweep.plan), _MS)
        before_bar = _PART + cell_len(base) + cell_len(new) + 3 * APART + _DIFFERENCE
        rows: list[TextRow] = [((f"{'':{_PART}}  {base}  {new}  difference", MUTED),)]
        parts = [*([causes.step] if causes.step is not None else []), *causes.parts]
        longest_ms = max((abs(part.difference_ms) for part in parts), default=0.0)
        for part in parts:
            name = "step" if part is causes.step else part_text(part.part)
            style = PLAIN
            if part.is_proven:
                style = BAD if part.difference_ms > 0 else GOOD
            share = abs(part.difference_ms) / longest_ms if longest_ms else 0.0
            room = max(0, width - before_bar)
            base_ms, new_ms = sides_text(part)
            values = f"{base_ms:>{cell_len(base)}}  {new_ms:>{cell_len(new)}}"
            rows.append(
                (
                    (fit(name, _PART), STRONG if part is causes.step else PLAIN),
                    (f"  {values}  ", PLAIN),
                    (fit(difference_text(part), _DIFFERENCE), style),
                    (BLOCK * round(share * min(room, _LONGEST_BAR)), style),
                )
            )
        return rows

    show = shows(rows)


class PairPanels(Container):
    """The pairs, the parts of a step, and the losses of both sides where there is room."""

    _sweep: Sweep | None = None

    def compose(self) -> ComposeResult:
        yield PairRows(id="table")
        yield PartRows(id="parts")
        yield RunCurves()

    def on_mount(self) -> None:
        self.pairs, self._curves = self.query_one(PairRows), self.query_one(RunCurves)
        self._curves.display = False
        self.query_one(PartRows).set_titles("Where it comes from", "ms a step")

    @property
    def session(self) -> str | None:
        """The session of new in the highlighted pair."""
        pairs = self.pairs.pairs
        return pairs[max(0, self.pairs.index)].new.session if pairs else None

    def show(self, sweep: Sweep) -> None:
        if sweep is not self._sweep:
            self._sweep = sweep
            self.remove_class("-alone")
            self._curves.forget()
            # The newest pair of the other experiment is highlighted.
            self.pairs.move(self.pairs.count)
        unit = RATE_UNITS[verdict_of(sweep).metric]
        self.pairs.set_titles(f"Pairs, {unit}")
        self.pairs.show(sweep)
        causes, parts = causes_in(sweep), self.query_one(PartRows)
        # As high as its rows, its heading and its border.
        parts.styles.height = 3 if causes is None else min(_MOST_PARTS, len(causes.parts)) + 4
        parts.show(sweep)
        self.pairs.styles.max_height = max(_LEAST_ROWS, self.pairs.count + _AROUND_PAIRS)

    def show_alone(self, session: Session) -> None:
        """Draw the losses of a run that is no run of a pair."""
        self.add_class("-alone")
        self._curves.take(BASE, session)
        self._curves.display = self._curves.has_curves
        self._curves.show_runs(BASE, AS_IT_IS)

    def show_current(self, run: SweepRun) -> None:
        """Draw the losses of both sides where there is room below the pairs."""
        for current in run.current.values():
            if current.follower is not None:
                self._curves.take(current.slot.combination, current.follower.session)
        has_room = self.screen.size.height >= _WITH_CURVES
        has_curves = self._curves.display = self._curves.has_curves and has_room
        self.pairs.styles.height = self.pairs.styles.max_height if has_curves else "1fr"
        self._curves.show_runs(NEW, side_names(run.sweep.plan)[NEW])


def show_headline(headline: Headline, sweep: Sweep, sentences: Sequence[str]) -> None:
    """Show the verdict of an experiment of pairs, and the sentences behind it."""
    claim = claim_of(verdict_of(sweep))
    is_bad = broken_run(sweep) is not None or claim == "slower"
    style = BAD if is_bad else GOOD if claim == "faster" else STRONG
    headline.show(verdict_in_short(sweep), sentences or [_BEFORE_A_PAIR], style)


class PairStopScreen(SweepStopScreen):
    """Answers `stop`, `after` or `stay`."""

    QUESTION = "Stop these pairs?"


class PairScreen(SweepScreen):
    """An experiment of pairs, whose runs this screen starts."""

    HELP_PAGES = (Path(__file__).with_name("pairs.md"),)
    STOP: ClassVar[type[QuestionScreen]] = PairStopScreen
    RUNS: ClassVar[str] = "Pairs are still being run."

    def compose_parts(self) -> ComposeResult:
        yield PairTopLine()
        yield Headline(id="headline")
        yield PairPanels(id="sweep")
        yield SweepSentences(id="runs")
        yield SweepProgress(id="progress")

    def prepare_parts(self) -> None:
        self._panels = self.query_one(PairPanels)

    def paint_results(self) -> None:
        sweep = self.run.sweep
        self._panels.show(sweep)
        # Without a pair, the sentences and the output of a run that failed have the whole screen.
        has_no_pair = self.run.ended and not verdict_of(sweep).pairs
        could_not_go_on = has_no_pair and self.run.problem is not None
        self.set_class(could_not_go_on or (has_no_pair and bool(self.run.last_lines)), "-failed")
        sentences = pair_findings(sweep)
        if verdict_of(sweep).ratio is not None and broken_run(sweep) is None:
            sentences[0] = sides_compared(sweep)
        headline = self.query_one(Headline)
        if could_not_go_on:
            headline.show("FAILED", ["the experiment could not go on"], BAD)
        else:
            show_headline(headline, sweep, sentences)
        self.paint_current()

    def paint_highlighted(self) -> None:
        """Do nothing: all sentences are about all pairs."""

    def paint_current(self) -> None:
        self._panels.show_current(self.run)

    def action_show(self) -> None:
        """Show the current session, else the run that failed, else new of the highlighted pair."""
        if self.show_current(next(iter(self.run.current.values()), None)):
            return
        broken = broken_run(self.run.sweep)
        session = self._panels.session if broken is None else broken[1].session
        if session is not None:
            log = log_of(self.run.directory / session)
            self.post_message(ShowSweptSession(log, None, session))
        else:
            self.notify("nothing was run yet", severity="warning", markup=False)

    def action_move(self, steps: int) -> None:
        self._panels.pairs.move(steps)

    def action_move_page(self, direction: int) -> None:
        self._panels.pairs.move_page(direction)
