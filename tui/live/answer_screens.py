"""What the processes of a run answer: where each is now, or a profile of some steps."""

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
_BESIDE = 4
"""Columns of the space and the scroll bar beside what is shown."""
Lines = Sequence[tuple[str, bool]]
"""Lines, each with whether it is a heading."""


class AnswerScreen(BaseScreen):
    """What the processes of a run answer, over the whole screen; it asks as it is opened.

    Args:
        ask: returns what they answer.
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

    def lines_of(self, records: Sequence[Record]) -> Lines:
        """Return what is shown of an answer."""
        raise NotImplementedError

    def compose_parts(self) -> ComposeResult:
        with VerticalScroll(id="answer"):
            yield Static()

    def on_mount(self) -> None:
        """Ask at once."""
        self.ask_again()

    def ask_again(self) -> None:
        """Ask once more."""
        self._records = None
        self._show([(f"{self.WAITING} …", False)])
        self.run_worker(self._look, exclusive=True)

    async def _look(self) -> None:
        try:
            self._records = await self._ask()
        except NotControlled as error:
            self._show([(str(error), False)])
            return
        self._show(self.lines_of(self._records))

    def on_resize(self) -> None:
        """Show it in the new width."""
        if self._records is not None:
            self._show(self.lines_of(self._records))

    def _show(self, lines: Lines) -> None:
        self._text = "\n".join(line for line, _ in lines)
        if self.has_parts:
            styled = [Content.styled(line, "bold" if bold else "") for line, bold in lines]
            self.query_one("#answer Static", Static).update(Content("\n").join(styled))

    def action_copy(self) -> None:
        """Copy all of it."""
        self.app.copy_to_clipboard(self._text)
        self.notify("copied, if the terminal allows that")

    def action_leave(self) -> None:
        """Go back to the session."""
        self.dismiss()


class StacksScreen(AnswerScreen):
    """The stacks of all processes."""

    WAITING, TOPIC = "asking every process of the run", "Stacks"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "stacks", "Look again", tooltip="Ask every process once more"),
        *_SHARED,
    ]

    def lines_of(self, records: Sequence[Record]) -> Lines:
        stacks = in_order(record for record in records if isinstance(record, ProcessStack))
        return list(stack_lines(stacks))

    def action_stacks(self) -> None:
        """Ask every process where it is."""
        self.ask_again()


class ProfileScreen(AnswerScreen):
    """A profile of some steps: which operations took the time."""

    WAITING, TOPIC = "profiling the next steps", "Profile"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("P", "profile", "Profile again", tooltip="Profile as many steps once more"),
        *_SHARED,
    ]

    def lines_of(self, records: Sequence[Record]) -> Lines:
        profiles = [record for record in records if isinstance(record, Profile)]
        if not profiles:
            return [("no profile was recorded", False)]
        profile = profiles[-1]
        rows = lines_of(describe_profile(profile), self.size.width - _BESIDE)
        lines = [("".join(text for text, _ in row), number == 0) for number, row in enumerate(rows)]
        if profile.file is not None:
            lines.append((f"{profile.file}, beside the log, opens in ui.perfetto.dev", True))
        return lines

    def action_profile(self) -> None:
        """Profile as many steps once more."""
        self.ask_again()
