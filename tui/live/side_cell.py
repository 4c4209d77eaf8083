"""The cell beside the epochs: the loss or the output, and at 160 columns both."""

from __future__ import annotations

from enum import StrEnum

from textual.app import ComposeResult
from textual.containers import Horizontal

from dlmon.figures.glyphs import Glyphs
from dlmon.session.learning import Metric
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.small_curve import axis_of_all, small_curve
from tui.drawing.time_axis import TimeAxis
from tui.live.loss_chart import LossChart
from tui.live.output_pane import OutputPane

LEAST_READINGS = 3


class LossCurve:
    """Draws a metric as it was while it trained, again only where more of it can be seen."""

    def __init__(self) -> None:
        self._drawn: tuple[Metric | None, TimeAxis | None, Glyphs | None] = (None, None, None)
        self._text = ""

    def text(self, metric: Metric, cells: int, glyphs: Glyphs) -> str:
        """Return the curve; empty where there are too few readings for one."""
        start_ns = metric.series.start_ns
        if metric.readings < LEAST_READINGS or start_ns is None:
            return ""
        # What is no number was read as well: a gap.
        axis = axis_of_all(start_ns, metric.last_ns, COLUMNS_PER_CELL * cells)
        if axis is None:
            return ""
        wanted = (metric, axis, glyphs)
        if wanted != self._drawn:
            self._drawn = wanted
            self._text = small_curve(axis.columns(metric.series), cells, glyphs)
        return self._text


class Part(StrEnum):
    """What may stand in the row of the epochs."""

    EPOCHS = "epochs"
    LOSS = "loss"
    OUTPUT = "output"


class Room(StrEnum):
    """How many of them have room."""

    NONE = "none"
    ONE = "one"
    TWO = "two"
    ALL = "all"


def parts_shown(
    room: Room, chosen: Part | None, first: Part, has_epochs: bool = True
) -> frozenset[Part]:
    """Return what is shown.

    Args:
        room: for how much there is.
        chosen: what a person chose; None until one does.
        first: what stands beside the epochs until then.
        has_epochs: whether there are any; where not, what stands beside them has their room.
    """
    if room is Room.NONE:
        return frozenset()
    if room is Room.ALL:
        return frozenset(Part) if has_epochs else frozenset({Part.LOSS, Part.OUTPUT})
    if not has_epochs:
        return frozenset({_beside(chosen, first)})
    if room is Room.ONE:
        return frozenset({chosen or Part.EPOCHS})
    return frozenset({Part.EPOCHS, _beside(chosen, first)})


def part_after(
    room: Room, chosen: Part | None, first: Part, has_epochs: bool = True
) -> Part | None:
    """Return what the key chooses next; None where all is shown, or nothing can be."""
    if room in (Room.NONE, Room.ALL):
        return None
    if room is Room.ONE and has_epochs:
        order = list(Part)
        return order[(order.index(chosen or Part.EPOCHS) + 1) % len(order)]
    return Part.OUTPUT if _beside(chosen, first) is Part.LOSS else Part.LOSS


def _beside(chosen: Part | None, first: Part) -> Part:
    return first if chosen is None or chosen is Part.EPOCHS else chosen


class SideCell(Horizontal):
    """The loss and the output, of which the screen shows one, both or none."""

    DEFAULT_CSS = """
    SideCell { height: 100%; }
    SideCell > * { width: 1fr; height: 100%; }
    SideCell.-without-epochs { column-span: 2; }
    .-broad SideCell.-without-epochs { column-span: 1; row-span: 2; }
    """

    def __init__(self) -> None:
        super().__init__(id="side")
        self.loss, self.output = LossChart(), OutputPane()

    def compose(self) -> ComposeResult:
        yield self.loss
        yield self.output
