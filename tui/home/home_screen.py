"""The home screen: pick a workload and set its options, beside the readings of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from dlmon.options.run_options import OPTIONS, RunOptions
from dlmon.records.sanitize import clean
from dlmon.session.source import MachineSource
from dlmon.system.this_host import host_name
from tui.home.workload_list import WorkloadList
from tui.messages import ShowSession, Train, TrainSeveral
from tui.screens.base import PALETTE, BaseScreen
from tui.widgets.text_field import FilterField
from workloads.catalog import WORKLOADS

# Imported after the first paint, so that the user doesn't wait for them.
if TYPE_CHECKING:
    from textual.widgets import OptionList

    from dlmon.log.directory import SessionEntry
    from tui.home.about_workload import AboutWorkload, RecentSessions
    from tui.home.run_form import RunForm
    from tui.machine.machine import MachinePanel

_STARTS = (
    ("enter", "⏎", "Workload"),
    ("f8", "f8", "Your own script"),
    ("f7", "f7", "Remote machine"),
    ("ctrl+r", "^r", "Sessions"),
)
"""The ways to begin: the key, its sign, and its name."""


class StartLine(Static):
    """The ways to begin in one row; a click presses the key."""

    ALLOW_SELECT = False

    def on_mount(self) -> None:
        self.auto_links = False
        starts = "".join(
            f"[@click=app.simulate_key('{key}')]  [$footer-key-foreground bold]{sign}[/] {name}[/]"
            for key, sign, name in _STARTS
        )
        starts = starts.replace("⏎", "enter") if self.app.has_class("-ascii") else starts
        self.update(f"[$text-accent bold] dlmon [/]{starts}")


class CommandLine(Static):
    """The command line of the run, which a click copies, or the problem with the options."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__(id="command")
        self._shown = Content()

    def show_command(self, command: str) -> None:
        self._show(Content.assemble(("$ ", "$text-muted 60%"), clean(command)))

    def show_problem(self, problem: str) -> None:
        self._show(Content.assemble(("! ", "bold $text-error"), (clean(problem), "$text-error")))

    async def on_click(self) -> None:
        await self.run_action("screen.copy_command")

    def _show(self, content: Content) -> None:
        if content != self._shown:
            self._shown = content
            self.update(content)


_QUIT = Binding.Group("Quit", compact=True)
# From this size on, the recent sessions leave the machine's charts enough rows.
_ROOMY_WIDTH, _ROOMY_HEIGHT = 100, 38


