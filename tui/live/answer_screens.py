"""The screens of the stacks of a run's processes, and of a profile of some steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from dlmon.figures import units
from dlmon.figures.session.process_stacks import stack_lines, stacks_title, standing_text
from dlmon.figures.session.tables import describe_profile, profile_headline
from dlmon.protocol.control import NotControlled
from dlmon.records import ProcessStack, Profile, Record
from dlmon.render.lines import Line, lines_of
from dlmon.render.wrap import wrapped
from dlmon.session.source import SessionSource
from tui.screens.base import BACK, BaseScreen
from tui.widgets.headline import Headline
from tui.widgets.tables import STYLES

_SHARED: tuple[BindingType, ...] = (
    Binding("C", "copy", "Copy", tooltip="Copy all of it, if the terminal allows that"),
    *BACK,
)
# The columns of the border, the padding and the scroll bar.
_MARGIN = 6
_HANGING = 6
# The rows of the headline, the border and the keys.
_ROWS_BESIDE = 6


def _hanging(text: str, width: int) -> list[str]:
    """Break a long line into lines that are further indented."""
    if cell_len(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip()))
    first, *more = wrapped(text, max(1, width - len(indent) - _HANGING)) or [""]
    return [indent + first, *(f"{indent}{' ' * _HANGING}{line}" for line in more)]


class AnswerScreen(BaseScreen):
    """The answer of a run's processes to a question that the screen asks when it opens."""

    DEFAULT_CSS = "AnswerScreen #answer { height: 1fr; padding: 0 1; }"
    AUTO_FOCUS = "#answer"
    USES_SENSORS_BELOW = True
    WAITING: ClassVar[str]
    TOPIC: ClassVar[str]
    TITLE: ClassVar[str]
    WHY_NOT: ClassVar[Mapping[str, str]] = {
        "stacks": "the run is over",
        "profile": "the run is over",
    }

    def __init__(self, source: SessionSource, request: Mapping[str, object]) -> None:
        super().__init__()
        self._source, self._request = source, request
        self._records: Sequence[Record] | None = None
        self._text = ""

    HELP_PAGES = (Path(__file__).with_name("answers.md"),)

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        return tuple(topic for topic in super().topics if topic[0] == self.TOPIC)

    def lines_of(self, records: Sequence[Record]) -> Sequence[Line]:
        """Return the lines that show an answer."""
        raise NotImplementedError

    def headline_of(self, records: Sequence[Record]) -> tuple[str, Sequence[str]]:
        """Return the headline of an answer: what is so, and sentences on it; empty for none."""
        return "", ()

    def compose_parts(self) -> ComposeResult:
        yield Headline()
        with VerticalScroll(id="answer", classes="panel") as panel:
            panel.border_title = self.TITLE
            yield Static()

    def on_mount(self) -> None:
        self.ask_processes()

    def ask_processes(self) -> None:
        """Ask the processes, and show their answer in place of the last one."""
        self._records = None
        self._show([((f"{self.WAITING} …", ""),)])
        self.run_worker(self._fetch, exclusive=True)

    async def _fetch(self) -> None:
        try:
            self._records = await self._source.ask(self._request)
        except NotControlled as error:
            self._show([((f"No {self.TITLE.lower()}: {error}", ""),)])
            return
        self._show_again()

    def on_resize(self) -> None:
        self._show_again()

    def _show_again(self) -> None:
        if self._records is not None:
            self._show(self.lines_of(self._records), *self.headline_of(self._records))

    def _show(self, lines: Sequence[Line], title: str = "", sentences: Sequence[str] = ()) -> None:
        styled = [
            Content.assemble(*((text, STYLES[style]) for text, style in row)) for row in lines
        ]
        shown = Content("\n").join(styled)
        self._text = "\n".join((*[f"{title} {' '.join(sentences)}"] * bool(title), shown.plain))
        self.refresh_bindings()
        if self.has_parts:
            headline = self.query_one(Headline)
            headline.display = bool(title)
            headline.show(title, sentences)
            self.query_one("#answer Static", Static).update(shown)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("copy", "fold") and self._records is None:
            return False
        if action in self.WHY_NOT and not self._source.running:
            return False
        return super().check_action(action, parameters)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._text)
        self.notify("copied, if the terminal allows that")

    def action_leave(self) -> None:
        self.dismiss()


class StacksScreen(AnswerScreen):
    """The stacks of all processes of a run."""

    WAITING = "asking every process of the run"
    TITLE = TOPIC = "Stacks"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "stacks", "Look again", tooltip="Ask every process once more"),
        Binding("A", "fold", "In full", tooltip="Show all frames and folders, or fold them"),
        *_SHARED,
    ]
    _is_folded = True

    def __init__(self, source: SessionSource) -> None:
        super().__init__(source, {"ask": "stack"})

    def headline_of(self, records: Sequence[Record]) -> tuple[str, Sequence[str]]:
        source, title = self._source, stacks_title(records)
        read_ns = max(
            (record.t for record in records if isinstance(record, ProcessStack)), default=0
        )
        if title:
            session = source.session
            # What is asked now has the time of the clock; what was recorded, that of the session.
            read_ns = session.running_time.at(read_ns) if source.running else read_ns
            read = units.clock((read_ns - session.header.t) / 1e9)
            self.query_one("#answer").border_title = f"{self.TITLE}  {title}, read at {read}"
        return standing_text(source.snapshot(), source.running)

    def lines_of(self, records: Sequence[Record]) -> Sequence[Line]:
        if not any(isinstance(record, ProcessStack) for record in records):
            return [(("no stack was recorded", ""),)]
        width, lines = self.size.width - _MARGIN, list[Line]()
        # The frames of libraries are folded, and fewer lines shown, only where not all fit.
        for is_unfolded, is_long in ((True, True), (False, True), (False, False)):
            is_folded = self._is_folded and not is_unfolded
            shown = stack_lines(records, is_folded, self._is_folded, is_long)
            lines = [((part, style),) for text, style in shown for part in _hanging(text, width)]
            if len(lines) <= self.size.height - _ROWS_BESIDE:
                break
        return lines

    def action_fold(self) -> None:
        self._is_folded = not self._is_folded
        self._show_again()

    def action_stacks(self) -> None:
        self.ask_processes()


class ProfileScreen(AnswerScreen):
    """The operations that took the time of some steps."""

    WAITING = "profiling the next steps"
    TITLE = TOPIC = "Profile"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("P", "profile", "Profile again", tooltip="Profile as many steps once more"),
        *_SHARED,
    ]

    def lines_of(self, records: Sequence[Record]) -> Sequence[Line]:
        profiles = [record for record in records if isinstance(record, Profile)]
        if not profiles:
            return [(("no profile was recorded", ""),)]
        profile = profiles[-1]
        width = self.size.width - _MARGIN
        lines = list(lines_of(describe_profile(profile, width=width), width))
        if profile.file is not None:
            where = f"{profile.file}, beside the log, opens in ui.perfetto.dev"
            lines += [(), ((where, "dim"),)]
        return lines

    def headline_of(self, records: Sequence[Record]) -> tuple[str, Sequence[str]]:
        profiles = [record for record in records if isinstance(record, Profile)]
        title, sentences, advice = profile_headline(profiles[-1]) if profiles else ("", (), "")
        return title, (*sentences, *[f"→ {advice}"] * bool(advice))

    def action_profile(self) -> None:
        self.ask_processes()
