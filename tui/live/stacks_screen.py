"""The stack of every process of a run, as it is at the moment: each with its line of the script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from dlmon.control import NotControlled
from dlmon.records import ProcessStack, Record
from dlmon.session.stacks import in_order
from tui.formatting.glyphs import under_way
from tui.formatting.stacks import stack_lines
from tui.screens.base import HELP, PALETTE, QUIT, THEME, BaseScreen


class StacksScreen(BaseScreen):
    """The stacks of all processes, over the whole screen; asked for again by the key that opens it.

    Args:
        ask: returns what each process answers.
    """

    DEFAULT_CSS = "StacksScreen #stacks { height: 1fr; padding: 0 1; }"
    AUTO_FOCUS = "#stacks"
    USES_SENSORS_BELOW = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "stacks", "Look again", tooltip="Ask every process once more"),
        Binding("C", "copy", "Copy", tooltip="Copy all of it, where the terminal lets us"),
        HELP,
        Binding("q,escape", "leave", "Back", tooltip="Go back"),
        THEME,
        PALETTE,
        QUIT,
    ]
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            "Stacks",
            "Where each process of the run is at this moment. Its line: the innermost line of the "
            "script, outside of installed packages and the standard library, and what that called "
            "in the end. Below it the threads: of the one that trains, and of those that are in a "
            "function of the script, all lines, the innermost first; > is the line of the script. "
            "Of ranks that wait for each other, the one that is somewhere else is the answer. What "
            "is shown is in the log too. The mouse marks text, and C copies all.",
        ),
    )

    def __init__(self, ask: Callable[[], Awaitable[Sequence[Record]]]) -> None:
        super().__init__()
        self._ask = ask
        self._text = ""

    def compose_parts(self) -> ComposeResult:
        with VerticalScroll(id="stacks"):
            yield Static()

    def on_mount(self) -> None:
        """Ask at once."""
        self.action_stacks()

    def action_stacks(self) -> None:
        """Ask every process where it is."""
        self._show([(under_way("asking every process of the run"), False)])
        self.run_worker(self._look(), exclusive=True)

    async def _look(self) -> None:
        try:
            records = await self._ask()
        except NotControlled as error:
            self._show([(str(error), False)])
            return
        stacks = in_order(record for record in records if isinstance(record, ProcessStack))
        self._show(list(stack_lines(stacks)))

    def _show(self, lines: Sequence[tuple[str, bool]]) -> None:
        self._text = "\n".join(line for line, _ in lines)
        if self.has_parts:
            styled = [Content.styled(line, "bold" if bold else "") for line, bold in lines]
            self.query_one("#stacks Static", Static).update(Content("\n").join(styled))

    def action_copy(self) -> None:
        """Copy all of it."""
        self.app.copy_to_clipboard(self._text)
        self.notify("copied, where the terminal lets dlmon")

    def action_leave(self) -> None:
        """Go back to the session."""
        self.dismiss()