class HomeScreen(BaseScreen, inherit_bindings=False):
    """Workloads on one side, the machine and the options on the other.

    Args:
        machine: makes the source of this machine's readings, after the first paint.
        options: the user's defaults.
    """

    CSS_PATH = "home.tcss"
    AUTO_FOCUS = "#filter"
    # In the order of the footer. Letters go to the filter, so none is a command. Keys that move the
    # focus have priority, so that the keys after them go to the next field.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "launch", "Train", priority=True, tooltip="Train the chosen workload"),
        Binding("tab", "next_option", "Options", priority=True, tooltip="Go through the options"),
        Binding(
            "escape", "pick", "List", priority=True, tooltip="Go back to the list of workloads"
        ),
        Binding("f1,question_mark", "app.help", "Help", tooltip="Explain this screen"),
        Binding(
            "q",
            "quit_while_nothing_is_typed",
            "Quit",
            key_display="q ",
            tooltip="Quit dlmon, if the filter is empty",
            group=_QUIT,
        ),
        Binding("ctrl+q", "app.quit", "Quit", tooltip="Leave dlmon", group=_QUIT),
        Binding("f2", "app.watch", "Watch", tooltip="Watch the machine alone"),
        Binding("ctrl+y", "copy_command", "Copy", tooltip="Copy the command line"),
        replace(PALETTE, show=True, priority=True),
        Binding("ctrl+s", "sweep", "Sweep", tooltip="Train once for each of several values"),
        Binding("f3", "app.change_theme", "Theme", tooltip="Choose other colours"),
        Binding("f4", "gpus", "GPU", tooltip="Show every GPU in depth, and the CPU"),
        Binding("up", "move('cursor_up')", "Previous workload", show=False),
        Binding("down", "move('cursor_down')", "Next workload", show=False),
        Binding("pageup", "move('page_up')", "Page up", show=False),
        Binding("pagedown", "move('page_down')", "Page down", show=False),
        Binding(
            "f5", "processes", "Processes", show=False, tooltip="Show what runs on this machine"
        ),
        # The first row of the screen shows these.
        Binding("f8", "app.script", "Script", show=False, tooltip="Run a script of your own"),
        Binding("f7", "app.hosts", "Hosts", show=False, tooltip="Watch other machines over ssh"),
        Binding(
            "ctrl+r",
            "app.sessions",
            "Sessions",
            show=False,
            tooltip="Recorded and running sessions",
        ),
        Binding("ctrl+c", "app.quit", "Quit", show=False, priority=True),
        Binding(
            "f9",
            "reset_options",
            "Reset options",
            show=False,
            tooltip="Reset all options to their defaults",
        ),
        Binding("shift+tab", "previous_option", "Previous option", show=False, priority=True),
    ]
    HELP_PAGES = (Path(__file__).with_name("home.md"),)

    class LaunchRequested(Message):
        """The user pressed Enter."""

    def __init__(
        self, machine: Callable[[], MachineSource], options: RunOptions | None = None
    ) -> None:
        super().__init__(classes="-first")
        self._make_source = machine
        self._workloads = tuple(WORKLOADS.values())
        self._configured = options or RunOptions()
        self._entries: list[SessionEntry] = []
        self._results: Mapping[str, list[SessionEntry]] = {}
        self._last: dict[str, SessionEntry | None] = {}
        self._last_options: RunOptions | None = None
        self._filter = FilterField()
        self._list = WorkloadList(self._workloads, id="workloads")
        self._is_complete = False
        self._early_request: type[Train] | None = None
        # Made after the first paint.
        self._about: AboutWorkload
        self._machine: MachinePanel
        self._recent: RecentSessions
        self._form: RunForm
        self._command: CommandLine

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        options = ((option.label, option.help) for option in OPTIONS.values())
        return (*super().topics, *options)

    def compose(self) -> ComposeResult:
        """Lay out the workloads alone, for the first paint."""
        yield StartLine()
        with Horizontal(), Vertical(id="pick"):
            yield self._filter
            yield self._list

    def on_mount(self) -> None:
        # By way of the app's queue: the screen is painted only after that is read.
        self.app.call_later(self.call_after_refresh, self._complete)

    async def _complete(self) -> None:
        """Lay out the machine and the form."""
        if not self.is_attached:  # closed before the first paint
            return
        from tui.home.about_workload import AboutWorkload, RecentSessions
        from tui.home.run_form import RunForm
        from tui.machine.machine import MachinePanel

        self._about = AboutWorkload(id="about")
        self._machine = MachinePanel(self._make_source())
        self._machine.border_title = "This machine"
        self._recent = RecentSessions(id="recent")
        self._form = RunForm(self._configured)
        self._command = CommandLine()
        with self.app.batch_update():
            self.remove_class("-first")
            await self.query_one("#pick").mount(self._about)
            await self.query_one(Horizontal).mount(
                Vertical(self._machine, self._recent, self._form)
            )
            await self.mount(self._command, *self.compose_frame())
        self._is_complete = True
        # The footer missed the first update of the bindings.
        self.refresh_bindings()
        self.show_entries(self._entries)
        self.on_option_list_option_highlighted()
        self._start_machine()
        if self._early_request is not None:
            self._request(self._early_request)

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self._start_machine)

    def _start_machine(self) -> None:
        if self.is_active and self._is_complete:
            self._machine.start()

    def on_resize(self) -> None:
        """Show recent sessions if they fit; focus the filter if the focused widget is gone."""
        width, height = self.size
        self.set_class(width >= _ROOMY_WIDTH and height >= _ROOMY_HEIGHT, "-roomy")
        self.call_after_refresh(self._focus_filter)

    def _focus_filter(self) -> None:
        if self.focused is None:
            self._filter.focus()

    def on_screen_suspend(self) -> None:
        """Stop sampling, unless the screen on top needs these sensors."""
        if self._is_complete and not self.keeps_sampling:
            self._machine.stop()

    def action_gpus(self) -> None:
        from tui.watch.detail_screens import GpusScreen

        if self._is_complete:
            self.app.push_screen(GpusScreen(self._machine.view))

    def action_processes(self) -> None:
        from tui.watch.detail_screens import ProcessesScreen

        if self._is_complete:
            self.app.push_screen(ProcessesScreen(self._machine.view))

    def show_entries(self, entries: list[SessionEntry]) -> None:
        self._entries = entries
        if not self._is_complete:
            return
        from dlmon.figures.last_results import results_here

        self._results = results_here(self._workloads, entries, host_name())
        self._last_options = None
        self._recent.show(entries)
        self._describe()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list.filter(event.value)
        if self._list.workload is None:
            self.on_option_list_option_highlighted()
        # The q key quits only if the filter is empty.
        self.refresh_bindings()

    def on_option_list_option_highlighted(self) -> None:
        """Describe the highlighted workload, and show its defaults."""
        if not self._is_complete:
            return
        if self._list.workload is not None:
            self._form.show_defaults(self._list.workload)
        self._check()

    def on_click(self, event: events.Click) -> None:
        """Focus the filter after a click in the list, so that arrow keys move the highlight."""
        if event.widget is self._list:
            self._filter.focus()

    def on_workload_list_workload_chosen(self) -> None:
        self._launch_highlighted()

    def on_run_form_edited(self) -> None:
        self._check()
        # The key that resets the options is offered only if one is changed.
        self.refresh_bindings()

    def on_machine_panel_facts_read(self, event: MachinePanel.FactsRead) -> None:
        self._form.show_devices(event.machine)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.post_message(ShowSession(self._recent.newest[event.option_index].path))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the way back to the list only in the form, where `q` never quits."""
        if action == "quit_while_nothing_is_typed":
            return self._filter.has_focus and not self._filter.value
        if action == "reset_options":
            return self._is_complete and self._form.is_changed
        if action == "launch":
            # Enter opens the session that is highlighted there.
            return not (self._is_complete and self._recent.has_focus)
        return action != "pick" or not self._filter.has_focus

    def action_launch(self) -> None:
        """Train once the field has taken the keys that were typed before, one by one."""
        field = self.focused or self
        field.call_later(field.post_message, self.LaunchRequested())

    def on_home_screen_launch_requested(self) -> None:
        """Train by way of the app's queue, which also holds keys that no field takes."""
        self.app.call_later(self._launch_highlighted)

    def _launch_highlighted(self) -> None:
        self._request(Train)

    def action_sweep(self) -> None:
        self._request(TrainSeveral)

    def _request(self, message: type[Train]) -> None:
        """Train the highlighted workload with the typed options, or go to a wrong option."""
        if not self._is_complete:
            self._early_request = message
            return
        workload = self._list.workload
        if workload is None:
            return
        typed = self._form.typed
        problems = typed.problems(workload)
        if not problems:
            self.post_message(message(workload, typed.options))
        elif self._form.focused_option not in problems:
            self._form.focus_option(next(iter(problems)))

    async def action_quit_while_nothing_is_typed(self) -> None:
        await self.run_action("app.quit")

    def action_reset_options(self) -> None:
        self._form.reset()

    def action_pick(self) -> None:
        self._filter.focus()

    def action_next_option(self) -> None:
        self._go_by(1)

    def action_previous_option(self) -> None:
        self._go_by(-1)

    def _go_by(self, step: int) -> None:
        """Move the focus from the filter through the form to the recent sessions."""
        if not self._is_complete:
            return
        recent = [self._recent] if self._recent.display else []
        stops: list[Widget] = [self._filter, *self._form.fields, *recent]
        here = stops.index(self.focused) if self.focused in stops else 0
        # Not `focus()`, which is deferred: the next key is meant for the new field.
        self.set_focus(stops[(here + step) % len(stops)])

    async def action_move(self, where: str) -> None:
        """Move the highlight of the list, which never has the focus."""
        await self._list.run_action(where)
        # A page up may end on the name of the first family, which can't be highlighted.
        if self._list.highlighted is None:
            self._list.action_first()

    def action_copy_command(self) -> None:
        """Copy the command to the clipboard."""
        workload = self._list.workload
        if workload is None or not self._is_complete:
            return
        typed = self._form.typed
        problem = next(iter(typed.problems(workload).values()), None)
        if problem is not None:
            self.notify(f"not copied: {clean(problem)}", severity="warning", markup=False)
            return
        command = typed.options.command_line(workload, self._configured)
        self.app.copy_to_clipboard(command)
        self.notify(f"copied to the terminal's clipboard: {clean(command)}", markup=False)

    def _find_last(self, options: RunOptions) -> None:
        """Find the last result of each workload with these options, if they changed."""
        if options == self._last_options:
            return
        from dlmon.figures.last_results import last_in_brief, last_result

        self._last_options = options
        self._last, texts = {}, {}
        for workload in self._workloads:
            result = last_result(self._results.get(workload.name, ()), workload, options)
            self._last[workload.name] = result
            texts[workload.name] = last_in_brief(result, workload, options)
        self._list.show_results(texts)

    def _describe(self) -> None:
        from dlmon.figures.comparison.earlier_runs import comparable_text, match_of_options
        from dlmon.figures.last_results import last_text

        workload, typed = self._list.workload, self._form.typed
        self._find_last(typed.options)
        if workload is None:
            self._about.show(None)
            return
        published = ""
        if not typed.problems(workload):
            published = comparable_text(match_of_options(workload, typed.options))
        last = last_text(self._last.get(workload.name), workload, typed.options)
        self._about.show(workload, last, published)

    def _check(self) -> None:
        """Mark wrong options, and show the command, or a problem: that of the focused field."""
        if not self._is_complete:
            return
        self._describe()
        workload = self._list.workload
        typed = self._form.typed
        if workload is None:
            self._form.mark(typed.unreadable)
            self._command.show_problem("no workload matches: Esc clears the filter")
            return
        problems = typed.problems(workload)
        self._form.mark(problems)
        if problems:
            first = next(iter(problems.values()))
            self._command.show_problem(problems.get(self._form.focused_option or "", first))
        else:
            self._command.show_command(typed.options.command_line(workload, self._configured))
