"""The keys of the live screen, and which of them hold in its charts or its log only."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from tui.live.epochs import EPOCH_ACTIONS, EPOCH_KEYS
from tui.screens.base import HELP, SESSIONS, THEME, hidden
from tui.screens.charts import AXIS, CURSOR, METRICS, NEXT_VIEW
from tui.screens.export import EXPORT
from tui.screens.panes import ALONE, PANE_KEYS

LIVE_KEYS: list[BindingType] = [
    Binding("s", "stop", "Stop", tooltip="Stop the training after the current batch; asks first"),
    Binding("d", "detach", "Detach", tooltip="Leave it running without you"),
    Binding("a", "again", "Again", tooltip="Run it again with the same options"),
    Binding("l", "log", "Log", tooltip="All output and notices, over the whole screen"),
    Binding("l,escape", "close_log", "Back", tooltip="Back from the log to the charts"),
    HELP,
    Binding("q", "leave", "Quit", tooltip="Leave it; asks first where the run would stop"),
    NEXT_VIEW,
    Binding("g,f4", "gpus", "GPU", tooltip="Show every GPU in depth, and the CPU"),
    Binding("p,f5", "processes", "Processes", tooltip="Show what runs on the machine"),
    *CURSOR,
    ALONE,
    *EPOCH_KEYS,
    Binding("o", "next_part", "Loss", tooltip="Show the loss, or the output in its place"),
    Binding("c", "compare", "Compare", tooltip="Choose what to compare with, and see its details"),
    METRICS,
    EXPORT,
    SESSIONS,
    THEME,
    hidden("a", "stop_and_again", "Again", "Stop, and run it again; asks first"),
    *AXIS,
    *PANE_KEYS,
    hidden("S", "stacks", "Stacks", "Show the line of code that each process is at, now"),
    hidden("P", "profile", "Profile", "Have the framework's own profiler watch the next 5 steps"),
    hidden("y", "fit_axis", "Fit throughput", "Begin its axis above 0, or at 0 again"),
    hidden("O", "next_metric", "Next metric", "Show another metric in place of the loss"),
    hidden(
        "escape",
        "escape",
        "Back to now",
        "Remove the cursor, then follow; go back from a run that is over",
    ),
    hidden("up", "scroll_log(-1)", "Scroll up", "Older output"),
    hidden("down", "scroll_log(1)", "Scroll down", "Newer output"),
    hidden("pageup", "page_log(-1)", "Page up", "Much older output"),
    hidden("pagedown", "page_log(1)", "Page down", "Much newer output"),
    hidden("home", "page_log(-1000)", "Go to start of log", "The oldest output that was kept"),
    hidden("end", "page_log(1000)", "Go to end of log", "Follow the output again"),
    hidden("ctrl+p", "app.command_palette"),
    hidden("ctrl+c,ctrl+q", "leave"),
]

STOPS_SCRIPT = "Interrupt the script as Ctrl-C does; asks first"
"""What `s` does to a person's own script."""

CHART_ACTIONS = {
    "next_view",
    "zoom_in",
    "zoom_out",
    "pan",
    "move_cursor",
    "go_to_start",
    "go_to_end",
    "follow",
    "fit_axis",
    "escape",
    *EPOCH_ACTIONS,
}
"""What there is to do in the charts only."""

LOG_ACTIONS = {"close_log", "scroll_log", "page_log"}
"""What there is to do in the log only."""
