"""The command that the form amounts to, or why there is none."""

from __future__ import annotations

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from dlmon.records.sanitize import clean


class CommandLine(Static):
    """Shows a command, which a click copies, or the problem in its place."""

    ALLOW_SELECT = False

    class Clicked(Message):
        """The command was clicked."""

    def __init__(self) -> None:
        super().__init__(id="command")
        self._shown = Content()

    def show_command(self, command: str) -> None:
        """Show what to type in a shell."""
        self._show(Content.assemble(("$ ", "$text-muted"), clean(command)))

    def show_problem(self, problem: str) -> None:
        """Show why there is no such command."""
        self._show(Content.assemble(("! ", "bold $text-error"), (clean(problem), "$text-error")))

    def on_click(self) -> None:
        self.post_message(self.Clicked())

    def _show(self, content: Content) -> None:
        if content != self._shown:
            self._shown = content
            self.update(content)
