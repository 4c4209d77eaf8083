"""The cell beside the epochs: the loss or the output, and at 160 columns both."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from textual.app import ComposeResult
from textual.containers import Horizontal

from tui.live.loss_chart import LossChart
from tui.live.output_pane import OutputPane


class Part(StrEnum):
    """What may stand in the row of the epochs."""

    EPOCHS = "epochs"
    LOSS = "loss"
    OUTPUT = "output"


class Room(IntEnum):
    """How many of them have room."""

    NONE, ONE, TWO, ALL = range(4)


def parts_shown(room: Room, chosen: Part, beside: Part, has_epochs: bool) -> frozenset[Part]:
    """Return what is shown.

    Args:
        room: for how much there is.
        chosen: what is shown where there is room for one.
        beside: what stands beside the epochs.
        has_epochs: whether there are any; where not, what stands beside them has their room.
    """
    if room is Room.NONE:
        return frozenset()
    if room is Room.ALL:
        return frozenset(Part) if has_epochs else frozenset({Part.LOSS, Part.OUTPUT})
    if not has_epochs:
        return frozenset({beside})
    return frozenset({chosen} if room is Room.ONE else {Part.EPOCHS, beside})


def part_after(room: Room, chosen: Part, beside: Part, has_epochs: bool) -> Part | None:
    """Return what the key chooses next; None where all is shown, or nothing can be."""
    if room in (Room.NONE, Room.ALL):
        return None
    if room is Room.ONE and has_epochs:
        order = list(Part)
        return order[(order.index(chosen) + 1) % len(order)]
    return Part.OUTPUT if beside is Part.LOSS else Part.LOSS


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
