"""Choose an epoch of the table, and have all charts show it alone."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from dlmon.figures import units
from dlmon.figures.comparison import epoch_word
from dlmon.figures.epochs import epoch_text_of
from dlmon.records import Epoch
from dlmon.session.snapshot import Snapshot
from tui.drawing.time_axis import TimeAxis
from tui.drawing.time_window import TimeWindow
from tui.live.epochs.table import EpochTable, samples_per_second_of
from tui.live.limit_line import LimitLine
from tui.live.time_charts import TimeChartsScreen
from tui.screens.base import hidden
from tui.widgets.lines import PLAIN, STRONG, GrowingLines, beside, shows, wrapped
from tui.widgets.rows import TextRow

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


class EpochLine(GrowingLines):
    """Takes the place of what limits the run while the charts show one epoch alone."""

    DEFAULT_CSS = "EpochLine { height: auto; padding: 0 2; display: none; }"
    MOST_ROWS: ClassVar[int] = 4

    def rows(self, width: int, height: int, heading: str, sentence: str) -> list[TextRow]:
        """Return the sentence beside the name."""
        heading = f"{heading}  "
        lines = wrapped(sentence, width - len(heading), height)
        return beside(heading, lines, PLAIN, STRONG)

    show = shows(rows)


class EpochZoom(TimeChartsScreen):
    """A screen whose table of epochs chooses what the charts show."""

    _slow: frozenset[int] = frozenset()
    _slow_of: tuple[object, ...] = ()
    _window_before = TimeWindow()
    _alone: Epoch | None = None
    _has_epochs = False

    def paint_epochs(self, snapshot: Snapshot) -> None:
        """Show the epochs, and what differed in the one that the charts show alone."""
        epochs = snapshot.epochs
        known = (len(epochs), epochs[-1] if epochs else None, snapshot.compile_s)
        if known != self._slow_of:
            # Of thousands this takes a while, so only where one has come.
            self._slow_of = known
            self._slow = self._source.session.slow_epochs(epochs)
        self._paint_table(snapshot)
        self._paint_line(snapshot)
        self._offer(bool(epochs))

    def _paint_table(self, snapshot: Snapshot) -> None:
        self.query_one(EpochTable).show(
            snapshot.epochs,
            self._source.running,
            epoch_word(snapshot.header),
            self._slow,
            self.zoomed_epoch is not None,
            snapshot.model,
        )

    def _offer(self, has_epochs: bool) -> None:
        if has_epochs != self._has_epochs:
            self._has_epochs = has_epochs
            self.refresh_bindings()

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
        """The epoch that the charts show alone."""
        return None if self.window.length_ns is None else self._alone

    def _throughput_now(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Write the throughput of the epoch that is shown alone, else that of the run."""
        epoch = self.zoomed_epoch
        if epoch is None or epoch.samples is None:
            return super()._throughput_now(snapshot)
        name = f"{epoch_word(snapshot.header)} {epoch.epoch + 1}"
        return (f"{name}  {samples_per_second_of(epoch)} {units.rate_unit(False)}",)

    def _shown_part_text(self, axis: TimeAxis) -> str:
        epoch = self.zoomed_epoch
        if epoch is None:
            return super()._shown_part_text(axis)
        return f"{epoch_word(self._source.session.header)} {epoch.epoch + 1} alone, Esc goes back"

    def can_choose_epoch(self) -> bool:
        """Whether there is an epoch, and its table is seen."""
        return self.is_mounted and self._has_epochs and self.query_one(EpochTable).display

    def action_choose_epoch(self, rows: int) -> None:
        """Choose another epoch; up is negative."""
        table = self.query_one(EpochTable)
        table.move(rows)
        if self.zoomed_epoch is not None and table.chosen is not None:
            self._zoom_to(table.chosen)

    def action_zoom_to_epoch(self) -> None:
        """Have all charts show the chosen epoch alone; without a choice, the newest slow one."""
        table = self.query_one(EpochTable)
        epoch = table.chosen or table.first_choice
        if epoch is not None:
            table.choose(epoch)
            self._zoom_to(epoch)

    def on_row_list_chosen(self) -> None:
        """Show the epoch that was clicked."""
        chosen = self.query_one(EpochTable).chosen
        if chosen is not None:
            self._zoom_to(chosen)

    def _zoom_to(self, epoch: Epoch) -> None:
        if self.zoomed_epoch is None:
            self._window_before = self.window
        self._alone = epoch
        self._look(self.window.spanning(epoch.begin, epoch.end))

    def action_escape(self) -> None:
        """Take the cursor away, else go back from an epoch, else follow the run again."""
        table = self.query_one(EpochTable)
        if self.window.cursor_ns is None and self.zoomed_epoch is not None:
            self._look(self._window_before)
            table.choose(None)
        elif self.window.cursor_ns is None and table.chosen is not None:
            table.choose(None)
        else:
            super().action_escape()

    def _look(self, window: TimeWindow) -> None:
        super()._look(window)
        snapshot = self._source.snapshot()
        self._paint_table(snapshot)
        self._paint_line(snapshot)
