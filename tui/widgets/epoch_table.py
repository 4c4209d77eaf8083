"""The epochs of a run, newest at the bottom."""

from __future__ import annotations

from dlmon.records import Epoch
from tui import figures
from tui.widgets.lines import MUTED, PLAIN, Lines, cut
from tui.widgets.rows import Row

_COLUMN = 10
_FIXED = 27


class EpochTable(Lines):
    """One row an epoch: training and validation time, and every metric that has room."""

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start empty."""
        super().__init__(ascii=ascii, id=id)
        self._epochs: tuple[Epoch, ...] = ()

    def show(self, epochs: tuple[Epoch, ...]) -> None:
        """Show epochs."""
        self._epochs = epochs
        cut_short = any(not epoch.whole for epoch in epochs)
        self.set_titles("Epochs", "* not a whole epoch" if cut_short else "")
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return a heading and the last epochs."""
        if not self._epochs:
            return [(("no epoch has ended yet", MUTED),)]
        names = list(self._epochs[-1].metrics)[: max(0, (width - _FIXED) // _COLUMN)]
        heading = f"{'#':>4}{'train':>10}{'validate':>11}  " + "".join(
            f"{_short(name):>{_COLUMN}}" for name in names
        )
        rows: list[Row] = [cut(((heading, MUTED),), width)]
        rows.extend(
            cut(((_epoch_text(epoch, names), PLAIN),), width)
            for epoch in self._epochs[-max(0, height - 1) :]
        )
        return rows[:height]


def _epoch_text(epoch: Epoch, names: list[str]) -> str:
    train = figures.seconds((epoch.train_end - epoch.begin) / 1e9)
    validation = epoch.validation
    validated = figures.seconds((validation.end - validation.begin) / 1e9) if validation else "–"
    number = f"{'' if epoch.whole else '*'}{epoch.epoch + 1}"
    metrics = "".join(f"{_metric(epoch, name):>{_COLUMN}}" for name in names)
    return f"{number:>4}{train:>10}{validated:>11}  {metrics}"


def _metric(epoch: Epoch, name: str) -> str:
    value = epoch.metrics.get(name)
    text = epoch.why.get(name, "–") if value is None else figures.metric(value)
    return text if len(text) < _COLUMN else text[: _COLUMN - 2] + "…"


def _short(name: str) -> str:
    name = name.replace("accuracy", "acc")
    return name if len(name) < _COLUMN else name[: _COLUMN - 2] + "…"
