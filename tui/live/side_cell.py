"""The cell beside the epochs: the loss or the output, and at 160 columns both."""

from __future__ import annotations

from enum import StrEnum

from textual.app import ComposeResult
from textual.containers import Horizontal

from tui.live.loss_chart import LossChart
from tui.live.output_pane import OutputPane


class Part(StrEnum):
    """What may stand in the row of the epochs."""

    EPOCHS = "epochs"
    LOSS = "loss"
    OUTPUT = "output"


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
