"""The screen of what was recorded, and of what runs: pick a session or a sweep to see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from dlmon.figures import units
from dlmon.figures.session.session_columns import COLUMNS_BY_NAME
from dlmon.figures.session.session_list import Recorded, called, can_be_resumed, sides_of
from dlmon.log import label
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import Status
from dlmon.records.sanitize import clean
from dlmon.sweep.log import SweepEntry
from tui.messages import (
    Compare,
    Delete,
    Export,
    KeepColumns,
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

_READING = "reading"
_LONGEST_QUESTION = 60
_MOST_NAMED = 8


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
    """All columns, a ● at those that are wanted; answers with those that are not, or nothing.

    Args:
        hidden: those that are not wanted as it opens.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "show_or_hide", "Show, hide"),
    ]

    def __init__(self, hidden: frozenset[str]) -> None:
        self._names = [name for name in COLUMNS_BY_NAME if name != TIME]
        self._hidden = set(hidden)
        # The stock list of selections tells what is selected by its colour alone.
        options = list(map(self._prompt, self._names))
        super().__init__("Columns", options, below="those that have room are shown")

    def _prompt(self, name: str) -> str:
        return f"{' ' if name in self._hidden else '●'} {COLUMNS_BY_NAME[name].heading}"

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Show or hide what was clicked."""
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
        """Answer with the columns that are not wanted."""
        self.dismiss(frozenset(self._hidden))


HINT = "Every command finds it by its name. An empty field takes it away."


class LabelForm(FormScreen[label.Label]):
    """Two fields; answers with what they amount to, or with nothing.

    Args:
        recording: the id of the session, or of the sweep.
        before: what it is called.
    """

    SUBMIT = "Rename"

    def __init__(self, recording: str, before: label.Label) -> None:
        name = Field("name", "Name", value=before.name or "")
        note = Field("note", "Note", value=before.note or "")
        super().__init__(clean(recording, label.LONGEST_NAME), (name, note))

    def read(self, typed: dict[str, str], submitted: bool) -> tuple[label.Label | None, str, bool]:
        """Read the name and the note, or say what is wrong with them."""
        name, note = typed["name"], typed["note"]
        problem = label.refuse_name(name) if name else None
        problem = problem or label.refuse_note(note)
        if problem is not None:
            return None, clean(problem), True
        return label.Label(name or None, note or None), HINT, False


class SessionsScreen(ExportControls, FilteredScreen):
    """All sessions and sweeps of the log directory, newest first.

    Args:
        read: returns the sessions as they are now.
        read_sweeps: returns the sweeps as they are now.
        hidden: the columns that a person took out.
    """

    CSS_PATH = "sessions.tcss"
    # Letters are commands until the filter is asked for.
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
        # Before the way back, which has the same key where there is nothing to undo.
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
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        """Read nothing before the screen is shown."""
        super().__init__()
        self._read = read
        self._read_sweeps = read_sweeps
        self._list = SessionList(id="sessions")
        self._list.hidden = hidden
        self._details = SessionDetails(id="details")

    @property
    def table(self) -> SessionList:
        return self._list

    def compose_parts(self) -> ComposeResult:
        """Lay out the filter, the list, and what is known of the highlighted session."""
        yield self.filter_field
        yield self._list
        yield self._details

    def on_screen_resume(self) -> None:
        """Read the sessions as they are now, but let the screen be painted first."""
        self.call_after_refresh(self.action_refresh)

    def on_row_list_highlighted(self) -> None:
        """Show the details of what is highlighted."""
        self._details.show(self._list.highlighted, self._list.run_of_sweep)
        self.refresh_bindings()

    def on_row_list_row_chosen(self) -> None:
        self.action_show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done with what is highlighted or marked."""
        match action:
            case "clear_marks":
                return bool(self._list.marked)
            case "replay":
                return bool(self._several) or isinstance(self._list.highlighted, SessionEntry)
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
        """Show the highlighted session, or sweep; ask whether one that has runs left goes on."""
        entry = self._list.highlighted
        if isinstance(entry, SessionEntry):
            self.post_message(ShowSession(entry.path))
        elif entry is not None and can_be_resumed(entry):
            chosen = ShowSweep(entry.path)
            question = f"Train what is left: {units.counted(len(entry.sweep.remaining()), 'run')}?"
            name = clean(called(entry.header.id, entry.label), _LONGEST_QUESTION)

            def take(answer: str) -> None:
                if answer == "resume":
                    self.post_message(chosen)

            self.ask(ResumeScreen(question, after=(("Sweep", name),)), take)
        elif entry is not None:
            self.post_message(ShowSweep(entry.path))

    def action_mark(self) -> None:
        self._list.toggle_mark()

    def action_clear_marks(self) -> None:
        self._list.clear_marks()

    def action_compare(self) -> None:
        """Ask for a comparison of the marked sessions."""
        sides = sides_of(_sessions(self._list.marked))
        if sides is None:
            self.notify("mark two sessions or more with Space; then c compares them")
            return
        base, new = ([entry.path for entry in side] for side in sides)
        self.post_message(Compare(base, new))

    def action_metrics(self) -> None:
        """Ask for every metric of what is marked, or highlighted."""
        self.post_message(ShowMetrics(self.exported_logs))

    @property
    def _several(self) -> list[SessionEntry]:
        """The marked sessions where they are several."""
        marked = _sessions(self._list.marked)
        return marked if len(marked) > 1 else []

    def action_replay(self) -> None:
        """Ask for the replay of what is highlighted, or of all that are marked at once."""
        entry = self._list.highlighted
        played = self._several or ([entry] if isinstance(entry, SessionEntry) else [])
        if played:
            self.post_message(Replay([entry.path for entry in played]))

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
        if hidden is not None:
            self._list.hide_columns(hidden)
            self.post_message(KeepColumns(hidden))

    def action_columns(self) -> None:
        self.run_worker(self._choose_columns)

    def action_delete(self) -> None:
        """Ask whether what is marked, or highlighted, is to be deleted; never what may run."""
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
        """Read in a thread what is recorded now, and show it."""
        sessions = await asyncio.to_thread(self._read)
        sweeps = await asyncio.to_thread(self._read_sweeps)
        self._list.show(sessions, sweeps)


