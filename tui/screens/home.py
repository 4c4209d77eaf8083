"""The home screen: pick a workload; this machine, live, beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from dlmon.host import host_name
from dlmon.sessions import SessionEntry
from tui import figures
from tui.run_options import RunOptions
from tui.widgets.machine_panel import MachinePanel
from tui.widgets.too_small import TooSmall
from workloads.catalog import WORKLOADS, Workload


class HomeScreen(Screen[None]):
    """Workloads on one side, the machine on the other.

    Args:
        entries: the recorded sessions, for each workload's last result.
        launch: called with the workload that was picked.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "launch", "Train it", priority=True),
        Binding("w", "app.watch", "Watch the machine"),
        Binding("q", "app.quit", "Quit"),
        Binding("ctrl+c,ctrl+q", "app.quit", show=False),
    ]

    def __init__(
        self,
        entries: list[SessionEntry],
        launch: Callable[[Workload], None],
        ascii: bool = False,
    ) -> None:
        """Take what was recorded; the machine is read once the screen is shown."""
        super().__init__()
        self._entries = entries
        self._launch = launch
        self._ascii = ascii

    def compose(self) -> ComposeResult:
        """Lay out the list, what the highlighted workload is, and the machine."""
        yield Static(
            Content.assemble(("dlmon", "bold $text-accent"), "  what should this machine train?"),
            id="heading",
        )
        with Horizontal():
            with Vertical(id="pick"):
                yield OptionList(
                    *(
                        Option(Content.assemble((w.name, "bold"), f"  {w.family}"), id=w.name)
                        for w in WORKLOADS.values()
                    ),
                    id="workloads",
                )
                yield Static(id="about")
            yield MachinePanel(ascii=self._ascii)
        yield Footer(show_command_palette=False)
        yield TooSmall()

    def on_mount(self) -> None:
        """Title the panels, and start on the first workload."""
        workloads = self.query_one("#workloads", OptionList)
        workloads.border_title = "Workloads"
        workloads.focus()

    def on_screen_resume(self) -> None:
        """Read the machine while this screen is on top, but let it be painted first."""
        self.call_after_refresh(self._start_machine)

    def _start_machine(self) -> None:
        if self.is_current:
            self.query_one(MachinePanel).start()

    def on_screen_suspend(self) -> None:
        """Leave the machine to the session's own sensors."""
        self.query_one(MachinePanel).stop()

    def show_entries(self, entries: list[SessionEntry]) -> None:
        """Take the sessions as they are now."""
        self._entries = entries
        highlighted = self.query_one("#workloads", OptionList).highlighted_option
        if highlighted is not None and highlighted.id:
            self._describe(WORKLOADS[highlighted.id])

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Say what the highlighted workload is."""
        if event.option.id:
            self._describe(WORKLOADS[event.option.id])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Train what was chosen."""
        if event.option.id:
            self._launch(WORKLOADS[event.option.id])

    def action_launch(self) -> None:
        """Train what is highlighted."""
        self.query_one("#workloads", OptionList).action_select()

    def _describe(self, workload: Workload) -> None:
        lines = [
            workload.title,
            f"{workload.parameters:,} parameters, "
            f"{figures.count(workload.train_flops)}FLOP a sample",
            f"batch {workload.batch_size}, {workload.epochs} epochs of "
            f"{workload.samples:,} samples",
            "",
            self._last_result(workload),
            "",
            RunOptions().command_line(workload),
            "",
            workload.source,
        ]
        self.query_one("#about", Static).update(Content("\n".join(lines)))

    def _last_result(self, workload: Workload) -> str:
        for entry in reversed(self._entries):
            result = entry.result
            here = entry.header.host == host_name()
            if entry.header.workload != workload.name or result is None or not here:
                continue
            timing = (
                result.run_seconds if workload.metric == "run_seconds" else result.seconds_per_epoch
            )
            if timing is not None:
                unit = "a run" if workload.metric == "run_seconds" else "an epoch"
                when = figures.day_and_time(entry.header.wall)
                return f"last here: {figures.band(timing)} {unit}, {when}"
        return "not trained here yet"
