"""The processes: sorted, filtered, those of the run marked; one of them may be chosen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.records import MAX_BUSIEST, Process
from tui.machine.process_rows import (
    BY_NAME,
    ProcessColumn,
    columns_for,
    command_text,
    gpus_text,
    in_order,
    matching,
    next_column,
    process_key,
    reasons,
    running_for,
)
from tui.machine.view import MachineView, is_over
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import (
    ACCENT,
    BAD,
    CHOSEN,
    MUTED,
    PLAIN,
    STRONG,
    UNDERLINED,
    Lines,
    cut,
    wrapped,
)
from tui.widgets.rows import TextRow, TextRun, fit

READ_EVERY_S = 5
_MARKS = 4
"""Cells for what points at the chosen one, and for the dot of the run's."""
_GAP = 1
_HEADING_ROWS = 1
_BORDER = 6
"""What of a border has no text."""
_LATER = "None yet: processes are read every 5 s."
_SCOPE = f"those on GPUs, and the {MAX_BUSIEST} busiest"


def notes_with_room(notes: Sequence[str], room: int) -> str:
    """Join the notes that have room as a whole, the first ones before those behind them."""
    text = ""
    for note in filter(None, notes):
        longer = f"{text}  {note}" if text else note
        if cell_len(longer) <= room:
            text = longer
    return text


