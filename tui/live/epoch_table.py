"""The epochs of a run, newest at the bottom."""

from __future__ import annotations

from rich.cells import cell_len

from dlmon.records import Epoch
from tui.formatting import units
from tui.widgets.following_lines import Tail
from tui.widgets.lines import MUTED, PLAIN, cut
from tui.widgets.rows import TextRow, fit

HELP: tuple[tuple[str, str], ...] = (
    (
        "Epochs",
        "One row for each pass over the training samples: how long its training took, then its "
        "validation, then the metrics that it ended with. * marks an epoch that was cut short.",
    ),
)

_GAP = 2
_LONGEST_NAME = 16
_USUAL_METRIC, _USUAL_TIME = 6, 6

EpochColumn = tuple[str, list[str]]
"""A heading and its cells."""


class EpochTable(Tail[Epoch]):
    """One row an epoch: training and validation time, and the metrics that have room."""

    _empty = ""
    _each = "epoch"

    def show(self, epochs: tuple[Epoch, ...], running: bool = True, each: str = "epoch") -> None:
        """Show epochs; of a session that is over, no more are to come.

        Args:
            epochs: those that have ended.
            running: whether more may come.
            each: what one is called: an epoch, or a pass where nothing is trained.
        """
        self._each = each
        self._empty = (
            f"no {each} has ended yet" if running else f"the run ended before its first {each}"
        )
        cut_short = any(not epoch.whole for epoch in epochs)
        title = units.plural(each).capitalize()
        self.show_lines(epochs, title, f"* incomplete {each}" if cut_short else "")

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return a heading and the epochs in view."""
        if not self._lines:
            return [cut(((self._empty, MUTED),), width, self.ellipsis)]
        end = self._end()
        epochs = self._lines[max(0, end - max(1, height - 1)) : end]
        took = "train" if self._each == "epoch" else "took"
        columns = _columns(tuple(epochs), took, width, self.ellipsis)
        widths = [max(map(cell_len, (heading, *cells))) for heading, cells in columns]
        texts = [[heading for heading, _ in columns]]
        texts.extend([cells[row] for _, cells in columns] for row in range(len(epochs)))
        return [
            cut(((_aligned(text, widths), PLAIN if row else MUTED),), width, self.ellipsis)
            for row, text in enumerate(texts)
        ][:height]

    def rows_of(self, line: Epoch, width: int, height: int) -> list[TextRow]:
        """Return one row: `draw` fills it, since columns are aligned over all rows."""
        return [()]

    def lines_from_top(self, width: int, height: int) -> int:
        """Return how many epochs fit below the heading."""
        return min(len(self._lines), max(1, height - 1))


def _columns(epochs: tuple[Epoch, ...], took: str, width: int, ellipsis: str) -> list[EpochColumn]:
    """Return the columns that have room, in the order that they stand."""
    columns = [
        ("#", [f"{'' if epoch.whole else '*'}{epoch.epoch + 1}" for epoch in epochs]),
        (took, [f"{_train_time(epoch):>{_USUAL_TIME}}" for epoch in epochs]),
    ]
    if any(epoch.validation is not None for epoch in epochs):
        columns.append(("val", [f"{_validation_time(epoch):>{_USUAL_TIME}}" for epoch in epochs]))
    taken = sum(map(_column_width, columns)) - _GAP
    # Of all of them: one that was cut short has no metrics of a validation.
    names = list(dict.fromkeys(name for epoch in epochs for name in epoch.metrics))
    kept: dict[str, EpochColumn] = {}
    for name in sorted(names, key=_importance):
        cells = [_cut(f"{_metric(epoch, name):>{_USUAL_METRIC}}", ellipsis) for epoch in epochs]
        column = (_cut(_short(name), ellipsis), cells)
        if taken + _column_width(column) <= width:
            taken += _column_width(column)
            kept[name] = column
    columns.extend(kept[name] for name in names if name in kept)
    speed = ("samples/s", [_samples_per_second(epoch) for epoch in epochs])
    if len(kept) == len(names) and taken + _column_width(speed) <= width:
        columns.append(speed)
    return columns


def _column_width(column: EpochColumn) -> int:
    heading, cells = column
    return _GAP + max(map(cell_len, (heading, *cells)))


def _aligned(texts: list[str], widths: list[int]) -> str:
    pairs = zip(texts, widths, strict=True)
    return (" " * _GAP).join(" " * (width - cell_len(text)) + text for text, width in pairs)


def _importance(name: str) -> tuple[bool, bool]:
    """Put the loss first, then that of the validation, then other metrics in their own order."""
    return not name.endswith("loss"), name != "loss"


def _train_time(epoch: Epoch) -> str:
    return units.seconds((epoch.train_end - epoch.begin) / 1e9)


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
