"""The screen of a sweep: its table, its chart, and the current runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Container, Horizontal

from dlmon.figures import units
from dlmon.figures.sections import LineChart, Table
from dlmon.figures.sweeps import (
    LOST,
    STARTING,
    RunningRow,
    findings,
    headline,
    left_text,
    picture_of,
    plan_text,
    problems_of,
    progress_texts,
    resumed_by,
    run_text,
    running_row,
    slot_text,
    status_of,
    sweep_table,
    swept_text,
)
from dlmon.log.folder import log_of
from dlmon.options.option import UnreadableOption, whole_number_of
from dlmon.options.run_options import option_name
from dlmon.records import Slot
from dlmon.records.sanitize import clean
from dlmon.render.lines import lines_of
from dlmon.render.wrap import shortened
from dlmon.sweep.hosts import CurrentRun
from dlmon.sweep.plan import Combination, Plan, SweepError
from dlmon.sweep.results import order_by_result
from dlmon.sweep.runner import SweepRun
from tui.messages import ShowSweptSession
from tui.screens.form import REPEAT_HINT, Field, FormScreen
from tui.sweep.chart import RunCurves, SweepChart
from tui.sweep.experiment_screen import ExperimentScreen
from tui.widgets.headline import Headline
from tui.widgets.lines import (
    ACCENT,
    APART,
    BAD,
    GOOD,
    MUTED,
    PLAIN,
    STRONG,
    GrowingLines,
    OneLine,
    TextRow,
    bar_on_track,
    joined,
    row_width,
    shows,
    wrapped,
)
from tui.widgets.tables import MARGIN, STYLES, RowList

_WITH_TWO_CHARTS = 100
"""The least width of the screen for two charts beside each other."""
_MOST_CELLS, _LONGEST_BAR = 20, 40


class SweepTopLine(OneLine):
    """One row: the workloads and options of a sweep, and its progress."""

    def rows(self, width: int, height: int, run: SweepRun, elapsed_s: float) -> list[TextRow]:
        progress, name = status_row(run, elapsed_s), self.head(run.sweep.plan)
        if row_width(name) + APART + row_width(progress) > width:
            name = name[2:]
        return [joined(name, progress, width)]

    def head(self, plan: Plan) -> TextRow:
        """Return what is swept."""
        return (
            ("dlmon  ", ACCENT),
            ("sweep  ", PLAIN),
            (swept_text(plan), STRONG),
            (f"  {' × '.join(map(option_name, plan.varied))}", MUTED),
        )

    show = shows(rows)


class SweepSentences(GrowingLines):
    """Sentences below each other, and the number of lines that don't fit."""

    MOST_ROWS: ClassVar[int] = 8

    def rows(
        self, width: int, height: int, sentences: Sequence[str], style: str = PLAIN
    ) -> list[TextRow]:
        lines = [line for sentence in sentences for line in wrapped(sentence, width, height)]
        if len(lines) > height:
            lines[height - 1 :] = [f"… {len(lines) - height + 1} more"]
        return [((line, style),) for line in lines]

    show = shows(rows)


class SweepProgress(OneLine):
    """One row: how many runs are done, a bar, and what is left."""

    def rows(self, width: int, height: int, run: SweepRun) -> list[TextRow]:
        done, left, share = progress_texts(run)
        room = min(_LONGEST_BAR, width - cell_len(done) - cell_len(left) - 2 * APART)
        middle = [(" " * APART, PLAIN), *bar_on_track(share, room)] if room > 0 else []
        return [joined(((done, STRONG), *middle), ((left, PLAIN),), width)]

    show = shows(rows)


def status_row(run: SweepRun, elapsed_s: float) -> TextRow:
    """Return the status of a sweep and the time so far."""
    status = status_of(run)
    if status == "running" and run.stops_after_run:
        status = f"stops after {'these runs' if len(run.current) > 1 else 'this run'}"
    style = STRONG if not run.ended else GOOD if status == "completed" else BAD
    return (status, style), (f"  {units.clock(elapsed_s)}", PLAIN)


def current_text(run: SweepRun, current: CurrentRun) -> str:
    """Return the state of a run that is under way."""
    plan, slot, follower = run.sweep.plan, current.slot, current.follower
    name = slot_text(plan, plan.combinations[slot.combination], slot.repeat)
    if follower is None:
        return f"{name}  starting …"
    if current.is_lost:
        return f"{name}  {follower.problem}"
    return run_text(name, follower.snapshot())


