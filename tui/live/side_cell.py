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


def choices(room: Room, has_epochs: bool) -> list[frozenset[Part]]:
    """Return what may be shown together, in the order in which the key goes through them."""
    if room is Room.NONE:
        return [frozenset()]
    beside = [Part.LOSS, Part.OUTPUT]
    if room is Room.ALL:
        return [frozenset(Part if has_epochs else beside)]
    if room is Room.ONE and has_epochs:
        return [frozenset({part}) for part in Part]
    return [frozenset({part, Part.EPOCHS} if has_epochs else {part}) for part in beside]


def part_after(shown: frozenset[Part], room: Room, has_epochs: bool) -> Part | None:
    """Return what the key shows next; None where all is shown, or nothing can be."""
    offered = choices(room, has_epochs)
    after = offered[(offered.index(shown) + 1) % len(offered)]
    return next(iter(after - shown), None)


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
