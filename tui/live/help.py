"""What `?` explains on the live screen."""

from __future__ import annotations

from tui.live import (
    account_line,
    limit_line,
    loss_chart,
    output_pane,
    progress_line,
    time_charts,
    top_line,
)
from tui.live.comparison import bars as comparison_bars
from tui.live.comparison import panel
from tui.live.epochs import table as epoch_table
from tui.machine.charts import MACHINE_HELP

_FIGURES = (
    ("Throughput", "Training samples per second; higher is better."),
    ("What limits it", "What the training waits for most, and the readings that show it."),
    ("Stalls", "Batches that took over ten times as long as usual."),
    ("In doubt", "Something speaks against the figures, so don't compare by them yet."),
)
_LEAVE = ("q", "Leaves this screen; it asks first where the run would stop.")

FIRST_STEPS: tuple[tuple[str, str], ...] = (
    *_FIGURES,
    ("s", "Stops the training after the current batch; it asks first."),
    _LEAVE,
)

FIRST_STEPS_OF_SCRIPT: tuple[tuple[str, str], ...] = (
    *_FIGURES,
    ("s", "Interrupts the script as Ctrl-C does; it asks first."),
    _LEAVE,
)

FIRST_STEPS_OF_REPLAY: tuple[tuple[str, str], ...] = (
    *_FIGURES,
    ("space", "Pauses the replay, or goes on with it."),
    ("q", "Leaves the replay."),
)

TOPICS: tuple[tuple[str, str], ...] = (
    *top_line.HELP,
    *limit_line.HELP,
    *time_charts.HELP,
    *MACHINE_HELP,
    (
        "mem",
        "The share of a GPU's memory in use, where that has no chart of its own. 4.7/6G: the "
        "same as a figure, in GiB. 96/79%: the utilisation and that share, where there are so many "
        "GPUs that no more has room.",
    ),
    *panel.HELP,
    *comparison_bars.HELP,
    *account_line.HELP,
    *epoch_table.HELP,
    *loss_chart.HELP,
    *output_pane.HELP,
    *progress_line.HELP,
)
