"""The home screen: the last script, recent sessions, and workloads beside this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from dlmon.figures import units
from dlmon.options.run_options import OPTIONS, RunOptions
from dlmon.options.script import last_script
from dlmon.records.sanitize import clean
from dlmon.session.source import MachineSource
from dlmon.system.this_host import host_name
from tui.home.panels import NamesPanel, ScriptPanel
from tui.home.workload_list import WorkloadList
from tui.messages import RunScript, ShowSession, Train, TrainSeveral
from tui.screens.base import HELP, PALETTE, QUIT, SESSIONS, THEME, BaseScreen, hidden
from tui.screens.filtered import FILTER
from tui.widgets.text_field import FilterField
from workloads.catalog import WORKLOADS

# Imported after the first paint, so that the user doesn't wait for them.
if TYPE_CHECKING:
    from dlmon.figures.lists.recent_sessions import RecentSession
    from dlmon.log.directory import SessionEntry
    from tui.home.about_workload import AboutWorkload
    from tui.home.recent_list import RecentList
    from tui.home.run_form import RunForm
    from tui.machine.machine import MachinePanel


class CommandLine(Static):
    """The command line of the run, which a click copies, or the problem with the options."""

    ALLOW_SELECT = False

    def show_command(self, command: str) -> None:
        self.update(Content.assemble(("$ ", "$text-muted 60%"), clean(command)))

    def show_problem(self, problem: str) -> None:
        self.update(Content.assemble(("! ", "bold $text-error"), (clean(problem), "$text-error")))

    async def on_click(self) -> None:
        await self.run_action("screen.copy_command")


# From this width on, the machine stands beside the options.
_BROAD = 160
# The border and the headings of the recent sessions.
_FRAME_ROWS = 3
# The columns of a border and its padding, the least rows of the workloads, and the rows beside
# which they get half of the rest.
_FRAME_COLUMNS, _LEAST_NAMES, _LEAST_REST = 4, 4, 20
_WITH_FACTS = (
    "Workloads: parameters, fastest published time (* with other options than the defaults)"
)


class HomeScreen(BaseScreen, inherit_bindings=False):
    """The last script, the recent sessions, and the workloads beside the machine or the options.

    `machine` makes the source of the readings, after the first paint.
    """

    CSS_PATH = "home.tcss"
    AUTO_FOCUS = "#script"
    # In the order of the footer. Keys that move the focus have priority, so that the keys after
    # them go to the next field.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "launch", "Run", priority=True, tooltip="Run or open what is chosen"),
        Binding("tab", "next_panel", "Next", priority=True, tooltip="Next panel or field"),
        Binding("escape", "pick", "List", priority=True, tooltip="Go back to the workloads"),
        hidden("E", "edit_script", "My script", "Change the command of my script, and run it"),
        replace(FILTER, priority=True),
        SESSIONS,
        Binding("h", "app.hosts", "Hosts", tooltip="Watch other machines over ssh"),
        HELP,
        Binding("q", "app.quit", "Quit", tooltip="Leave dlmon"),
        Binding("M", "app.watch", "Machine", tooltip="Watch the machine alone"),
        Binding("g", "gpus", "GPU", tooltip="Show every GPU in depth, and the CPU"),
        Binding("p", "processes", "Processes", tooltip="Show what runs on this machine"),
        Binding("C,ctrl+y", "copy_command", "Copy", tooltip="Copy the command of the workload"),
        Binding("ctrl+s", "sweep", "Sweep", tooltip="Train once for each of several values"),
        THEME,
        replace(PALETTE, show=True, priority=True),
        hidden("up", "move('cursor_up')", "Previous workload"),
        hidden("down", "move('cursor_down')", "Next workload"),
        hidden("pageup", "move('page_up')", "Page up"),
        hidden("pagedown", "move('page_down')", "Page down"),
        hidden("ctrl+r", "reset_options", "Reset options", "Reset all options to their defaults"),
        Binding("shift+tab", "previous_panel", "Previous", show=False, priority=True),
        QUIT,
    ]
    HELP_PAGES = (Path(__file__).with_name("home.md"),)

    class LaunchRequested(Message):
        """The user pressed Enter."""

    def __init__(
        self,
        machine: Callable[[], MachineSource],
        options: RunOptions | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._make_source, self._wall_clock = machine, wall_clock
        self._groups = groups or {}
        self._workloads = tuple(WORKLOADS.values())
        self._configured = options or RunOptions()
        self.entries: list[SessionEntry] = []
        self.recent: Sequence[RecentSession] | None = None
        self._results: Mapping[str, list[SessionEntry]] = {}
        self._last: dict[str, SessionEntry | None] = {}
        self._last_options: RunOptions | None = None
        self._published: dict[str, tuple[str, str]] = {}
        self._script = ScriptPanel(id="script")
        self._filter = FilterField()
        self._list = WorkloadList(self._workloads, id="workloads")
        self._pick = Vertical(self._filter, self._list, id="pick")
        self._names = NamesPanel(id="names")
        self._is_complete = False
        self._early_request: type[Train] | None = None
        # Made after the first paint.
        self._about: AboutWorkload
        self._machine: MachinePanel
        self._recent: RecentList
        self._form: RunForm
        self._hosts: NamesPanel
        self._command: CommandLine
        self._beside: tuple[Vertical, Vertical]

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        options = ((option.label, option.help) for option in OPTIONS.values())
        return (*super().topics, *options)

    def compose(self) -> ComposeResult:
        """Lay out the script and the workloads alone, for the first paint."""
        self._filter.display = False
        self._script.show(last_script())
        self._show_names({})
        self._pick.display = False
        yield self._script
        yield self._names
        yield Horizontal(self._pick, id="below")

    def on_mount(self) -> None:
        # By way of the app's queue: the screen is painted only after that is read.
        self.app.call_later(self.call_after_refresh, self._complete)

    async def _complete(self) -> None:
        if not self.is_attached:  # closed before the first paint
            return
        from dlmon.figures.comparison.earlier_runs import published_in_brief
        from dlmon.remote.host_names import GROUP_MARK, configured_hosts
        from tui.home.about_workload import AboutWorkload
        from tui.home.recent_list import RecentList
        from tui.home.run_form import RunForm
        from tui.machine.machine import MachinePanel

        self._published = {w.name: published_in_brief(w) for w in self._workloads}
        self._about = AboutWorkload(id="about")
        self._machine = MachinePanel(self._make_source())
        self._machine.border_title = "This machine"
        self._recent = RecentList(self._wall_clock)
        self._form = RunForm(self._configured)
        self._command = CommandLine(id="command")
        self._hosts = NamesPanel(id="hosts")
        hosts = [*(f"{GROUP_MARK}{name}" for name in self._groups), *configured_hosts()]
        self._hosts.show("Hosts", dict.fromkeys(hosts, ""), f"{len(hosts)} known")
        self._hosts.display = bool(hosts)
        self._beside = (
            Vertical(self._form, self._command, self._about, id="run"),
            Vertical(self._machine, self._hosts),
        )
        with self.app.batch_update():
            await self.mount(self._recent, before=self._names)
            await self.query_one("#below").mount(Container(*self._beside, id="beside"))
            await self.mount(*self.compose_frame())
            self._is_complete = True
            self._arrange()
        # The footer missed the first update of the bindings.
        self.refresh_bindings()
        self.show_entries(self.entries)
        if self.recent is not None:
            self.show_recent(self.recent)
        self.on_option_list_option_highlighted()
        self._start_machine()
        if self._early_request is not None:
            self._request(self._early_request)

    def on_screen_resume(self) -> None:
        self._script.show(last_script())
        self.call_after_refresh(self._start_machine)

    def _start_machine(self) -> None:
        if self.is_active and self._is_complete:
            self._machine.start()

    def on_resize(self) -> None:
        self.call_after_refresh(self._arrange)

    def on_descendant_focus(self) -> None:
        if self.focused is self._names:
            self._pick.display = True
            self.set_focus(self._list)
        self._arrange()

    def _show_names(self, last: Mapping[str, str]) -> None:
        """Show the workloads, each with its last time here, or the device of its published one."""
        facts = {}
        for workload in self._workloads:
            time, device = self._published.get(workload.name, ("", ""))
            here = last.get(workload.name)
            texts = (f"{here} here", time) if here else (time, device)
            parameters = units.millions(workload.parameters)
            facts[workload.name] = f"{parameters:>6}  {', '.join(filter(None, texts))}"
        self._names.show("Workloads", facts, f"{len(facts)} workloads, / filters them")

    @property
    def _is_choosing(self) -> bool:
        """Return whether the focus is on the workloads or their options."""
        if self.focused in (self._list, self._filter):
            return True
        return self._is_complete and self.focused is not None and self.focused in self._form.stops

    def _arrange(self) -> None:
        """Show the workloads and their options while one is chosen, else their names in a row.

        The machine stands beside them if it fits.
        """
        if self.focused is None:
            self._script.focus()
        self.set_class(self._is_choosing, "-choosing")
        self._pick.display = self._is_choosing
        self._names.display = not self._is_choosing
        most = max(_LEAST_NAMES, (self.size.height - _LEAST_REST) // 2)
        width = self.size.width - _FRAME_COLUMNS
        rows = self._names.rows_with_facts(width)
        self._names.border_title = _WITH_FACTS if rows <= most else "Workloads"
        if rows > most:
            rows = min(most, self._names.rows_of_names(width))
        self._names.styles.height = _FRAME_ROWS - 1 + rows
        if self._is_complete:
            run, here = self._beside
            here.display = self.size.width >= _BROAD or not self._is_choosing
            run.display = self._is_choosing

    def on_screen_suspend(self) -> None:
        """Stop sampling, unless the screen on top needs these sensors."""
        if self._is_complete and not self.keeps_sampling:
            self._machine.stop()

    def action_gpus(self) -> None:
        from tui.watch.detail_screens import GpusScreen

        if self._is_complete:
            self.app.push_screen(GpusScreen(self._machine.view))

    def action_processes(self) -> None:
        from tui.watch.processes_screen import ProcessesScreen

        if self._is_complete:
            self.app.push_screen(ProcessesScreen(self._machine.view))

    def show_entries(self, entries: list[SessionEntry]) -> None:
        """Take the sessions recorded here, for the last results of the workloads."""
        self.entries = entries
        if not self._is_complete:
            return
        from dlmon.figures.lists.last_results import results_here

        self._results = results_here(self._workloads, entries, host_name())
        self._last_options = None
        self._describe()

    def show_recent(self, sessions: Sequence[RecentSession]) -> None:
        self.recent = sessions
        if self._is_complete:
            self._recent.styles.max_height = _FRAME_ROWS + len(sessions)
            self._recent.show(sessions, len(self.entries))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list.filter(event.value)
        if self._list.workload is None:
            self.on_option_list_option_highlighted()

    def on_option_list_option_highlighted(self) -> None:
        """Describe the highlighted workload, and show its defaults."""
        if not self._is_complete:
            return
        if self._list.workload is not None:
            self._form.show_defaults(self._list.workload)
        self._check()

    def on_workload_list_workload_chosen(self) -> None:
        self._request(Train)

    def on_row_list_row_chosen(self) -> None:
        self._open_recent()

    def on_run_form_edited(self) -> None:
        self._check()
        # The key that resets the options is offered only if one is changed.
        self.refresh_bindings()

    def on_machine_panel_facts_read(self, event: MachinePanel.FactsRead) -> None:
        self._form.show_devices(event.machine)

    def name_of_action(self, action: str) -> str:
        return self._choice[0] if action == "launch" else super().name_of_action(action)

    WHY_NOT: ClassVar[Mapping[str, str]] = {
        "reset_options": "all options have their defaults",
        "edit_script": "esc, then shift+tab leads to the script",
        "copy_command": "choose a workload first: / filters them",
        "sweep": "choose a workload first: / filters them",
    }

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what is about a workload only while one is chosen."""
        if action == "reset_options":
            return self._is_complete and self._form.is_changed
        if action in ("copy_command", "sweep"):
            return self._is_choosing
        if action == "edit_script":
            return not self._is_choosing
        if action == "filter":
            return not isinstance(self.focused, Input)
        if action == "pick":
            return self._is_choosing and self.focused is not self._list
        return True

    @property
    def _choice(self) -> tuple[str, Callable[[], None]]:
        """What Enter does where the focus is: its name, and the function."""
        if self.focused is self._script:
            return "Run" if self._script.script else "My script", self._run_script
        if self._is_complete and self.focused is self._recent:
            return "Open", self._open_recent
        if self._is_complete and self.focused is self._hosts:
            return "Hosts", self.app.action_hosts  # type: ignore[attr-defined]
        if self._is_complete and self.focused is self._form.more:
            return "More", self._form.show_all
        return "Train", partial(self._request, Train)

    def action_launch(self) -> None:
        """Do what Enter does once the field has taken the keys that were typed before."""
        field = self.focused or self
        field.call_later(field.post_message, self.LaunchRequested())

    def on_home_screen_launch_requested(self) -> None:
        """Go by way of the app's queue, which also holds keys that no field takes."""
        self.app.call_later(lambda: self._choice[1]())

    def _run_script(self) -> None:
        self.post_message(RunScript(last_script()))

    def action_edit_script(self) -> None:
        self.post_message(RunScript())

    def _open_recent(self) -> None:
        if self._recent.chosen is not None:
            self.post_message(ShowSession(self._recent.chosen.entry.path))

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

    def action_reset_options(self) -> None:
        self._form.reset()

    def action_filter(self) -> None:
        self._filter.display = self._pick.display = True
        self.set_focus(self._filter)

    def action_pick(self) -> None:
        """Go back to the list of workloads, and show all of them."""
        if self.focused is self._filter:
            self._filter.value = ""
            self._filter.display = False
        self.set_focus(self._list)

    def action_next_panel(self) -> None:
        self._go_by(1)

    def action_previous_panel(self) -> None:
        self._go_by(-1)

    def _go_by(self, step: int) -> None:
        """Move the focus through the panels, and through the options of a chosen workload."""
        stops: list[Widget] = [self._script, self._list]
        if self._is_complete:
            options = self._form.stops if self._is_choosing else []
            hosts = [self._hosts] if self._hosts.display else []
            stops = [self._script, self._recent, self._list, *options, *hosts]
            for part in (self._pick, *self._beside):
                # What is hidden can't get the focus.
                part.display = True
        focused = self._list if self.focused is self._filter else self.focused
        here = stops.index(focused) if focused in stops else 0
        # Not `focus()`, which is deferred: the next key is meant for the new field.
        self.set_focus(stops[(here + step) % len(stops)])

    async def action_move(self, where: str) -> None:
        """Move the highlight of the list while the filter has the focus."""
        await self._list.run_action(where)

    def action_copy_command(self) -> None:
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
        from dlmon.figures.lists.last_results import last_in_brief, last_result

        self._last_options = options
        self._last, texts = {}, {}
        for workload in self._workloads:
            result = last_result(self._results.get(workload.name, ()), workload, options)
            self._last[workload.name] = result
            texts[workload.name] = last_in_brief(result, workload, options)
        self._list.show_results(texts)
        self._show_names(texts)
        self._arrange()

    def _describe(self) -> None:
        from dlmon.figures.comparison.earlier_runs import comparable_text, match_of_options
        from dlmon.figures.lists.last_results import last_text

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
