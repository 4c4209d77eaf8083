"""The screen of recorded and running sessions, and of sweeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.geometry import Size
from textual.widgets import OptionList

from dlmon.figures import units
from dlmon.figures.lists.recent_sessions import RecentSession, recent_sessions
from dlmon.figures.lists.session_columns import COLUMNS_BY_NAME
from dlmon.figures.lists.session_list import (
    Recorded,
    can_be_resumed,
    id_with_name,
    split_for_comparison,
)
from dlmon.log import label
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.options.settings import remember, remembered
from dlmon.records import Status
from dlmon.records.sanitize import clean
from dlmon.sweep.log import SweepEntry
from tui.messages import (
    Compare,
    Delete,
    Export,
    Rename,
    Replay,
    ShowMetrics,
    ShowSession,
    ShowSweep,
)
from tui.screens.base import HELP, PALETTE, QUIT, hidden
from tui.screens.chart_screen import METRICS
from tui.screens.export import EXPORT, ExportControls
from tui.screens.filtered import (
    CLEAR_FILTER,
    FILTER,
    REVERSE,
    ROW_KEYS,
    SORT,
    SORT_KEYS,
    FilteredScreen,
)
from tui.screens.form import Field, FormScreen
from tui.screens.list_dialog import ListDialog
from tui.screens.question import AnswerButton, QuestionScreen, stay
from tui.sessions.session_details import SessionDetails
from tui.sessions.session_list import TIME, SessionList

_READING, _HIDDEN = "reading", "hidden-columns"
_LONGEST_QUESTION = 60
_MOST_NAMED = 8
_MOST_DETAILS, _LEAST_LISTED = 20, 8
# From this width on, the details stand beside the list.
_BROAD = 160
# Of so many of the newest sessions, a part of the log is read for the loss.
_MOST_READ = 60
# The heading and the border of the list, and the footer.
_LIST_ROWS = 4


class DeleteScreen(QuestionScreen):
    """Answers `delete` or `stay`."""

    ANSWERS = (
        AnswerButton("delete", "y", "Delete", "permanently: this cannot be undone", "error"),
        stay("Keep"),
    )


class ResumeScreen(QuestionScreen):
    """Answers `resume` or `stay`."""

    ANSWERS = (
        AnswerButton("resume", "y", "Resume", "they are trained now", "primary"),
        stay("Back"),
    )


class ColumnsScreen(ListDialog[frozenset[str]]):
    """All columns, with a ● at those to show; answers with the hidden ones, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "show_or_hide", "Show, hide"),
    ]

    def __init__(self, hidden: frozenset[str]) -> None:
        self._names = [name for name in COLUMNS_BY_NAME if name != TIME]
        self._hidden = set(hidden)
        # No SelectionList: it shows what is selected by colour alone.
        options = list(map(self._prompt, self._names))
        super().__init__("Columns", options, below="shown if there is room and a value")

    def _prompt(self, name: str) -> str:
        return f"{' ' if name in self._hidden else '●'} {COLUMNS_BY_NAME[name].heading}"

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._show_or_hide(event.option_index)

    def action_show_or_hide(self) -> None:
        if self.list.highlighted is not None:
            self._show_or_hide(self.list.highlighted)

    def _show_or_hide(self, index: int) -> None:
        name = self._names[index]
        self._hidden ^= {name}
        self.list.replace_option_prompt_at_index(index, Content(self._prompt(name)))

    def action_keep(self) -> None:
        self.dismiss(frozenset(self._hidden))


HINT = "Every command finds it by its name. An empty field takes it away."


class LabelForm(FormScreen[label.Label]):
    """The name and the note of a session or a sweep; answers with the label, or None."""

    SUBMIT = "Rename"

    def __init__(self, recording: str, before: label.Label) -> None:
        name = Field("name", "Name", value=before.name or "")
        note = Field("note", "Note", value=before.note or "")
        super().__init__(clean(recording, label.LONGEST_NAME), (name, note))

    def read(
        self, typed: dict[str, str], submitted: bool
    ) -> tuple[label.Label | None, str, Mapping[str, str]]:
        name, note = typed["name"], typed["note"]
        refused = {"name": label.refuse_name(name) if name else None}
        refused["note"] = label.refuse_note(note)
        problems = {field: clean(text) for field, text in refused.items() if text is not None}
        return None if problems else label.Label(name or None, note or None), HINT, problems


