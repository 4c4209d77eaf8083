"""The terminal UI: which screen is shown, and what is left to say when it closes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import ActiveBinding, Binding, BindingType
from textual.screen import ModalScreen, Screen

from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER
from dlmon.launch.job import Refused, Started
from dlmon.launch.lifeline import Launch, launch
from dlmon.log.directory import SessionEntry, list_sessions, log_directory
from dlmon.log.folder import LogError
from dlmon.records import Status
from dlmon.records.sanitize import clean, shown_path
from dlmon.session.follower import Viewer
from dlmon.stop import TERMINAL_CLOSED
from tui.drawing.themes import DARK, OWN_THEMES
from tui.hang_up import before_hang_up
from tui.options.jobs import make_job, recorded_options
from tui.options.run import RunOptions
from tui.options.settings import Settings, remember_theme, remembered_theme
from tui.reading import SLICE_S, read_to_end
from workloads.catalog import WORKLOADS, Workload

# Each screen is imported when it is first shown: a start pays for one only.
if TYPE_CHECKING:
    from textual.filter import LineFilter

    from dlmon.sweep.runner import SweepRun
    from tui.home.screen import HomeScreen
    from tui.live.screen import LiveScreen
    from tui.screens.starting import StartingScreen
    from tui.sweep.screen import SweepScreen

# The workers that read a log, of which there is one at most.
_READING = "reading"
_STYLE_SHEETS = Path(__file__).parent
COMPLAINT_LENGTH = 400

_KEYS_IN_WORDS = {"⏎": "enter", "↑↓": "up/down"}

_PALETTE_CLOSES_S = 0.2

# What every screen of Textual is bound to, and its own help tells.
_TEXTUALS_OWN = ("app.focus_next", "app.focus_previous", "screen.copy_text")

# Below it in the stack lies the blank screen that every Textual app begins with.
_FIRST_SCREEN = 1


@dataclass
class _Shown:
    """A session on the stack of screens, with its lifeline where it is ours."""

    viewer: Viewer
    launch: Launch | None
    screen: LiveScreen

    @property
    def needs_us(self) -> bool:
        """Whether it would stop if we left without a word."""
        return self.launch is not None and self.viewer.running and not self.screen.detached


@dataclass(frozen=True)
class _Starting:
    """A launch that its supervisor has still to answer, and the session that it will replace."""

    launch: Launch
    detach: bool = False
    replaces: _Shown | None = None


class DlmonApp(App[int]):
    """dlmon on a screen.

    Args:
        directory: where sessions live.
        log: a session to show; without one the home screen opens.
        started: the lifeline of a session of ours; without `log` it has still to answer.
        watch_interval_s: watch the machine alone, sampling at this interval.
        sweep: make the runs of a sweep, and show them.
        settings: the user's own defaults.
    """

    CSS_PATH = "dlmon.tcss"
    TITLE = "dlmon"
    # Textual's own has priority, and would close the app over the question that a screen asks.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", show=False),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares it on the instance
        (0, "-tiny"),
        (60, "-narrow"),
        (100, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-flat"),
        (16, "-short"),
        (32, "-tall"),
    ]

    def __init__(
        self,
        directory: Path,
        log: Path | None = None,
        started: Launch | None = None,
        watch_interval_s: float | None = None,
        settings: Settings | None = None,
        sweep: SweepRun | None = None,
    ) -> None:
        """Open what the arguments say."""
        no_color = os.environ.get("NO_COLOR")
        # With NO_COLOR nothing but the terminal's own two colours is used.
        super().__init__(ansi_color=True if no_color is not None else None)
        if no_color is not None:
            # Textual takes it away; what we start should see it as well.
            os.environ["NO_COLOR"] = no_color
        self.settings = settings or Settings()
        self._directory = directory
        self._first_viewer = Viewer(log, launch=started) if log is not None else None
        self._first_launch = started
        self._watch_interval_s = watch_interval_s
        self._sweep = sweep
        self._sweeps: list[SweepRun] = []
        self._sweep_screen: SweepScreen | None = None
        self._shown: list[_Shown] = []
        self._refused: Refused | None = None
        self._starting: _Starting | None = None
        self._starting_screen: StartingScreen | None = None
        self._home: HomeScreen | None = None
        self._bell = self.settings.bell
        self._notification = self.settings.notification
        self._toasted_screen: Screen[object] | None = None
        self._plain: list[LineFilter] = []
        if self.settings.ascii:
            from tui.drawing.ascii_filter import PlainCharacters

            self.add_class("-ascii")
            self._plain = [PlainCharacters()]
        for theme in OWN_THEMES:
            self.register_theme(theme)
        self._choose_theme(self.settings.theme or remembered_theme())

    def on_mount(self) -> None:
        """Show the first screen."""
        # Without this, a SIGTERM would leave the terminal in the alternate screen.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit, 1)
        before_hang_up(self._say_that_terminal_is_closed)
        self.theme_changed_signal.subscribe(self, lambda theme: self._keep_theme(theme.name))
        # At once: what is said of a change itself comes after it.
        self.screen_change_signal.subscribe(self, self._clear_toasts, immediate=True)
        if self._first_viewer is not None:
            self._read_session(self._first_viewer)
        elif self._first_launch is not None:
            self._await_session(_Starting(self._first_launch))
        elif self._sweep is not None:
            self._show_sweep(self._sweep)
        elif self._watch_interval_s is not None:
            self._show_machine(partial(self.exit, 0), self._watch_interval_s)
        else:
            self._show_home()
        self.call_later(self.call_after_refresh, self._read_style_sheets)

    def _clear_toasts(self, screen: Screen[object]) -> None:
        """Take toasts away with the screen that they were about; a question lies over the same."""
        if isinstance(screen, ModalScreen) or screen is self._toasted_screen:
            return
        self._toasted_screen = screen
        self.clear_notifications()

    def _say_that_terminal_is_closed(self) -> None:
        for shown in self._shown:
            if shown.launch is not None and shown.needs_us:
                shown.launch.say(TERMINAL_CLOSED)

    def _read_style_sheets(self) -> None:
        """Read those of the screens that may come, once the first one is painted.

        One that is read when its screen opens has Textual read all others again.
        """
        self.stylesheet.read_all(sorted(_STYLE_SHEETS.glob("*/*.tcss")))

    def run_to_exit_code(self) -> int:
        """Run the app, say what became of its sessions, and return the exit code."""
        code = self.run()
        if self._starting is not None:
            self._starting.launch.release()
        for shown in self._shown:
            if shown.launch is not None:
                shown.launch.release()
        for run in self._sweeps:
            _say_goodbye_to_sweep(run)
        if self._refused is not None:
            print(f"dlmon: {clean(self._refused.reason)}", file=sys.stderr)
        for shown in self._shown:
            _say_goodbye(shown, self.settings.ascii)
        return self.return_code or 0 if code is None else code

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Let nothing but ASCII through where that was asked for."""
        return [*super().get_line_filters(), *self._plain]

    async def on_event(self, event: events.Event) -> None:
        """Clean what is pasted, whichever field takes it; all of them have one line."""
        if isinstance(event, events.Paste):
            lines = event.text.strip().splitlines()
            event = events.Paste(clean(lines[0]) if lines else "")
        await super().on_event(event)

    def get_key_display(self, binding: Binding) -> str:
        """Name a key; in words where its sign can't be drawn."""
        told = super().get_key_display(binding)
        return _KEYS_IN_WORDS.get(told, told) if self.settings.ascii else told

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer every action of the screen, then what holds on all of them."""
        offered = set()
        for active in _own_bindings(screen):
            binding = active.binding
            if active.enabled and binding.description and binding.action not in offered:
                offered.add(binding.action)
                run = partial(self.run_action, binding.action, default_namespace=screen)
                sentence = active.tooltip or f"key {self.get_key_display(binding)}"
                yield SystemCommand(binding.description, sentence, run)
        if "app.change_theme" not in offered:
            yield SystemCommand("Theme", "Choose other colours", self.action_change_theme)
        for name, told, action in (
            ("bell", self._bell, self.action_toggle_bell),
            ("desktop notification", self._notification, self.action_toggle_notification),
        ):
            state = "off" if told else "on"
            yield SystemCommand(
                f"Turn the {name} {state}", "At the end of a run; config.toml keeps it", action
            )
        # Once the palette is gone from the screen.
        save = partial(self.set_timer, _PALETTE_CLOSES_S, self._save_picture)
        yield SystemCommand("Picture", "Save this screen as SVG in the working directory", save)

    def _save_picture(self) -> None:
        path = Path(time.strftime("dlmon-%Y%m%d-%H%M%S.svg"))
        try:
            path.write_text(self.export_screenshot(title="dlmon"), encoding="utf-8")
        except OSError as error:
            self._complain(f"the picture can't be saved here: {error.strerror}")
        else:
            self._tell(f"saved {path}")

    def _choose_theme(self, name: str | None) -> None:
        self.theme = name if name in self.available_themes else DARK

    def _keep_theme(self, name: str) -> None:
        try:
            remember_theme(name)
        except OSError as error:
            self._complain(f"the theme can't be kept for the next start: {error}")

    def _show_home(self) -> None:
        from tui.home.screen import HomeScreen

        self._home = HomeScreen(
            [], self.train, self.settings.run, ascii=self.settings.ascii, sweep=self.sweep
        )
        self.push_screen(self._home)
        self._read_sessions(self._directory, self._home.show_entries)

    def _show_machine(self, leave: Callable[[], None], interval_s: float) -> None:
        from tui.watch.screen import WatchScreen

        settings = self.settings
        self.push_screen(
            WatchScreen(leave, interval_s, pcie=settings.run.pcie, ascii=settings.ascii)
        )

    def _show_sweep(self, run: SweepRun) -> None:
        """Show a sweep, which begins to make its runs."""
        from tui.sweep.screen import SweepScreen

        def leave(interrupted: bool) -> None:
            if screen is self.screen_stack[_FIRST_SCREEN]:
                self.exit(INTERRUPTED_BY_USER if interrupted else run.exit_code)
                return
            if self._sweep is run:
                self._sweep = self._sweep_screen = None
            self.pop_screen()
            if self._home is not None:
                self._read_sessions(self._directory, self._home.show_entries)

        screen = SweepScreen(run, self._open, leave, ascii=self.settings.ascii)
        self._sweep, self._sweep_screen = run, screen
        self._sweeps.append(run)
        self.push_screen(screen)

    def _resume_sweep(self, path: Path) -> None:
        """Go on with a recorded sweep, or go back to it where it is shown already."""
        from dlmon.sweep.log import SweepWriter, read_sweep
        from dlmon.sweep.plan import SweepError
        from tui.options.sweep import check_plan, run_of

        if self._sweep is not None and self._sweep.writer.path == path:
            while self.screen is not self._sweep_screen:
                self._pop()
            return
        if self._is_busy():
            return
        try:
            check_plan(read_sweep(path)[1].plan)
            run = run_of(SweepWriter.resume(path, time.time()))
        except (LogError, SweepError) as error:
            self._complain(str(error))
        else:
            self._show_sweep(run)

    def sweep(self, workload: Workload, options: RunOptions) -> None:
        """Ask what is to be varied in runs of a workload, and begin to make them."""
        from dlmon.sweep.log import SweepWriter, new_header
        from dlmon.sweep.plan import Plan, SweepError
        from tui.options.sweep import make_plan, new_seed, run_of
        from tui.sweep.form import SweepForm

        if self._is_busy():
            return
        seed = new_seed()

        def plan_of(vary: list[str], repeats: int) -> Plan:
            return make_plan(workload.name, options, vary, repeats, seed)

        def begin(plan: Plan | None) -> None:
            if plan is None or self._is_busy():
                return
            try:
                chosen = options.log_dir
                directory = self._directory if chosen is None else log_directory(Path(chosen))
                header = new_header(plan, seed, time.time())
                run = run_of(SweepWriter.begin(directory, header))
            except (LogError, SweepError) as error:
                self._complain(str(error))
            else:
                self._show_sweep(run)

        self.push_screen(SweepForm(workload.name, plan_of, self.settings.ascii), begin)

    def train(self, workload: Workload, options: RunOptions) -> None:
        """Launch a workload from the home screen."""
        self._launch(workload, options, self._directory)

    def _launch(
        self,
        workload: Workload,
        options: RunOptions,
        directory: Path,
        replaces: _Shown | None = None,
    ) -> None:
        if self._is_busy():
            return
        try:
            started = launch(make_job(workload, directory, options))
        except (LogError, OSError) as error:
            self._complain(str(error))
            return
        self._await_session(_Starting(started, options.detach, replaces))

    def _is_busy(self) -> bool:
        """Tell whether something of ours runs or starts, and say so: two spoil their figures."""
        if self._starting is not None:
            return True
        if self._sweep_runs:
            self._complain("the sweep is still running: what else runs would spoil its figures")
            return True
        running = next((shown for shown in self._shown if shown.needs_us), None)
        if running is None:
            return False
        session = running.viewer.session.header.id
        self._complain(f"{session} is still running: stop it, or leave it running, first")
        return True

    def _await_session(self, starting: _Starting) -> None:
        """Say that a session is on its way, and show it or say why there is none."""
        from tui.screens.starting import StartingScreen

        self._starting = starting
        sentence = "starting the session: asking the sensors what this machine is …"
        self._starting_screen = StartingScreen(sentence, self._give_up)
        self.push_screen(self._starting_screen)
        self.run_worker(self._take_answer(starting))

    def _read_session(self, viewer: Viewer) -> None:
        """Show a recorded session once it is read: one of a day takes a while."""
        from tui.screens.starting import StartingScreen

        first = viewer is self._first_viewer
        name = viewer.session.header.id
        waiting = StartingScreen(f"reading {name} …", partial(self._stop_reading, viewer))

        async def read() -> None:
            viewer.poll(SLICE_S)
            await read_to_end(viewer, lambda text: waiting.say(f"{name}\n{text}"))
            self._uncover(waiting)
            # Not a pop and a push: the screen below would begin to work in between.
            self.switch_screen(self._session_screen(viewer, self._first_launch if first else None))

        self.push_screen(waiting)
        # Nothing is painted before the app's own queue is read.
        self.call_later(waiting.call_after_refresh, lambda: self.run_worker(read(), group=_READING))

    def _stop_reading(self, viewer: Viewer) -> None:
        """Don't wait until a session is read."""
        if viewer is self._first_viewer:
            self.exit(DONE)
            return
        self.workers.cancel_group(self, _READING)
        self.pop_screen()
        viewer.close()

    async def _take_answer(self, starting: _Starting) -> None:
        answer = await asyncio.to_thread(starting.launch.answer)
        if self._starting is not starting:
            return
        self._starting = None
        try:
            if isinstance(answer, Started):
                viewer = Viewer(Path(answer.log), launch=starting.launch)
                self._show_started(viewer, starting)
                return
        except LogError as error:
            answer = Refused(str(error), FAILED)
        starting.launch.release()
        if starting.launch is self._first_launch:
            self._refused = answer
            self.exit(answer.exit_code)
        else:
            self._pop_starting_screen()
            self._complain(answer.reason)

    def _show_started(self, viewer: Viewer, starting: _Starting) -> None:
        """Show a session that was just launched, in place of what waited for it."""
        if self._starting_screen is not None:
            self._uncover(self._starting_screen)
        if starting.replaces is not None:
            self.pop_screen()
            self._forget(starting.replaces)
        if starting.detach:
            starting.launch.say("detach")
            starting.launch.release()
        lifeline = None if starting.detach else starting.launch
        self.switch_screen(self._session_screen(viewer, lifeline))

    def _uncover(self, waiting: StartingScreen) -> None:
        """Take off what may lie on top of it: a palette, the help."""
        while self.screen is not waiting:
            self.pop_screen()

    def _pop_starting_screen(self) -> None:
        while self._starting_screen in self.screen_stack:
            self.pop_screen()

    def _give_up(self) -> None:
        """Don't wait for the supervisor; without its lifeline it starts nothing."""
        starting, self._starting = self._starting, None
        if starting is None:
            return
        starting.launch.release()
        if starting.launch is self._first_launch:
            self.exit(INTERRUPTED_BY_USER)
        else:
            self._pop_starting_screen()

    def _session_screen(self, viewer: Viewer, started: Launch | None) -> LiveScreen:
        """Make the screen of a session, and keep in mind that it is shown."""
        from tui.live.screen import LiveScreen

        screen = LiveScreen(
            viewer,
            started,
            [],
            lambda interrupted: self._leave(shown, interrupted),
            self._again(viewer),
            ascii=self.settings.ascii,
        )
        shown = _Shown(viewer, started, screen)
        self._shown.append(shown)
        self._read_sessions(viewer.path.parent.parent, screen.show_entries)
        return screen

    def _read_sessions(self, directory: Path, show: Callable[[list[SessionEntry]], None]) -> None:
        """Let a screen know what was recorded, once that is read: it may take a while."""

        async def read() -> None:
            show(await asyncio.to_thread(list_sessions, directory))

        self.run_worker(read())

    def _leave(self, shown: _Shown, interrupted: bool) -> None:
        """Close the topmost session: back to where it was opened from, else out."""
        if shown.screen is self.screen_stack[_FIRST_SCREEN]:
            self.exit(_exit_code(shown))
            return
        self._close(shown)
        if shown.screen.detached:
            self._tell(f"{shown.viewer.session.header.id} goes on without dlmon")
        if self._home is not None and self.screen is self._home:
            self._read_sessions(self._directory, self._home.show_entries)

    def _close(self, shown: _Shown) -> None:
        """Take the topmost session off the stack."""
        self.pop_screen()
        self._forget(shown)

    def _forget(self, shown: _Shown) -> None:
        self._shown.remove(shown)
        if shown.launch is not None:
            shown.launch.release()
        shown.viewer.close()

    def _again(self, viewer: Viewer) -> Callable[[], None] | None:
        """Return what launches a session's workload once more, where it can be launched here."""
        header = viewer.session.header
        workload = WORKLOADS.get(header.workload)
        options = recorded_options(header)
        if workload is None or options is None or options.complaint(workload) is not None:
            return None
        if self._sweep_runs:  # what else runs would spoil its figures
            return None

        def again() -> None:
            shown = self._shown[-1]
            self._launch(workload, options, viewer.path.parent.parent, replaces=shown)

        return again

    def _open(self, log: Path) -> None:
        """Show a recorded session, or go back to it where it is shown already."""
        for depth, shown in enumerate(self._shown):
            above = self._shown[depth + 1 :]
            if shown.viewer.path == log and not any(one.needs_us for one in above):
                while self.screen is not shown.screen:
                    self._pop()
                return
        try:
            viewer = Viewer(log)
        except LogError as error:
            self._complain(str(error))
            return
        viewer.poll(SLICE_S)
        if viewer.read_share is None:
            self.push_screen(self._session_screen(viewer, None))
        else:
            self._read_session(viewer)

    def _pop(self) -> None:
        """Take the topmost screen off, and its session with it."""
        if self._shown and self._shown[-1].screen is self.screen:
            self._close(self._shown[-1])
        else:
            self.pop_screen()

    def on_live_screen_ended(self, message: LiveScreen.Ended) -> None:
        """Tell a person who looks elsewhere that a session is over; of a sweep, its end alone."""
        if not self._sweep_runs:
            self._tell_end(message.text)

    def on_sweep_screen_ended(self, message: SweepScreen.Ended) -> None:
        """Tell a person who looks elsewhere that a sweep is over."""
        self._tell_end(message.text)

    def _tell_end(self, text: str) -> None:
        if self._bell:
            self.bell()
        if self._notification and self._driver is not None:
            from tui.notification import desktop_notification

            self._driver.write(desktop_notification(text))

    def action_toggle_bell(self) -> None:
        """Ring the bell at the end of a run, or no more."""
        self._bell = not self._bell
        self._tell(f"the bell rings at the end of a run: {_yes_or_no(self._bell)}")

    def action_toggle_notification(self) -> None:
        """Send a desktop notification at the end of a run, or no more."""
        self._notification = not self._notification
        told = _yes_or_no(self._notification)
        self._tell(f"a desktop notification at the end of a run: {told}")

    def action_watch(self) -> None:
        """Show the machine alone."""
        self._show_machine(self._back, self.settings.run.interval)

    def action_sessions(self) -> None:
        """Show what was recorded."""
        from dlmon.sweep.log import list_sweeps
        from tui.sessions.screen import SessionsScreen

        directory = self._shown[-1].viewer.path.parent.parent if self._shown else self._directory
        self.push_screen(
            SessionsScreen(
                partial(list_sessions, directory),
                self._open,
                self._back,
                ascii=self.settings.ascii,
                read_sweeps=partial(list_sweeps, directory),
                resume=self._resume_sweep,
            )
        )

    def action_help(self) -> None:
        """Explain the screen."""
        from tui.screens.help import HelpScreen

        topics = getattr(self.screen, "TOPICS", ())
        if topics:
            if self.settings.ascii:
                topics = tuple((name, told.replace("±", "+-")) for name, told in topics)
            self.push_screen(HelpScreen(self._keys(), topics, ascii=self.settings.ascii))

    async def action_quit(self) -> None:
        """Leave; a session that would stop with us is asked about first."""
        for shown in self._shown:
            if shown.needs_us:
                while self.screen is not shown.screen:
                    self._pop()
                shown.screen.action_leave()
                return
        if self._sweep_screen is not None:
            while self.screen is not self._sweep_screen:
                self._pop()
            self._sweep_screen.action_leave()
            return
        first = self.screen_stack[_FIRST_SCREEN]
        shown_first = next((shown for shown in self._shown if shown.screen is first), None)
        self.exit(DONE if shown_first is None else _exit_code(shown_first))

    @property
    def _sweep_runs(self) -> bool:
        return self._sweep is not None and not self._sweep.ended

    def _back(self) -> None:
        self.pop_screen()

    def _keys(self) -> list[tuple[str, str]]:
        """Return the keys of the topmost screen, those of one action together, and what they do."""
        keys: dict[str, dict[str, None]] = {}
        told: dict[str, str] = {}
        for active in _own_bindings(self.screen):
            action = active.binding.action
            keys.setdefault(action, {})[self.get_key_display(active.binding)] = None
            told[action] = told.get(action) or active.tooltip or active.binding.description
        return [(" ".join(keys[action]), told[action]) for action in keys if told[action]]

    def _tell(self, sentence: str) -> None:
        self.notify(sentence, markup=False)

    def _complain(self, reason: str) -> None:
        self.notify(clean(reason, COMPLAINT_LENGTH), severity="error", markup=False, timeout=10)