class ProcessList(ScrollingLines):
    """A table that scrolls, below a row that names its columns.

    A click on such a name sorts by it, and another one reverses the order.
    It never has the focus: its screen gives it what its keys ask for.

    Args:
        chosen: whether one of the rows can be chosen.
    """

    class Chosen(Message):
        """Another process is chosen, or none."""

    def __init__(
        self, *, choosing: bool = False, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._choosing = choosing
        self._all: tuple[Process, ...] | None = None
        self._shown: list[Process] = []
        self._nothing = _LATER
        self._stale = ""
        self._over = False
        self._of_run = ""
        self._host: str | None = None
        self.wall: float | None = None
        """The clock of the machine when it was read last."""
        self._taken: tuple[object, ...] = ()
        self._with_gpus = True
        self._by: str | None = None
        self._reversed = False
        self._typed = ""
        self._index = 0
        self.chosen: Process | None = None

    def show(self, view: MachineView) -> None:
        """Take the processes as they are now; what is chosen stays chosen while it lives."""
        latest = view.history.latest
        processes = latest.processes if latest is not None else None
        why = latest.why.get("processes") if latest is not None else None
        tree = latest.process if latest is not None else None
        in_all = tree.processes if tree is not None else None
        # How long each runs goes on, though nothing else changes.
        age = int(latest.wall // READ_EVERY_S) if latest is not None else None
        taken = (why, in_all, view.stale, is_over(view), bool(view.gpus), view.host, age)
        if taken == self._taken and processes is self._all:
            return
        self._all, self._taken = processes, taken
        self._stale, self._over, self._host = view.stale, is_over(view), view.host
        self.wall = latest.wall if latest is not None else None
        self._of_run = _part_of_run(processes or (), in_all)
        self._with_gpus = bool(view.gpus) or any(process.gpus for process in processes or ())
        self._nothing = why or ("No processes were recorded." if self._over else _LATER)
        self._arrange()

    def filter(self, typed: str) -> None:
        """Show only what matches."""
        self._typed = typed
        self._first = 0
        self._arrange()

    @property
    def is_of_this_machine(self) -> bool:
        """Whether these run here, and now."""
        return self._host is None and not self._over

    @property
    def sorted_by(self) -> str:
        """The column that it is sorted by."""
        # Where no process is on a GPU this comes to the same as by CPU.
        return self._by or ("gpu_memory_mib" if self._with_gpus else "cpu_pct")

    def sort_by(self, name: str) -> None:
        """Sort by a column; by the same one once more, the other way round."""
        self._reversed = name == self.sorted_by and not self._reversed
        self._by = name
        self._arrange()

    def sort_by_next(self, step: int) -> None:
        """Sort by the next column, or by the one before."""
        self._by, self._reversed = next_column(self.sorted_by, step, self._with_gpus), False
        self._arrange()

    def reverse(self) -> None:
        self.sort_by(self.sorted_by)

    def move(self, steps: int) -> None:
        """Choose another process, as far as there are some."""
        if self._shown:
            last = len(self._shown) - 1
            # The first step chooses the first visible one.
            at = self._index if self.chosen is not None else self._first - (steps > 0)
            self._choose(self._shown[min(max(at + steps, 0), last)])

    def move_page(self, direction: int) -> None:
        """Choose a process one page further."""
        self.move(direction * max(1, self._visible_row_count - 1))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the heading and the visible processes."""
        if width < 1 or height < 1:
            return []
        if not self._shown:
            return self._empty_rows(width, height)
        count = max(0, height - _HEADING_ROWS)
        columns = columns_for(width, self._with_gpus)
        visible = [self._shown[index] for index in self.in_view(len(self._shown), count)]
        rows = [self._heading(columns), *(self._row(p, columns, width - 1) for p in visible)]
        rows = [cut(row, width - 1) for row in rows[:height]]
        return [*rows[:1], *self.with_thumb(rows[1:], len(self._shown), width)]

    def on_resize(self, event: events.Resize) -> None:
        """Keep what is chosen visible, and the notes whole."""
        self._scroll_to_chosen()
        self._put_titles_of_table()
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Sort by the column whose name is clicked; choose the process that is."""
        clicked = event.get_content_offset(self)
        if clicked is None or not self._shown:
            return
        if clicked.y < _HEADING_ROWS:
            column = self._column_at(clicked.x)
            if column is not None:
                self.sort_by(column.name)
        elif self._choosing:
            index = self.index_at(clicked.y - _HEADING_ROWS, len(self._shown))
            if index is not None:
                self._choose(self._shown[index])

    @property
    def _visible_row_count(self) -> int:
        return self.size.height - _HEADING_ROWS

    def _arrange(self) -> None:
        """Put the processes in order, and find the chosen one again by its pid."""
        found = matching(self._all or (), self._typed)
        self._shown = in_order(found, self.sorted_by, self._reversed)
        was_visible = self._first <= self._index < self._first + self._visible_row_count
        before = self.chosen
        if before is not None:
            shown = [process_key(process) for process in self._shown]
            if process_key(before) in shown:
                self._index = shown.index(process_key(before))
                self.chosen = self._shown[self._index]
            else:
                self.chosen = None
        if self.chosen is not None and was_visible:
            self._scroll_to_chosen()
        self._put_titles_of_table()
        self.redraw()
        if self.chosen != before:
            self.post_message(self.Chosen())

    def _choose(self, process: Process) -> None:
        self.chosen = process
        self._index = self._shown.index(process)
        self._scroll_to_chosen()
        self.redraw()
        self.post_message(self.Chosen())

    def _scroll_to_chosen(self) -> None:
        if self.chosen is not None and self._visible_row_count > 0:
            self.bring_into_view(self._index, self._visible_row_count)

    def _put_titles_of_table(self) -> None:
        total = len(self._all or ())
        count = f"{len(self._shown)} of {total}" if self._typed.strip() else f"{total}"
        has_run = any(process.of_run for process in self._all or ())
        legend = "● this run" if has_run else ""
        typed = f"{count} match" if self._typed.strip() else ""
        last = "as they were last read, every 5 s" if self._over and total else ""
        of_core = "CPU % of one core" if total else ""
        scope = f"the run's, {_SCOPE}" if has_run else _SCOPE
        if not (self._choosing and self._all):
            scope = ""
        every = "read every 5 s" if total and not self._over else ""
        notes = (typed, last, of_core, legend, scope, every)
        below = notes_with_room(notes, self.outer_size.width - _BORDER)
        title = f"Processes {count}" if total and not self._typed.strip() else "Processes"
        # The panel of a machine stands below the name of it.
        if self._choosing and self._host is not None:
            title = f"{title} on {self._host}"
        title = ", ".join(filter(None, (title, self._of_run)))
        order = f"by {BY_NAME[self.sorted_by].heading}{' reversed' * self._reversed}"
        right = self._stale or (order if total else "")
        self.set_titles(title, below, right=right, more=(order,) if self._stale and total else ())

    def _empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Say why there is nothing to see."""
        if self._all is None:
            texts = [self._nothing]
        elif self._all:
            listed = f"Listed are those of a run, {_SCOPE} others."
            texts = ["No listed process matches that.", listed, "Esc clears the filter."]
        else:
            texts = ["No process is on a GPU, of a run, or busy."]
        room = width - 2
        lines = [line for text in texts for line in wrapped(text, room, height)]
        return [((f" {line}", MUTED),) for line in lines[:height]]

    def _heading(self, columns: list[ProcessColumn]) -> TextRow:
        runs: list[TextRun] = [(" " * _MARKS, MUTED)]
        for column in columns:
            is_sorted = column.name == self.sorted_by
            down = column.largest_first != self._reversed
            arrow = "▼" if down else "▲"
            name = f"{arrow}{column.heading}" if is_sorted else column.heading
            pad = max(0, column.cells - cell_len(name))
            blank = (" " * pad, MUTED)
            title: TextRun = (name, UNDERLINED if is_sorted else MUTED)
            runs += [title, blank] if _is_text(column) else [blank, title]
            runs.append((" " * _GAP, MUTED))
        return tuple(runs)

    def _column_at(self, x: int) -> ProcessColumn | None:
        """Return the column that a cell of the heading belongs to."""
        right = _MARKS
        for column in columns_for(self.size.width, self._with_gpus):
            right += max(column.cells, cell_len(column.heading) + 1) + _GAP
            if x < right or not column.cells:
                return column if x >= _MARKS else None
        return None

    def _row(self, process: Process, columns: list[ProcessColumn], width: int) -> TextRow:
        is_chosen = self.chosen is not None and process_key(process) == process_key(self.chosen)
        pointer = "▸" if is_chosen else " "
        dot = "●" if process.of_run else " "
        runs: list[TextRun] = [(f"{pointer} ", PLAIN), (f"{dot} ", ACCENT)]
        # A reason takes the place of all that is unknown with the command.
        known = [column for column in columns if column.value(process) is not None]
        for number, column in enumerate(columns):
            text = column.text(process, self.wall)
            is_last = process.command is None and not set(columns[number:]) & set(known)
            if is_last or not column.cells:
                room = max(0, width - sum(cell_len(run) for run, _ in runs))
                style = MUTED if process.command is None else PLAIN
                runs.append((fit(command_text(process), room), style))
                break
            cells = column.cells
            if not _is_text(column):
                text = " " * (cells - cell_len(text)) + text
            style = STRONG if column.name == self.sorted_by else PLAIN
            runs.append((fit(text, cells) + " " * _GAP, style))
        if is_chosen:
            whole = "".join(text for text, _ in runs)
            return ((fit(whole, width), CHOSEN),)
        return tuple((text, MUTED) for text, _ in runs) if self._stale else tuple(runs)


class ProcessDetails(Lines):
    """The chosen process: its whole command, and why something of it is unknown."""

    DEFAULT_CLASSES = "panel"

    _process: Process | None = None
    _age = ""

    def show(self, process: Process | None, wall: float | None = None) -> None:
        """Show a process as it is at a time of the machine's clock, or how to choose one."""
        self._process = process
        known = process is not None and process.started is not None
        self._age = f"running for {running_for(process, wall)}" if process and known else ""
        if process is None:
            self.set_titles("Process")
        else:
            self.set_titles(f"Process {process.pid}", right=_on_gpus(process))
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the command in as many rows as there are; reasons take the last ones."""
        process = self._process
        if width < 1 or height < 1:
            return []
        if process is None:
            return [cut((("Up and down choose a process.", MUTED),), width)]
        command = process.command or ""
        why = wrapped(reasons(process), width, height - bool(command))
        lines = wrapped(command, width, height - len(why))
        about = (f"of {process.user}" if process.user else "", self._age)
        owner = [((", ".join(filter(None, about)), MUTED),)] if any(about) else []
        rows: list[TextRow] = [((line, PLAIN),) for line in lines]
        rows += [((line, BAD),) for line in why]
        if len(rows) < height:
            rows += owner
        return [cut(row, width) for row in rows]


def _on_gpus(process: Process) -> str:
    """Name the GPUs that a process is on, all of them: a column may have no room for that."""
    word = "GPU" if len(set(process.gpus)) == 1 else "GPUs"
    return f"{word} {gpus_text(process.gpus)}" if process.gpus else ""


def _part_of_run(processes: Sequence[Process], in_all: int | None) -> str:
    """Return how many of the run's processes are listed, where that is not all of them."""
    count = sum(process.of_run is True for process in processes)
    return f"{count} of {in_all:,} of this run" if in_all and 0 < count < in_all else ""


def _is_text(column: ProcessColumn) -> bool:
    """Return whether a column is aligned left; numbers are aligned right."""
    return column.name in ("user", "gpus", "command")
