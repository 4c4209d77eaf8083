"""The epochs of a run, newest at the bottom: how long each took, and which were slow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.figures import units
from dlmon.figures.epochs import steps_asked_for
from dlmon.records import Epoch, Model
from dlmon.session.epoch_comparison import seconds_of
from tui.drawing.bars import thick_bar
from tui.live.epochs.columns import (
    BAR_HEADING,
    GAP,
    LONGEST_BAR,
    SHORTEST_BAR,
    EpochColumn,
    columns_of,
)
from tui.widgets.following_lines import Tail
from tui.widgets.lines import BAR, CHOSEN, HIGH, MUTED, PLAIN, cut
from tui.widgets.rows import TextRow

HELP: tuple[tuple[str, str], ...] = (
    (
        "Epochs",
        "One row for each pass over the training samples: how long it took, its validation "
        "included, as a bar too; then its validation, and the metrics that it ended with, each "
        "beside that of the validation. + 2 metrics: so many more have no room. * marks an epoch "
        "that was cut short; one of as many steps as were asked for is not marked.",
    ),
    (
        "loss",
        "What Keras reports of an epoch. Of a PyTorch script: the mean over all steps of the "
        "optimizer of what backward() was called on, unless its framework reports a loss.",
    ),
    (
        "synthetic data",
        "Random samples of the real shapes and sizes: they train as fast, but there is nothing to "
        "learn from them. A network's accuracy on samples that it has not seen stays near chance; "
        "that says nothing against the network. --data real downloads and takes the real ones.",
    ),
    (
        "▲ slow epoch",
        "It took longer than the median of the whole epochs by over four times their usual spread "
        "(the median distance from the median, as a standard deviation), and by 5 % at least. Of "
        "three whole epochs one is slow that took over 1.5 times as long as each of the others; it "
        "takes three to tell. What compiled is taken out of the first.",
    ),
    (
        "Enter on an epoch",
        "The arrow keys up and down choose an epoch, and begin at the newest slow one; so does "
        "Enter without a choice. Enter, or a click, has all charts show that epoch alone, and says "
        "what differed in it from the others: parts of its time (its start: before its first "
        "batch; steps: all else in training), notices, the CPU time of the run and of other "
        "programs, clock, use and limits of the GPU, and waits for CPU, memory and disk. What was "
        "not measured is not named, and why it differed may lie elsewhere. Esc goes back.",
    ),
)

_ROW_MARK = 2
"""What marks the chosen row, and a blank."""
_BORDER = 6
"""What of a border has no text."""
_LEAST_LINE = 3
"""What stands between a border's title and what is right of it, with a blank on either side."""
_SHORTEST_CURVE, _LONGEST_CURVE = 8, 12


def _no_curve(cells: int) -> str:
    return ""


