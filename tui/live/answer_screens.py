"""The screens of the stacks of a run's processes, and of a profile of some steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from dlmon.figures.session.stack_lines import stack_lines
from dlmon.figures.session.tables import describe_profile
from dlmon.protocol.control import NotControlled
from dlmon.records import ProcessStack, Profile, Record
from dlmon.render.lines import lines_of
from dlmon.session.gaps import in_order
from tui.screens.base import HELP, PALETTE, QUIT, THEME, BaseScreen

_SHARED: tuple[BindingType, ...] = (
    Binding("C", "copy", "Copy", tooltip="Copy all of it, if the terminal allows that"),
    HELP,
    Binding("q,escape", "leave", "Back", tooltip="Go back"),
    THEME,
    PALETTE,
    QUIT,
)
# The columns of the padding and the scroll bar.
_MARGIN = 4
AnswerLines = Sequence[tuple[str, bool]]
"""Lines of text, each with True if it is a heading."""


class AnswerScreen(BaseScreen):
    """The answer of a run's processes to a question that the screen asks when it opens.

    Args:
        ask: asks the processes, and returns their answers.
    """

    DEFAULT_CSS = "AnswerScreen #answer { height: 1fr; padding: 0 1; }"
    AUTO_FOCUS = "#answer"
    USES_SENSORS_BELOW = True
    WAITING: ClassVar[str]
    TOPIC: ClassVar[str]

    def __init__(self, ask: Callable[[], Awaitable[Sequence[Record]]]) -> None:
        super().__init__()
        self._ask = ask
        self._records: Sequence[Record] | None = None
        self._text = ""

    HELP_PAGES = (Path(__file__).with_name("answers.md"),)

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        return tuple(topic for topic in super().topics if topic[0] == self.TOPIC)

    def lines_of(self, records: Sequence[Record]) -> AnswerLines:
        """Return the lines that show an answer."""
        raise NotImplementedError

    def compose_parts(self) -> ComposeResult:
        with VerticalScroll(id="answer"):
            yield Static()

    def on_mount(self) -> None:
        self.ask_processes()

    def ask_processes(self) -> None:
        """Ask the processes, and show their answer in place of the last one."""
        self._records = None
        self._show([(f"{self.WAITING} …", False)])
        self.run_worker(self._fetch, exclusive=True)

    async def _fetch(self) -> None:
        try:
            self._records = await self._ask()
        except NotControlled as error:
            self._show([(str(error), False)])
            return
        self._show(self.lines_of(self._records))

    def on_resize(self) -> None:
        if self._records is not None:
            self._show(self.lines_of(self._records))

    def _show(self, lines: AnswerLines) -> None:
        self._text = "\n".join(line for line, _ in lines)
        if self.has_parts:
            styled = [Content.styled(line, "bold" if bold else "") for line, bold in lines]
            self.query_one("#answer Static", Static).update(Content("\n").join(styled))

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._text)
        self.notify("copied, if the terminal allows that")

    def action_leave(self) -> None:
        self.dismiss()


class StacksScreen(AnswerScreen):
    """The stacks of all processes of a run."""

    WAITING, TOPIC = "asking every process of the run", "Stacks"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "stacks", "Look again", tooltip="Ask every process once more"),
        *_SHARED,
    ]

    def lines_of(self, records: Sequence[Record]) -> AnswerLines:
        stacks = in_order(record for record in records if isinstance(record, ProcessStack))
        return list(stack_lines(stacks))

    def action_stacks(self) -> None:
        self.ask_processes()


class ProfileScreen(AnswerScreen):
    """The operations that took the time of some steps."""

    WAITING, TOPIC = "profiling the next steps", "Profile"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("P", "profile", "Profile again", tooltip="Profile as many steps once more"),
        *_SHARED,
    ]

    def lines_of(self, records: Sequence[Record]) -> AnswerLines:
        profiles = [record for record in records if isinstance(record, Profile)]
        if not profiles:
            return [("no profile was recorded", False)]
        profile = profiles[-1]
        rows = lines_of(describe_profile(profile), self.size.width - _MARGIN)
        lines = [("".join(text for text, _ in row), number == 0) for number, row in enumerate(rows)]
        if profile.file is not None:
            lines.append((f"{profile.file}, beside the log, opens in ui.perfetto.dev", True))
        return lines

    def action_profile(self) -> None:
        self.ask_processes()