def _own_bindings(screen: Screen[object]) -> list[ActiveBinding]:
    """Return what keys do on a screen, the keys that its footer shows first."""
    own = [
        active
        for active in screen.active_bindings.values()
        if active.node is screen and active.binding.action not in _TEXTUALS_OWN
    ]
    return sorted(own, key=lambda active: not active.binding.show)


def _exit_code(shown: _Shown) -> int:
    """Return what leaving dlmon from a session amounts to."""
    if shown.screen.stop_asked:
        return INTERRUPTED_BY_USER
    if shown.viewer.why_result_unwritten is not None:
        return FAILED
    good = (Status.RUNNING, Status.UNKNOWN, Status.COMPLETED)
    return DONE if shown.viewer.status in good else FAILED


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _say_goodbye(shown: _Shown, ascii: bool) -> None:
    """Leave in the shell what came of a session and where it is recorded, or how to come back."""
    from tui.plain.follow import print_outcome

    viewer = shown.viewer
    stops = shown.needs_us
    viewer.poll()
    session, path = viewer.session.header.id, shown_path(viewer.path)
    if viewer.why_result_unwritten is not None:
        from tui.plain.follow import unrecorded_result

        print(unrecorded_result(viewer), file=sys.stderr)
    elif viewer.running and stops:
        print(f"{session} is stopping; it is recorded in {path}")
    elif viewer.running:
        print(f"{session} is still running; dlmon attach {session} shows it")
    else:
        print_outcome(viewer, ascii)
        print(f"\n{session} {viewer.status}; recorded in {path}")
    viewer.close()


def _say_goodbye_to_sweep(run: SweepRun) -> None:
    """Leave in the shell what the sweep found, and how to go on with what is left of it."""
    from tui.formatting.sweeps import findings, runs_text

    run.release()
    name, left = run.writer.header.id, len(run.sweep.left())
    for sentence in findings(run.sweep):
        print(sentence)
    if run.trouble is not None:
        print(f"dlmon: {clean(run.trouble)}", file=sys.stderr)
    if left:
        print(f"{name} has {runs_text(left)} left: dlmon sweep --resume {name}")
    else:
        print(f"{name} completed; recorded in {shown_path(run.writer.path)}")