def _sessions(recorded: list[Recorded]) -> list[SessionEntry]:
    return [entry for entry in recorded if isinstance(entry, SessionEntry)]


def _why_it_stays(entry: Recorded) -> str | None:
    """Say why a recording can't be deleted; None where it can."""
    if entry.status == Status.RUNNING:
        return f"{entry.header.id} is running: stop it first"
    if entry.status == Status.QUEUED:
        return f"{entry.header.id} is in Slurm's queue: stop it first"
    if entry.status == Status.UNKNOWN:
        return f"{entry.header.id} may be running on {entry.header.host}: delete it there"
    return None


def _counted(entries: list[Recorded]) -> str:
    """Return what to call recordings in a question: the only one by its name."""
    if len(entries) == 1:
        return clean(called(entries[0].header.id, entries[0].label), _LONGEST_QUESTION)
    sessions = len(_sessions(entries))
    numbers = {"session": sessions, "sweep": len(entries) - sessions}
    return " and ".join(units.counted(count, noun) for noun, count in numbers.items() if count)


def _listed(entries: list[Recorded]) -> list[tuple[str, str]]:
    """Name several recordings, for one that is marked may be out of sight; not a single one."""
    if len(entries) == 1:
        return []
    names = [clean(called(e.header.id, e.label), _LONGEST_QUESTION) for e in entries]
    if len(names) > _MOST_NAMED:
        more = len(names) - _MOST_NAMED + 1
        names = [*names[: _MOST_NAMED - 1], f"and {more} more: all that are marked in the list"]
    return [("" if number else "Chosen", name) for number, name in enumerate(names)]
