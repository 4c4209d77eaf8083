"""The screen of a machine's processes, and the question which signal one gets."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.figures.machine.processes import command_text
from dlmon.figures.machine.readings import load_figures
from dlmon.records import Process
from dlmon.records.sanitize import clean
from dlmon.session.local_machine import all_processes
from dlmon.session.source import MachineSource
from dlmon.system.foreign_processes import FoundProcess, NoSignal
from tui.machine.help import PROCESSES
from tui.machine.process_list import LoadLine, ProcessDetails, ProcessList
from tui.machine.view import MachineView
from tui.screens.base import BACK, THEME, hidden
from tui.screens.filtered import (
    CLEAR_FILTER,
    FILTER,
    ROW_KEYS,
    SORT_KEYS,
    FilteredScreen,
)
from tui.screens.question import AnswerButton, QuestionScreen, stay
from tui.watch.machine_screen import GetView, MachineScreen

_LONGEST_COMMAND = 60


class SignalScreen(QuestionScreen):
    """A question which signal to send; the answer is the signal's name, or `stay`."""

    ANSWERS = (
        AnswerButton("SIGTERM", "t", "TERM", "asks it to end; it may save its work", "primary"),
        AnswerButton("SIGKILL", "k", "KILL", "ends it at once; unsaved work is lost", "error"),
        AnswerButton("SIGINT", "i", "INT", "interrupts it, as Ctrl-C in its terminal"),
        AnswerButton("SIGSTOP", "s", "STOP", "pauses it until CONT"),
        AnswerButton("SIGCONT", "c", "CONT", "lets it go on"),
        stay("Back"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("K", "answer('stay')", show=False)]


def _signal_question(process: Process) -> str:
    """Ask about a process by its pid, its user, its run and its command."""
    user = f" of {process.user}" if process.user else ""
    part = ", a part of this run" if process.of_run else ""
    command = clean(command_text(process), _LONGEST_COMMAND)
    return f"Send a signal to process {process.pid}{user}{part}?\n{command}"


def _sort_key(key: str, column: str, name: str) -> Binding:
    return Binding(key, f"sort_by('{column}')", name, tooltip=f"Sort by {name}, or reverse that")


class ProcessesScreen(FilteredScreen, MachineScreen):
    """The processes of the run, on GPUs, or busy."""

    BINDINGS: ClassVar[list[BindingType]] = [
        FILTER,
        Binding("t", "tree", "Tree", tooltip="Put each process below its parent, or sort again"),
        Binding("k,K", "signal", "Signal", tooltip="Send the chosen process a signal; asks first"),
        _sort_key("P", "cpu_pct", "CPU"),
        _sort_key("M", "rss_mib", "Memory"),
        _sort_key("G", "gpu_memory_mib", "GPU mem"),
        _sort_key("N", "pid", "PID"),
        hidden("o,greater_than_sign", "sort(1)", "Sort by the next column"),
        hidden("i", "reverse_order", "Reverse the order"),
        # Before "Back", which has the same key while there is no filter.
        CLEAR_FILTER,
        *(binding for binding in BACK if binding is not THEME),
        Binding("g", "gpus", "GPU", tooltip="Show every GPU in depth"),
        hidden("f4", "gpus", "GPU"),
        hidden("p", "leave", "Back"),
        *SORT_KEYS,
        *ROW_KEYS,
    ]
    HELP_PAGES = (PROCESSES, Path(__file__).with_name("processes.md"))

    def __init__(
        self, get_view: GetView, find: Callable[[int, float | None], FoundProcess] = FoundProcess
    ) -> None:
        super().__init__(get_view)
        self._find = find
        self._every: MachineSource | None = None
        self._has_chosen = False
        self._offered = (True, False)
        """Whether a process is on a GPU, and whether signals can reach the processes."""

    def read_all(self) -> MachineSource:
        return all_processes()

    def compose_parts(self) -> ComposeResult:
        yield self.filter_field
        yield LoadLine(id="load")
        processes = ProcessList(id="processes")
        processes.can_highlight = True
        yield processes
        yield ProcessDetails(id="details")

    def on_mount(self) -> None:
        self.query_one(ProcessDetails).show(None)
        view = self._get_view()
        if view.is_here:
            self._every = self.read_all()
            self._every.start()

    def on_unmount(self) -> None:
        if self._every is not None:
            self._every.stop()

    def readings(self, view: MachineView) -> tuple[object, ...]:
        return (*super().readings(view), self._processes)

    @property
    def _processes(self) -> tuple[Process, ...] | None:
        """All processes as last read; None until then, and of another machine."""
        latest = None if self._every is None else self._every.history.latest
        return None if latest is None else latest.processes

    async def action_gpus(self) -> None:
        await self.show_instead("gpus")

    def paint_machine(self, view: MachineView) -> None:
        self.query_one(LoadLine).show(load_figures(view.history.latest, view.facts), view.stale)
        self.table.show(view, self._processes)
        if (offered := (self.table.with_gpus, view.is_here)) != self._offered:
            # Without GPUs, there is no order by their memory.
            self._offered = offered
            self.refresh_bindings()
        if not self._has_chosen:
            # At first, that is the run's own.
            self._has_chosen = self.table.highlighted is not None or self.table.highlight_own()
        if self.table.highlighted is not None:
            self._show_chosen()

    @property
    def table(self) -> ProcessList:
        return self.query_one(ProcessList)

    @on(ProcessList.Highlighted)
    def _show_chosen(self) -> None:
        self.query_one(ProcessDetails).show(self.table.highlighted, self.table.all_rows or ())

    def why_not(self, action: str) -> str | None:
        if action != "signal":
            return super().why_not(action)
        if (host := self._get_view().host) is not None:
            return f"these processes are on {host}: no signal is sent to another host"
        return "these processes are as recorded: no signal is sent to them"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "signal":
            return self._offered[1]
        if action == "sort_by":
            return parameters[0] in [column.name for column in self.table.columns(self.size.width)]
        return super().check_action(action, parameters)

    def action_tree(self) -> None:
        self.table.toggle_tree()

    def action_sort_by(self, column: str) -> None:
        self.table.sort_by(column)

    def action_signal(self) -> None:
        """Ask which signal to send, if the chosen process still runs and we may send one."""
        chosen = self.table.highlighted
        try:
            if chosen is None:
                raise NoSignal("choose a process first, with up and down")
            process = self._find(chosen.pid, chosen.started)
        except NoSignal as problem:
            self.notify(str(problem), severity="error", markup=False)
            return

        def send(answer: str) -> None:
            if answer == "stay":
                return
            try:
                process.send(signal.Signals[answer])
            except NoSignal as problem:
                self.notify(str(problem), severity="error", markup=False)
            else:
                self.notify(f"{answer} was sent to process {chosen.pid}", markup=False)

        self.ask(SignalScreen(_signal_question(chosen)), send)