class EpochTable(Tail[Epoch]):
    """One row per epoch: its time with a bar, its validation, and the metrics that have room."""

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
    _model: Model | None = None
    _cut_short = False
    _asked = ""
    _left_out = 0
    _alone = False
    _metric = ""
    _newest: Sequence[str] = ()
    _curve: Callable[[int], str] = staticmethod(_no_curve)

    def show(
        self,
        epochs: Sequence[Epoch],
        running: bool = True,
        each: str = "epoch",
        slow: Collection[int] = (),
        alone: bool = False,
        model: Model | None = None,
    ) -> None:
        """Show epochs; of a session that is over, no more are to come.

        Args:
            epochs: those that have ended.
            running: whether more may come.
            each: what one is called: an epoch, or a pass where nothing is trained.
            slow: when those began that were slow.
            alone: whether the charts show one of them alone.
            model: what is trained.
        """
        self._alone = alone
        self._each = each
        if model is not None and model.has_epochs is False:
            self._empty = f"the script's loop has no {each}s"
        else:
            ended = f"the run ended before its first {each}"
            self._empty = f"no {each} has ended yet" if running else ended
        newest = epochs[-1] if epochs else None
        if (len(epochs), newest, slow) != self._compared or model != self._model:
            # Of thousands this takes a while, so only where one has come.
            self._compared = (len(epochs), newest, slow)
            self._model = model
            self._longest_s = max(map(seconds_of, epochs), default=0.0)
            self._slow = slow
            asked = [steps_asked_for(epoch, model) for epoch in epochs if not epoch.whole]
            self._cut_short, self._asked = not all(asked), max(asked, default="")
        self._lines = epochs
        self._show_titles()

    def show_newest(
        self, metric: str, texts: Sequence[str], curve: Callable[[int], str] = _no_curve
    ) -> None:
        """Show what a metric came to last, in as many words as have room: the longest first.

        `curve` draws it in so many cells, for where these are to spare; it may have nothing to
        draw.
        """
        self._metric, self._newest, self._curve = metric, texts, curve
        name, _, *right = self._titled
        if name and (*self._right_texts(name),) != (*right,):
            self._show_titles()

    def _show_titles(self) -> None:
        name = units.plural(self._each).capitalize()
        self.show_lines(self._lines, name, self._notes(), *self._right_texts(name))
        # What has no room is known once it is drawn.
        self._titled = (name, self._notes(), *self._titled[2:])
        self._put_note()

    def _right_texts(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return what stands at the right of the border, and what may follow it there."""
        data, more = _data_texts(self._model)
        room = self.outer_size.width - _BORDER - cell_len(name) - _LEAST_LINE
        room -= cell_len(f"  {data}") if data else 0
        for text in self._newest:
            spare = room - cell_len(f"{self._metric} {text}")
            if spare >= 0:
                cells = min(spare - 1, _LONGEST_CURVE)
                drawn = self._curve(cells) if cells >= _SHORTEST_CURVE else ""
                said = " ".join(part for part in (self._metric, drawn, text) if part)
                return (said, (data, *more)) if data else (said, ())
        return data, more

    def _notes(self) -> str:
        """Return what has room in the border below, of what may be said there."""
        choose = "up/down choose" if self.glyphs.is_ascii else "↑↓ choose"
        if self._alone:
            key = choose
        elif self.chosen is not None:
            key = "Enter shows it alone"
        elif self._slow:
            key = f"{self.glyphs.warning} {len(self._slow)} slow: Enter shows what differed"
        else:
            key = choose if self._lines else ""
        incomplete = f"* incomplete {self._each}" if self._cut_short else ""
        asked = f"{self._asked}, as asked" if self._asked else ""
        left_out = f"+{units.counted(self._left_out, 'metric')}" if self._left_out else ""
        notes = [note for note in (asked, incomplete, left_out, key) if note]
        below = [self._below] if self._below else []
        room = self.outer_size.width - _BORDER
        while len(notes) > 1 and cell_len("  ".join(notes + below)) > room:
            del notes[0]
        return "  ".join(notes)

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

    def on_resize(self, event: events.Resize) -> None:
        """Keep what was chosen in view, and say what has room now."""
        chosen = self.chosen
        if chosen is not None:
            self._bring_into_view(chosen)
        self._show_titles()

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
        columns, self._left_out = columns_of(epochs, self._number, room, self.ellipsis)
        widths = [max(map(cell_len, (heading, *cells))) for heading, cells in columns]
        taken = sum(widths) + GAP * (len(widths) - 1)
        for number, (heading, _) in enumerate(columns):
            if heading == BAR_HEADING:
                widths[number] = min(LONGEST_BAR, SHORTEST_BAR + max(0, room - taken))
        rows = [self._heading(columns, widths)]
        rows.extend(
            self._row(epoch, [(heading, cells[number]) for heading, cells in columns], widths)
            for number, epoch in enumerate(epochs)
        )
        return [cut(row, width, self.ellipsis) for row in rows][:height]

    def _heading(self, columns: Sequence[EpochColumn], widths: Sequence[int]) -> TextRow:
        names = [("" if name == BAR_HEADING else name) for name, _ in columns]
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
            gap = " " * GAP if number else ""
            if heading == BAR_HEADING:
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

    def _number(self, epoch: Epoch) -> str:
        cut_short = not epoch.whole and not steps_asked_for(epoch, self._model)
        mark = self.glyphs.warning if epoch.begin in self._slow else "*" if cut_short else ""
        return f"{mark}{epoch.epoch + 1}"


_SLOW: tuple[str, ...] = ("epoch-table--slow",)


def _data_texts(model: Model | None) -> tuple[str, tuple[str, ...]]:
    """Return what the border says of the data, and what it adds where that has room."""
    if model is None or model.data != "synthetic":
        return "", ()
    trains = model.mode in (None, "train")
    return "synthetic data", ("(random: nothing to learn)",) if trains else ()


def _aligned(texts: Sequence[str], widths: Sequence[int]) -> str:
    pairs = zip(texts, widths, strict=True)
    return (" " * GAP).join(" " * (width - cell_len(text)) + text for text, width in pairs)