class SweepTable(RowList):
    """The combinations of a sweep."""

    _table: Table | None = None
    _lines: Sequence[TextRow] = ()
    notes: Sequence[str] = ()
    """The reason why each combination has no figure, or a warning about the figure."""

    @property
    def count(self) -> int:
        return len(self.notes)

    order: Sequence[int] = ()
    """The combination of each row, by its index."""

    def show(self, table: Table, order: Sequence[int]) -> None:
        """Show the rows of a table in this order; the highlight stays on its combination.

        Long values are cut, so that what came of them is in view.
        """
        rows = tuple(
            (*(shortened(cell, _MOST_CELLS) for cell in row[:-1]), row[-1]) for row in table.rows
        )
        chosen = self.order[self.index] if self.order else None
        self.order = order
        self._table = replace(table, rows=rows, is_cut=True)
        self.notes = [row[-1] for row in table.rows]
        if chosen is not None and self.order[self.index] != chosen:
            self.highlight(self.order.index(chosen))
        self.redraw()

    def heading(self, width: int) -> TextRow:
        return self._lines[0]

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Write the table for this width, which may leave a column out, and return its rows."""
        lines = [] if self._table is None else lines_of([self._table], width - MARGIN - 1)
        self._lines = [
            ((" ", PLAIN), *((text, STYLES[style]) for text, style in line)) for line in lines
        ]
        return super().draw(width, height)

    def row_of(self, index: int, width: int) -> TextRow:
        return self._lines[self.order[index] + 1]


class SweepScreen(ExperimentScreen):
    """A sweep, whose runs this screen starts."""

    CSS_PATH = "sweep.tcss"
    run: SweepRun
    _table: SweepTable
    HELP_PAGES = (Path(__file__).with_name("sweep.md"),)

    def __init__(
        self,
        run: SweepRun,
        clock: Callable[[], float] = time.monotonic,
        usual_directory: Path | None = None,
    ) -> None:
        self._resume = resumed_by(run.writer.header.id, run.directory, usual_directory)
        again = "It is taken up again by" if run.leaves_jobs else "The rest is run by"
        super().__init__(run, f"{again}  {self._resume}", clock)
        self._queued = run.queued

    def compose_parts(self) -> ComposeResult:
        yield SweepTopLine()
        yield Headline(id="headline")
        with Container(id="sweep"):
            yield SweepTable(id="table")
            with Horizontal(id="charts"):
                yield SweepChart(id="chart")
                yield RunCurves()
        yield SweepSentences(id="note")
        yield SweepSentences(id="runs")
        yield SweepProgress(id="progress")

    def prepare_parts(self) -> None:
        self._table, self._curves = self.query_one(SweepTable), self.query_one(RunCurves)

    def paint(self) -> None:
        if self._has_left:
            return
        if self._changed or self.run.queued != self._queued:
            self._changed, self._queued = False, self.run.queued
            self.paint_results()
        elif self.run.current:
            self.paint_current()
        self.query_one(SweepTopLine).show(self.run, self.elapsed_s)
        self.query_one(SweepProgress).show(self.run)
        self._paint_run()

    def paint_current(self) -> None:
        """Paint what changes while a run goes on."""
        had_curves = self._curves.has_curves
        self._show_table()
        if had_curves:
            self._draw_curves()
        elif self._curves.has_curves:
            self.paint_highlighted()

    def paint_results(self) -> None:
        """Paint the parts that change only when a run begins or ends."""
        sweep = self.run.sweep
        self._show_table()
        current = [run for run in self.run.current.values() if not run.is_lost]
        if self._follows and current:
            self._highlight(current[-1].slot.combination)
        word, sentences = headline(sweep)
        self.query_one("#headline", Headline).show(word, sentences)
        self.paint_highlighted()

    def _show_table(self) -> None:
        """Show the results, with the current figures of the runs that go on."""
        current = {}
        for run in self.run.current.values():
            if run.follower is None:
                current[run.slot.combination] = RunningRow(STARTING)
            else:
                session, index = run.follower.session, run.slot.combination
                self._curves.take(index, session)
                seen = running_row(run.follower.snapshot(), session.learning)
                current[index] = RunningRow(LOST) if run.is_lost else seen
        sweep, goes_on = self.run.sweep, not self.run.ended
        current_runs = self.run.current.values()
        running = [run.slot.combination for run in current_runs if not run.is_lost]
        order = order_by_result(sweep, running)
        in_order = "running first, then the fastest" if running else "the fastest first"
        self._table.set_titles("Combinations", plan_text(sweep.plan), in_order)
        self._table.show(sweep_table(sweep, self._queued, current, goes_on), order)

    def paint_highlighted(self) -> None:
        """Draw the chart of the highlighted workload, and show the combination's note in full."""
        if not self._table.count:
            return
        combination, plan = self._highlighted, self.run.sweep.plan
        self._show_charts(picture_of(self.run.sweep, combination.workload))
        text = self._table.notes[combination.index]
        note = self.query_one("#note", SweepSentences)
        note.display = bool(text)
        note.show([f"{slot_text(plan, combination)}: {text}"], MUTED)

    def _show_charts(self, picture: LineChart | None) -> None:
        """Show the chart of the results and the losses of the runs, or one where room is little."""
        has_results = picture is not None and any(
            line.out_of_memory or any(line.mean) for line in picture.lines
        )
        has_room = self.size.width >= _WITH_TWO_CHARTS
        self.query_one(SweepChart).show_results(picture if has_results else None)
        self._curves.display = self._curves.has_curves and (has_room or not has_results)
        is_alone = not (has_results or self._curves.display)
        self.query_one("#charts").display = not is_alone
        # As high as its rows, its heading and its border.
        self._table.styles.height = "1fr" if is_alone else self._table.count + 3
        self._table.styles.max_height = "100%" if is_alone else "50%"
        self._draw_curves()

    def _draw_curves(self) -> None:
        chosen = self._highlighted
        self._curves.show_runs(chosen.index, slot_text(self.run.sweep.plan, chosen))

    @property
    def _highlighted(self) -> Combination:
        return self.run.sweep.plan.combinations[self._table.order[self._table.index]]

    def _highlight(self, combination: int) -> None:
        self._table.highlight(self._table.order.index(combination))

    def _paint_run(self) -> None:
        run, line = self.run, self.query_one("#runs", SweepSentences)
        if run.problem is not None:
            sentences, style = [run.problem], BAD
        elif run.ended:
            left = left_text(run.sweep)
            rest = [] if left is None else [f"{left}: {self._resume} runs them"]
            sentences, style = [*problems_of(run), *rest, *run.last_lines], MUTED
        else:
            current = [current_text(run, current) for current in run.current.values()]
            connecting = [f"{host}  connecting …" for host in run.connecting]
            sentences, style = [*run.notes, *current, *connecting], PLAIN
        line.show(sentences, style)
        line.display = bool(sentences)

    @property
    def end_text(self) -> str:
        text = f"{self.run.writer.header.id} {status_of(self.run)}"
        return ": ".join([text, *findings(self.run.sweep)[:1]])

    def action_show(self) -> None:
        """Show the running session of the highlighted combination, else its last."""
        index, run, plan = self._highlighted.index, self.run, self.run.sweep.plan
        host = plan.host_of(Slot(index, 0))
        running = (current for current in run.current.values() if current.slot.combination == index)
        if self.show_current(next(running, None)):
            return
        for repeat in reversed(range(plan.repeats)):
            outcome = run.sweep.outcomes.get(Slot(index, repeat))
            if outcome is not None and outcome.session is not None:
                log = log_of(run.directory / outcome.session)
                self.post_message(ShowSweptSession(log, host, outcome.session))
                return
        why = self._table.notes[index] or "nothing was run there yet"
        self.notify(why, severity="warning", markup=False)