class SessionsScreen(ExportControls, FilteredScreen):
    """All sessions and sweeps of the log directory, newest first."""

    CSS_PATH = "sessions.tcss"
    # Letters are commands until the filter has the focus.
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "show", "Show", tooltip="Show what is highlighted"),
        Binding("space", "mark", "Mark", tooltip="Mark or unmark what is highlighted"),
        Binding(
            "c", "compare", "Compare", tooltip="Compare two: space on one, space on the other, c"
        ),
        FILTER,
        Binding(
            "x,delete",
            "delete",
            "Delete",
            tooltip="Delete what is marked, or highlighted; asks first",
        ),
        # Before "leave", which has the same key if there is no filter and no mark.
        CLEAR_FILTER,
        Binding("escape", "clear_marks", "Unmark", tooltip="Unmark all"),
        HELP,
        Binding("q", "leave", "Back", tooltip="Go back"),
        hidden("escape", "leave", "Back"),
        Binding("v", "replay", "Replay", tooltip="Replay it as it ran"),
        EXPORT,
        METRICS,
        hidden("w", "report", "", "Write a report of it, as e h does"),
        SORT,
        Binding("u", "rename", "Rename", tooltip="Give it a name and a note"),
        REVERSE,
        hidden("V", "columns", "Columns", "Choose the columns"),
        Binding("t,f3", "app.change_theme", "Theme", tooltip="Choose other colours"),
        PALETTE,
        QUIT,
        hidden("ctrl+l", "refresh", "Refresh", "Read the sessions again"),
        *SORT_KEYS,
        *ROW_KEYS,
    ]
    HELP_PAGES = (Path(__file__).with_name("sessions.md"),)

    def __init__(
        self,
        read: Callable[[], list[SessionEntry]],
        read_sweeps: Callable[[], list[SweepEntry]] = list,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._read = read
        self._read_sweeps = read_sweeps
        self._list = SessionList(wall_clock, id="sessions")
        self._list.hidden = frozenset(remembered(_HIDDEN).splitlines())
        self._details = SessionDetails(id="details")
        self._details.display = False
        self._parts = Container(self._list, self._details)
        self._recent: Sequence[RecentSession] = ()

    @property
    def table(self) -> SessionList:
        return self._list

    def compose_parts(self) -> ComposeResult:
        yield self.filter_field
        yield self._parts

    def on_screen_resume(self) -> None:
        """Read the sessions again once the screen is painted."""
        self.call_after_refresh(self.action_refresh)

    def on_resize(self, event: events.Resize) -> None:
        self._share_room(event.size)

    def _share_room(self, size: Size) -> None:
        """Put the details beside the list, or give them the rows that the list doesn't need."""
        is_broad = size.width >= _BROAD
        self._parts.set_class(is_broad, "-beside")
        spare = size.height - _LIST_ROWS - max(_LEAST_LISTED, len(self._list.all_rows or ()))
        self._details.styles.height = "1fr" if is_broad else max(1, min(_MOST_DETAILS, spare))

    def on_row_list_highlighted(self) -> None:
        entry = self._list.highlighted
        losses = () if entry is None else self._list.losses_of(entry)
        self._details.display = entry is not None
        self._details.show(entry, self._list.run_of_sweep, losses)
        self.refresh_bindings()

    def on_row_list_row_chosen(self) -> None:
        self.action_show()

    WHY_NOT: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("show", "mark", "rename", "delete", "replay", "report", "export", "metrics"),
        "no session is highlighted",
    )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only actions that the highlighted or marked rows allow."""
        match action:
            case "clear_marks":
                return bool(self._list.marked)
            case "replay":
                return bool(self._replayed)
            case "report" | "export" | "metrics":
                return bool(_sessions(self._list.chosen))
            case "show" | "mark" | "rename" | "delete":
                return self._list.highlighted is not None
        return super().check_action(action, parameters)

    def name_of_action(self, action: str) -> str:
        entry = self._list.highlighted if action == "show" else None
        if isinstance(entry, SweepEntry) and can_be_resumed(entry):
            return "Resume"
        return super().name_of_action(action)

    def action_show(self) -> None:
        """Show the highlighted session or sweep; ask before an unfinished sweep is resumed."""
        entry = self._list.highlighted
        if isinstance(entry, SessionEntry):
            self.post_message(ShowSession(entry.path))
        elif entry is not None and can_be_resumed(entry):
            request = ShowSweep(entry.path)
            question = f"Train what is left: {units.counted(len(entry.sweep.remaining()), 'run')}?"
            name = clean(id_with_name(entry.header.id, entry.label), _LONGEST_QUESTION)

            def take(answer: str) -> None:
                if answer == "resume":
                    self.post_message(request)

            self.ask(ResumeScreen(question, after=(("Sweep", name),)), take)
        elif entry is not None:
            self.post_message(ShowSweep(entry.path))

    def action_mark(self) -> None:
        self._list.toggle_mark()

    def action_clear_marks(self) -> None:
        self._list.clear_marks()

    def action_compare(self) -> None:
        sides = split_for_comparison(_sessions(self._list.marked))
        if sides is None:
            self.notify("mark two sessions or more with Space; then c compares them")
            return
        base, new = ([entry.path for entry in side] for side in sides)
        self.post_message(Compare(base, new))

    def action_metrics(self) -> None:
        self.post_message(ShowMetrics(self.exported_logs))

    @property
    def _replayed(self) -> list[SessionEntry]:
        """The marked sessions if there are several, else the highlighted one."""
        marked = _sessions(self._list.marked)
        entry = self._list.highlighted
        if len(marked) > 1:
            return marked
        return [entry] if isinstance(entry, SessionEntry) else []

    def action_replay(self) -> None:
        if self._replayed:
            self.post_message(Replay([entry.path for entry in self._replayed]))

    @property
    def exported_logs(self) -> Sequence[Path]:
        return [entry.path for entry in _sessions(self._list.chosen)]

    def action_report(self) -> None:
        logs = list(self.exported_logs)
        if logs:
            self.post_message(Export("html", logs))

    def action_rename(self) -> None:
        entry = self._list.highlighted
        if entry is None:
            return

        def rename(label: Label | None) -> None:
            if label is not None and label != entry.label:
                self.post_message(Rename(entry.path, label))

        self.app.push_screen(LabelForm(entry.header.id, entry.label), rename)

    async def _choose_columns(self) -> None:
        hidden = await self.app.push_screen_wait(ColumnsScreen(self._list.hidden))
        if hidden is None:
            return
        self._list.hide_columns(hidden)
        try:
            remember(_HIDDEN, "\n".join(sorted(hidden)))
        except OSError as error:
            self.notify(f"the columns can't be saved: {error}", severity="error", markup=False)

    def action_columns(self) -> None:
        self.run_worker(self._choose_columns)

    def action_delete(self) -> None:
        """Ask whether to delete the marked or highlighted recordings; refuse if one may run."""
        entries = self._list.chosen
        if not entries:
            return
        refusal = next(filter(None, map(_why_it_stays, entries)), None)
        if refusal is not None:
            self.notify(clean(refusal), severity="error", markup=False)
            return

        def take(answer: str) -> None:
            if answer == "delete":
                self.post_message(Delete([entry.path for entry in entries]))

        self.ask(DeleteScreen(f"Delete {_counted(entries)}?", before=_listed(entries)), take)

    def action_refresh(self) -> None:
        self.run_worker(self._show_again, group=_READING, exclusive=True)

    async def _show_again(self) -> None:
        sessions = await asyncio.to_thread(self._read)
        sweeps = await asyncio.to_thread(self._read_sweeps)
        self.show_recorded(sessions, sweeps)
        read = partial(recent_sessions, sessions, self._recent, most=_MOST_READ)
        self._recent = await asyncio.to_thread(read)
        self._list.show_recent(self._recent)

    def show_recorded(self, sessions: list[SessionEntry], sweeps: list[SweepEntry]) -> None:
        self._list.show(sessions, sweeps)
        self._share_room(self.size)


def _sessions(recorded: list[Recorded]) -> list[SessionEntry]:
    return [entry for entry in recorded if isinstance(entry, SessionEntry)]


def _why_it_stays(entry: Recorded) -> str | None:
    """Return why a recording can't be deleted; None if it can."""
    if entry.status == Status.RUNNING:
        return f"{entry.header.id} is running: stop it first"
    if entry.status == Status.QUEUED:
        return f"{entry.header.id} is in Slurm's queue: stop it first"
    if entry.status == Status.UNKNOWN:
        return f"{entry.header.id} may be running on {entry.header.host}: delete it there"
    return None


def _counted(entries: list[Recorded]) -> str:
    """Name a single recording, or count several."""
    if len(entries) == 1:
        return clean(id_with_name(entries[0].header.id, entries[0].label), _LONGEST_QUESTION)
    sessions = len(_sessions(entries))
    numbers = {"session": sessions, "sweep": len(entries) - sessions}
    return " and ".join(units.counted(count, noun) for noun, count in numbers.items() if count)


def _listed(entries: list[Recorded]) -> list[tuple[str, str]]:
    """Name several recordings, as marked ones may be out of view; return nothing for one."""
    if len(entries) == 1:
        return []
    names = [clean(id_with_name(e.header.id, e.label), _LONGEST_QUESTION) for e in entries]
    if len(names) > _MOST_NAMED:
        more = len(names) - _MOST_NAMED + 1
        names = [*names[: _MOST_NAMED - 1], f"and {more} more: all that are marked in the list"]
    return [("" if number else "Chosen", name) for number, name in enumerate(names)]
