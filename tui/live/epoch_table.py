"""The epochs of a run, newest at the bottom: how long each took, and which were slow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.records import Epoch
from dlmon.session.epoch_comparison import seconds_of
from tui.drawing.bars import thick_bar
from tui.formatting import units
from tui.widgets.following_lines import Tail
from tui.widgets.lines import BAR, CHOSEN, HIGH, MUTED, PLAIN, cut
from tui.widgets.rows import TextRow, fit

HELP: tuple[tuple[str, str], ...] = (
    (
        "Epochs",
        "One row for each pass over the training samples: how long it took, its validation "
        "included, as a bar too; then its validation, and the metrics that it ended with. * marks "
        "an epoch that was cut short.",
    ),
    (
        "▲ slow epoch",
        "It took longer than the median of the whole epochs by over four times their usual spread "
        "(the median distance from the median, as a standard deviation), and by 5 % at least. What "
        "compiled is taken out of the first. It takes four whole epochs to tell.",
    ),
    (
        "Enter on an epoch",
        "The arrow keys up and down choose an epoch, and begin at the newest slow one; so does "
        "Enter without a choice. Enter, or a click, has all charts show that epoch alone, and says "
        "what differed in it from the others: parts of its time, and what the machine did. What "
        "was not measured is not named. Esc goes back.",
    ),
)

_GAP = 2
_LONGEST_NAME = 16
_USUAL_METRIC, _USUAL_TIME = 6, 6
_SHORTEST_BAR, _LONGEST_BAR = 6, 24
_ROW_MARK = 2
"""What marks the chosen row, and a blank."""

EpochColumn = tuple[str, list[str]]
"""A heading and its cells."""

_BAR_HEADING = "bar"


class EpochTable(Tail[Epoch]):
    """One row an epoch: its time with a bar, its validation, and the metrics that have room."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"epoch-table--slow"}
    DEFAULT_CSS = """
    EpochTable > .epoch-table--slow { color: $text-warning; text-style: bold; }
    """

    @dataclass
    class Pointed(Message):
        """An epoch was clicked."""

        epoch: Epoch

    _empty = ""
    _each = "epoch"
    _slow: Collection[int] = ()
    _longest_s = 0.0
    _compared: tuple[int, Epoch | None, Collection[int]] = (0, None, ())
    _chosen: int | None = None
    _note = ""
    _alone = False

    def show(
        self,
        epochs: Sequence[Epoch],
        running: bool = True,
        each: str = "epoch",
        slow: Collection[int] = (),
        alone: bool = False,
    ) -> None:
        """Show epochs; of a session that is over, no more are to come.

        Args:
            epochs: those that have ended.
            running: whether more may come.
            each: what one is called: an epoch, or a pass where nothing is trained.
            slow: when those began that were slow.
            alone: whether the charts show one of them alone.
        """
        self._alone = alone
        self._each = each
        self._empty = (
            f"no {each} has ended yet" if running else f"the run ended before its first {each}"
        )
        newest = epochs[-1] if epochs else None
        if (len(epochs), newest, slow) != self._compared:
            # Of thousands this takes a while, so only where one has come.
            self._compared = (len(epochs), newest, slow)
            self._longest_s = max(map(seconds_of, epochs), default=0.0)
            self._slow = slow
            cut_short = any(not epoch.whole for epoch in epochs)
            self._note = f"* incomplete {each}" if cut_short else ""
        self._lines = epochs
        self._show_titles()

    def _show_titles(self) -> None:
        notes = [self._note] if self._note else []
        choose = "up/down choose" if self.glyphs.is_ascii else "↑↓ choose"
        if self._alone:
            notes.append(choose)
        elif self.chosen is not None:
            notes.append("Enter shows it alone")
        elif self._slow:
            slow = f"{self.glyphs.warning} {len(self._slow)} slow"
            notes.append(f"{slow}: Enter says why")
        elif self._lines:
            notes.append(choose)
        self.show_lines(self._lines, units.plural(self._each).capitalize(), "  ".join(notes))

    @property
    def chosen(self) -> Epoch | None:
        """The epoch that was chosen."""
        return next((one for one in self._lines if one.begin == self._chosen), None)

    @property
    def first_choice(self) -> Epoch | None:
        """The newest slow epoch, else the newest; None where none has ended."""
        slow = [epoch for epoch in self._lines if epoch.begin in self._slow]
        best = slow or self._lines
        return best[-1] if best else None

    def choose(self, epoch: Epoch | None) -> None:
        """Choose an epoch, and bring it into view; None chooses none."""
        self._chosen = None if epoch is None else epoch.begin
        if epoch is not None:
            self._bring_into_view(epoch)
        self._show_titles()

    def move(self, rows: int) -> None:
        """Choose the epoch so many rows further down; the first time, `first_choice`."""
        chosen = self.chosen
        if chosen is None:
            self.choose(self.first_choice)
            return
        place = [one.begin for one in self._lines].index(chosen.begin) + rows
        self.choose(self._lines[max(0, min(place, len(self._lines) - 1))])

    def _bring_into_view(self, epoch: Epoch) -> None:
        rows = max(1, self.size.height - 1)
        place = [one.begin for one in self._lines].index(epoch.begin)
        end = min(max(self._end(), place + 1), place + rows, len(self._lines))
        self._lowest = None if end == len(self._lines) else self._lines[end - 1]

    def on_click(self, event: events.Click) -> None:
        """Choose the epoch that was clicked."""
        offset = event.get_content_offset(self)
        row = 0 if offset is None else offset.y
        index = self._first_in_view(self.size.height) + row - 1
        if row >= 1 and index < min(self._end(), len(self._lines)):
            self.post_message(self.Pointed(self._lines[index]))

    def _first_in_view(self, height: int) -> int:
        return max(0, self._end() - max(1, height - 1))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return a heading and the epochs in view."""
        if not self._lines:
            return [cut(((self._empty, MUTED),), width, self.ellipsis)]
        epochs = self._lines[self._first_in_view(height) : self._end()]
        room = width - _ROW_MARK
        columns = self._columns(epochs, room)
        widths = [max(map(cell_len, (heading, *cells))) for heading, cells in columns]
        taken = sum(widths) + _GAP * (len(widths) - 1)
        for number, (heading, _) in enumerate(columns):
            if heading == _BAR_HEADING:
                widths[number] = min(_LONGEST_BAR, _SHORTEST_BAR + max(0, room - taken))
        rows = [self._heading(columns, widths)]
        rows.extend(
            self._row(epoch, [(heading, cells[number]) for heading, cells in columns], widths)
            for number, epoch in enumerate(epochs)
        )
        return [cut(row, width, self.ellipsis) for row in rows][:height]

    def _heading(self, columns: Sequence[EpochColumn], widths: Sequence[int]) -> TextRow:
        names = [("" if name == _BAR_HEADING else name) for name, _ in columns]
        return ((" " * _ROW_MARK + _aligned(names, widths), MUTED),)

    def _row(
        self, epoch: Epoch, cells: Sequence[tuple[str, str]], widths: Sequence[int]
    ) -> TextRow:
        """Return the row of an epoch; a slow one and the chosen one have a mark and a colour."""
        slow, chosen = epoch.begin in self._slow, epoch.begin == self._chosen
        text_style = CHOSEN if chosen else _SLOW if slow else PLAIN
        bar_style = CHOSEN if chosen else HIGH if slow else BAR
        mark = self.glyphs.pointer if chosen else ""
        runs = [(f"{mark:<{_ROW_MARK}}", text_style)]
        for number, ((heading, text), width) in enumerate(zip(cells, widths, strict=True)):
            gap = " " * _GAP if number else ""
            if heading == _BAR_HEADING:
                share = seconds_of(epoch) / self._longest_s if self._longest_s > 0 else None
                runs.append((gap, text_style))
                runs.append((thick_bar(share, width, self.glyphs), bar_style))
            else:
                runs.append((gap + " " * (width - cell_len(text)) + text, text_style))
        return tuple(runs)

    def rows_of(self, line: Epoch, width: int, height: int) -> list[TextRow]:
        """Return one row: `draw` fills it, since columns are aligned over all rows."""
        return [()]

    def lines_from_top(self, width: int, height: int) -> int:
        """Return how many epochs fit below the heading."""
        return min(len(self._lines), max(1, height - 1))

    def _columns(self, epochs: Sequence[Epoch], width: int) -> list[EpochColumn]:
        """Return the columns that have room, in the order that they stand."""
        number = ("#", [self._number(epoch) for epoch in epochs])
        time = ("time", [f"{units.seconds(seconds_of(one)):>{_USUAL_TIME}}" for one in epochs])
        bar = (_BAR_HEADING, [" " * _SHORTEST_BAR for _ in epochs])
        val = ("val", [f"{_validation_time(epoch):>{_USUAL_TIME}}" for epoch in epochs])
        # Of all of them: one that was cut short has no metrics of a validation.
        names = list(dict.fromkeys(name for epoch in epochs for name in epoch.metrics))
        metrics = {name: self._metric_column(epochs, name) for name in names}
        losses = [name for name in sorted(names, key=_importance) if name.endswith("loss")]
        others = [name for name in names if name not in losses]
        wanted = [*(metrics[name] for name in losses), bar, *(metrics[name] for name in others)]
        if any(epoch.validation is not None for epoch in epochs):
            wanted.append(val)
        speed = ("samples/s", [_samples_per_second(epoch) for epoch in epochs])
        kept = [number, time]
        taken = sum(map(_column_width, kept)) - _GAP
        for column in (*wanted, speed):
            has_room = taken + _column_width(column) <= width
            if has_room and (column is not speed or len(kept) == 2 + len(wanted)):
                taken += _column_width(column)
                kept.append(column)
        order = [number, time, bar, val, *metrics.values(), speed]
        return [column for column in order if any(column is one for one in kept)]

    def _number(self, epoch: Epoch) -> str:
        mark = self.glyphs.warning if epoch.begin in self._slow else "" if epoch.whole else "*"
        return f"{mark}{epoch.epoch + 1}"

    def _metric_column(self, epochs: Sequence[Epoch], name: str) -> EpochColumn:
        cells = [_cut(f"{_metric(one, name):>{_USUAL_METRIC}}", self.ellipsis) for one in epochs]
        return _cut(_short(name), self.ellipsis), cells


_SLOW: tuple[str, ...] = ("epoch-table--slow",)


def _column_width(column: EpochColumn) -> int:
    heading, cells = column
    return _GAP + max(map(cell_len, (heading, *cells)))


def _aligned(texts: Sequence[str], widths: Sequence[int]) -> str:
    pairs = zip(texts, widths, strict=True)
    return (" " * _GAP).join(" " * (width - cell_len(text)) + text for text, width in pairs)


def _importance(name: str) -> tuple[bool, bool]:
    """Put the loss first, then that of the validation, then other metrics in their own order."""
    return not name.endswith("loss"), name != "loss"


def _validation_time(epoch: Epoch) -> str:
    validation = epoch.validation
    return units.seconds((validation.end - validation.begin) / 1e9) if validation else "–"


def _samples_per_second(epoch: Epoch) -> str:
    train_s = (epoch.train_end - epoch.begin) / 1e9
    known = epoch.samples is not None and train_s > 0
    return units.rate((epoch.samples or 0) / train_s) if known else "–"


def _metric(epoch: Epoch, name: str) -> str:
    value = epoch.metrics.get(name)
    return epoch.why.get(name, "–") if value is None else units.metric(value)


def _short(name: str) -> str:
    for kind in ("sparse_categorical_", "categorical_", "binary_"):
        name = name.replace(f"{kind}accuracy", "acc")
    return name.replace("accuracy", "acc")


def _cut(text: str, ellipsis: str) -> str:
    if cell_len(text) <= _LONGEST_NAME:
        return text
    return fit(text, _LONGEST_NAME, ellipsis)