HINT = "Enter an option and its values, or a number of runs."
_FIELDS = (
    Field("vary", "Vary", "batch_size=32,64,128 threads=1,2"),
    Field("repeats", "Runs of each", "1", hint=REPEAT_HINT),
)


class SweepForm(FormScreen[Plan]):
    """Two fields; answers with a plan, or None.

    It is made by `plan` of the values of `--vary` and the number of runs of each combination.
    """

    SUBMIT = "Sweep"

    def __init__(self, workload: str, plan: Callable[[list[str], int], Plan]) -> None:
        super().__init__(f"Sweep {workload}", _FIELDS)
        self._plan_of = plan

    def read(
        self, typed: dict[str, str], submitted: bool
    ) -> tuple[Plan | None, str, Mapping[str, str]]:
        vary = typed["vary"].split()
        try:
            repeats = whole_number_of("the number of runs")(typed["repeats"] or "1")
        except UnreadableOption as error:
            return None, HINT, {"repeats": clean(str(error))}
        if not (vary or repeats > 1 or submitted):
            return None, HINT, {}
        try:
            plan = self._plan_of(vary, repeats)
        except (SweepError, UnreadableOption) as error:
            # A word without its = is still being typed.
            is_wrong = submitted or not vary or "=" in vary[-1]
            return None, HINT, {"vary": clean(str(error))} if is_wrong else {}
        return plan, plan_text(plan), {}
