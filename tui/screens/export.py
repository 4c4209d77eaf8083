"""Hand on what a screen shows: as a report, as Markdown, or as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.screens.base import BaseScreen
from tui.screens.question import Answer, QuestionScreen, stay

EXPORT = Binding("e", "export", "Export", tooltip="A report, Markdown or a picture, to share")


class Form(StrEnum):
    """What is made; each is an answer of `ExportScreen`."""

    HTML = "html"
    MARKDOWN = "markdown"
    PICTURE = "picture"


class ExportScreen(QuestionScreen):
    """Answers with a `Form`, or `stay`."""

    QUESTION = "Share as"
    ANSWERS = (
        Answer("html", "h", "Report", "one HTML file, which needs no network", "primary"),
        Answer("markdown", "m", "Markdown", "to the terminal's clipboard (OSC 52)", "primary"),
        Answer("picture", "p", "Picture", "this screen as an SVG file", "primary"),
        stay("Back", "are saved in the working directory", "Files"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("e", "answer('stay')", show=False)]


class ExportControls(BaseScreen):
    """A screen of sessions that can be handed on."""

    @dataclass
    class ExportRequested(Message):
        """What the screen shows is to be handed on.

        Attributes:
            form: as what.
            logs: of the sessions.
        """

        form: Form
        logs: Sequence[Path]

    @property
    def exported_logs(self) -> Sequence[Path]:
        """The logs of the sessions that a report would be of."""
        raise NotImplementedError

    def action_export(self) -> None:
        """Ask as what the sessions are to be handed on."""
        self.ask(ExportScreen(), self._take_export_answer)

    def _take_export_answer(self, answer: str) -> None:
        if answer != "stay":
            self.post_message(self.ExportRequested(Form(answer), self.exported_logs))
