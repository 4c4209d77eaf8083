"""The table of a session's epochs, and the zoom of all charts to one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType

from dlmon.figures import units
from dlmon.figures.session import tokens
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.epochs import (
    epoch_text_of,
    metric_text,
    metrics_of,
    samples_per_second_of,
    short_name,
    steps_asked_for,
    validation_time,
    why_no_epochs,
)
from dlmon.quantities import BY_KEY, SAMPLES_PER_SECOND
from dlmon.records import Epoch, Model
from dlmon.session.epoch_comparison import seconds_of
from dlmon.session.snapshot import Snapshot
from tui.drawing.plot import thick_bar
from tui.drawing.time_axis import TimeAxis, TimeWindow
from tui.live.session_charts import TimeChartsScreen
from tui.live.session_lines import LimitLine
from tui.screens.base import hidden
from tui.widgets.lines import (
    BAR,
    HIGH,
    MUTED,
    PLAIN,
    STRONG,
    GrowingLines,
    TextRow,
    beside,
    cut,
    cut_inside,
    fit_right,
    shows,
    wrapped,
)
from tui.widgets.tables import FollowingLines, RowList

EPOCH_KEYS: list[BindingType] = [
    Binding(
        "enter",
        "zoom_to_epoch",
        "Epoch",
        tooltip="Show the chosen epoch, or the newest slow one, in all charts; say what differed",
    ),
    hidden("up", "choose_epoch(-1)", "Epoch above", "Choose an epoch, the newest slow one first"),
    hidden("down", "choose_epoch(1)", "Epoch below", "Choose the epoch below"),
]
EPOCH_ACTIONS = {"zoom_to_epoch", "choose_epoch"}


_SLOW = "bold $text-warning"
# The mark of the chosen row, and a blank.
_MARK_CELLS = 2
_GAP = "  "
# The cells of a border that hold no text.
_BORDER = 6
_BAR = "bar"
_SHORTEST_BAR, _LONGEST_BAR = 5, 24
_LONGEST_NAME = 16
_USUAL_CELLS = 6

_Column = tuple[str, list[str]]
"""A heading and its cells."""


class EpochTable(FollowingLines, RowList):
    """A row for each epoch: its time with a bar, its validation, and the metrics that fit.

    The newest epochs are in view until somebody scrolls or chooses one.
    """

    FIRST = -1
    KEEPS_MARGIN = False
    CLICKS = 1

    index = -1
    _epochs: Sequence[Epoch] = ()
    _empty = ""
    _noun = "epoch"
    _slow: Collection[int] = ()
    _longest_s = 0.0
    _compared: tuple[object, ...] = ()
    _model: Model | None = None
    _has_incomplete = False
    _steps_limit = ""
    _newest_metric: tuple[str, ...] = ()
    _columns: Sequence[_Column] = ()
    _widths: Sequence[int] = ()
    _left_out = 0
    _alone = False

    def show(
        self,
        epochs: Sequence[Epoch],
        running: bool = True,
        noun: str = "epoch",
        slow: Collection[int] = (),
        alone: bool = False,
        model: Model | None = None,
    ) -> None:
        """Show the epochs of a session.

        `noun` is the word for an epoch: "pass" if nothing is trained. `slow` holds the beginnings
        of the slow ones.
        """
        self._epochs, self._alone, self._noun, self._slow = epochs, alone, noun, slow
        self._empty = why_no_epochs(model, running, noun)
        compared = (len(epochs), epochs[-1] if epochs else None, model)
        if compared != self._compared:
            # With thousands of epochs this is slow, so do it only after a new one.
            self._compared, self._model = compared, model
            self._longest_s = max(map(seconds_of, epochs), default=0.0)
            limits = [steps_asked_for(epoch, model) for epoch in epochs if not epoch.whole]
            self._has_incomplete = not all(limits)
            self._steps_limit = max(limits, default="")
        self.redraw()

    def show_newest_metric(self, texts: tuple[str, ...]) -> None:
        """Show the newest value of a metric, and its curve, at the right of the border."""
        if texts != self._newest_metric:
            self._newest_metric = texts
            self._show_titles()

    def redraw(self) -> None:
        """Draw the rows, and then the titles, which name the metrics that did not fit."""
        super().redraw()
        self._show_titles()

    def _show_titles(self) -> None:
        is_synthetic = self._model is not None and self._model.data == "synthetic"
        data = ["synthetic, learnable data"] * is_synthetic
        right, *more = [*self._newest_metric, *data] or [""]
        self.set_titles(units.plural(self._noun).capitalize(), self._notes(), right, tuple(more))

    def _notes(self) -> str:
        """Return the notes that fit in the bottom border."""
        key = "↑↓ choose"
        if not self._epochs or self._alone:
            key = ""
        elif self.chosen is not None:
            key = "Enter shows it alone"
        elif self._slow:
            key = f"▲ {len(self._slow)} slow: Enter shows what differed"
        below = len(self._epochs) - self._in_view.stop
        notes = [
            f"{self._steps_limit}, limited by --steps" if self._steps_limit else "",
            f"* incomplete {self._noun}" if self._has_incomplete else "",
            f"+{units.counted(self._left_out, 'metric')}" if self._left_out else "",
            key,
            f"{below} newer below" if self._scrolled and below > 0 else "",
        ]
        notes = [note for note in notes if note]
        while len(notes) > 1 and cell_len(_GAP.join(notes)) > self.outer_size.width - _BORDER:
            del notes[0]
        return _GAP.join(notes)

    @property
    def count(self) -> int:
        return len(self._epochs)

    @property
    def chosen(self) -> Epoch | None:
        return self._epochs[self.index] if 0 <= self.index < self.count else None

    @property
    def first_choice(self) -> Epoch | None:
        """The newest slow epoch, or else the newest; None before the first one ended."""
        slow = [epoch for epoch in self._epochs if epoch.begin in self._slow]
        return next(reversed(slow or self._epochs), None)

    def choose(self, epoch: Epoch | None) -> None:
        """Choose an epoch and scroll to it, or remove the choice."""
        self.highlight(-1 if epoch is None else self._epochs.index(epoch))

    def highlight(self, index: int, *, scroll: bool = True) -> None:
        self._scrolled |= index >= 0
        super().highlight(index, scroll=scroll)

    def move(self, steps: int) -> None:
        """Move the choice down by rows; the first time, choose `first_choice`."""
        if self.chosen is None:
            self.choose(self.first_choice)
        else:
            self.highlight(max(0, self.index + steps))

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        return [cut(((self._empty, MUTED),), width)]

    def heading(self, width: int) -> TextRow:
        """Return the headings, after the choice of the columns for the epochs in view."""
        epochs = self._epochs[self._in_view.start : self._in_view.stop]
        room = width - _MARK_CELLS
        self._columns, self._left_out = columns_of(epochs, self._number, room)
        self._widths = [max(map(cell_len, (heading, *cells))) for heading, cells in self._columns]
        spare = room - sum(self._widths) - len(_GAP) * (len(self._widths) - 1)
        self._widths = [
            min(_LONGEST_BAR, _SHORTEST_BAR + spare) if heading == _BAR else cells
            for (heading, _), cells in zip(self._columns, self._widths, strict=True)
        ]
        names = ["" if name == _BAR else name for name, _ in self._columns]
        texts = map(fit_right, names, self._widths)
        return ((" " * _MARK_CELLS + _GAP.join(texts), MUTED),)

    def row_of(self, index: int, width: int) -> TextRow:
        epoch = self._epochs[index]
        slow = epoch.begin in self._slow
        style = _SLOW if slow else PLAIN
        row = [(f"{'▸' if index == self.index else '':<{_MARK_CELLS}}", style)]
        for (heading, cells), room in zip(self._columns, self._widths, strict=True):
            if len(row) > 1:
                row.append((_GAP, style))
            if heading == _BAR:
                share = seconds_of(epoch) / self._longest_s if self._longest_s > 0 else None
                row.append((thick_bar(share, room), HIGH if slow else BAR))
            else:
                row.append((fit_right(cells[index - self._in_view.start], room), style))
        return tuple(row)

    def _number(self, epoch: Epoch) -> str:
        is_incomplete = not epoch.whole and not steps_asked_for(epoch, self._model)
        mark = "▲" if epoch.begin in self._slow else "*" if is_incomplete else ""
        return f"{mark}{epoch.epoch + 1}"


def columns_of(
    epochs: Sequence[Epoch], number_of: Callable[[Epoch], str], width: int
) -> tuple[list[_Column], int]:
    """Return the columns that fit, and the number of metrics that don't.

    Room goes first to the number and the time, then to the metrics, the bar, the validation time,
    tokens and samples, in this order.
    """
    number = ("#", [number_of(epoch) for epoch in epochs])
    time = ("time", [f"{units.seconds(seconds_of(epoch)):>{_USUAL_CELLS}}" for epoch in epochs])
    names = metrics_of(epochs)
    headings = [cut_inside(short_name(name), _LONGEST_NAME) for name in names]
    if len({*headings}) < len(names):
        headings = names
    metrics = [
        (
            heading,
            [
                cut_inside(f"{metric_text(epoch, name):>{_USUAL_CELLS}}", _LONGEST_NAME)
                for epoch in epochs
            ],
        )
        for name, heading in zip(names, headings, strict=True)
    ]
    bar = (_BAR, [" " * _SHORTEST_BAR for _ in epochs])
    validation = ("val time", [f"{validation_time(epoch):>{_USUAL_CELLS}}" for epoch in epochs])
    validated = [validation] if any(epoch.validation for epoch in epochs) else []
    speeds = [("samples/s", [samples_per_second_of(epoch) for epoch in epochs])]
    if any(epoch.tokens is not None for epoch in epochs):
        speeds.append((tokens.UNIT, [samples_per_second_of(epoch, True) for epoch in epochs]))
    fitting: list[_Column] = []
    for column in (number, time, *metrics, bar, *validated, *reversed(speeds)):
        heading, cells = column
        if heading != _BAR and not any(cell.strip(" –") for cell in cells):
            continue
        needed = max(map(cell_len, (heading, *cells))) + (len(_GAP) if fitting else 0)
        if needed <= width:
            fitting.append(column)
            width -= needed
    in_order = (number, time, bar, *validated, *metrics, *speeds)
    left_out = sum(column not in fitting for column in metrics)
    return [column for column in in_order if column in fitting], left_out


class EpochLine(GrowingLines):
    """A sentence about the epoch that the charts show alone; replaces the `LimitLine`."""

    DEFAULT_CSS = "EpochLine { padding: 0 2; display: none; }"
    MOST_ROWS: ClassVar[int] = 4

    def rows(self, width: int, height: int, heading: str, sentence: str) -> list[TextRow]:
        heading = f"{heading}  "
        lines = wrapped(sentence, width - len(heading), height)
        return beside(heading, lines, PLAIN, STRONG)

    show = shows(rows)


class EpochZoom(TimeChartsScreen):
    """A screen with a table of epochs, whose charts can show a single one of them."""

    _slow: frozenset[int] = frozenset()
    _slow_until: tuple[object, ...] = ()
    _window_before = TimeWindow()
    _alone: Epoch | None = None
    _has_epochs = False

    def paint_epochs(self, snapshot: Snapshot) -> None:
        """Show the epochs, and the differences of the one that the charts show alone."""
        epochs = snapshot.epochs
        newest = (len(epochs), epochs[-1] if epochs else None, snapshot.compile_s)
        if newest != self._slow_until:
            # With thousands of epochs this is slow, so do it only after a new one.
            self._slow_until = newest
            self._slow = self._source.session.slow_epochs(epochs)
        self._paint_table(snapshot)
        self._paint_line(snapshot)
        if bool(epochs) != self._has_epochs:
            self._has_epochs = not self._has_epochs
            self.refresh_bindings()

    def _paint_table(self, snapshot: Snapshot) -> None:
        self.query_one(EpochTable).show(
            snapshot.epochs,
            self._source.running,
            epoch_word(snapshot.header),
            self._slow,
            self.zoomed_epoch is not None,
            snapshot.model,
        )

    def _paint_line(self, snapshot: Snapshot) -> None:
        epoch = self.zoomed_epoch
        line, limit = self.query_one(EpochLine), self.query_one(LimitLine)
        line.styles.display = "block" if epoch is not None else None
        limit.styles.display = "none" if epoch is not None else None
        if epoch is None:
            return
        heading = f"{epoch_word(snapshot.header).capitalize()} {epoch.epoch + 1}"
        line.show(heading, epoch_text_of(epoch, self._source.session, snapshot))

    @property
    def zoomed_epoch(self) -> Epoch | None:
        """The epoch that the charts show alone, if they do."""
        return None if self.window.length_ns is None else self._alone

    def _throughput_now(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Write the throughput of the epoch that is shown alone, or else of the run."""
        epoch = self.zoomed_epoch
        if epoch is None or epoch.samples is None:
            return super()._throughput_now(snapshot)
        name = f"{epoch_word(snapshot.header)} {epoch.epoch + 1}"
        return (f"{name}  {samples_per_second_of(epoch)} {BY_KEY[SAMPLES_PER_SECOND].unit}",)

    def _shown_part_text(self, axis: TimeAxis) -> str:
        epoch = self.zoomed_epoch
        if epoch is None:
            return super()._shown_part_text(axis)
        return f"{epoch_word(self._source.session.header)} {epoch.epoch + 1} alone, Esc goes back"

    def can_choose_epoch(self) -> bool:
        """Return True if there is an epoch to choose, and the table is visible."""
        return self.is_mounted and self._has_epochs and self.query_one(EpochTable).display

    def action_choose_epoch(self, rows: int) -> None:
        """Move the choice by rows, negative rows up; zoomed charts follow."""
        table = self.query_one(EpochTable)
        table.move(rows)
        if self.zoomed_epoch is not None and table.chosen is not None:
            self._zoom_to(table.chosen)

    def action_zoom_to_epoch(self) -> None:
        """Show only the chosen epoch in all charts; without a choice, the `first_choice`."""
        table = self.query_one(EpochTable)
        epoch = table.chosen or table.first_choice
        if epoch is not None:
            table.choose(epoch)
            self._zoom_to(epoch)

    def on_row_list_row_chosen(self) -> None:
        chosen = self.query_one(EpochTable).chosen
        if chosen is not None:
            self._zoom_to(chosen)

    def _zoom_to(self, epoch: Epoch) -> None:
        if self.zoomed_epoch is None:
            self._window_before = self.window
        self._alone = epoch
        self._show_window(self.window.spanning(epoch.begin, epoch.end))

    def action_escape(self) -> None:
        """Remove the cursor, or else leave the epoch, or else follow the run again."""
        table = self.query_one(EpochTable)
        if self.window.cursor_ns is None and self.zoomed_epoch is not None:
            self._show_window(self._window_before)
            table.choose(None)
        elif self.window.cursor_ns is None and table.chosen is not None:
            table.choose(None)
        else:
            super().action_escape()

    def _show_window(self, window: TimeWindow) -> None:
        super()._show_window(window)
        snapshot = self._source.snapshot()
        self._paint_table(snapshot)
        self._paint_line(snapshot)
