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
from tui.screens.quit import Answer, QuestionScreen

EXPORT = Binding("e", "export", "Export", tooltip="A report, Markdown or a picture, to share")


class Form(StrEnum):
    """What is made; each is an answer of `ExportScreen`."""

    HTML = "html"
    MARKDOWN = "markdown"
    PICTURE = "picture"


class ExportScreen(QuestionScreen):
    """Answers with a `Form`, or `stay`."""

    QUESTION = "Share as"
    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("html", "Report (h)", "primary"),
        ("markdown", "Markdown (m)", "primary"),
        ("picture", "Picture (p)", "primary"),
        ("stay", "Back (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Report", "one HTML file, which needs no network"),
        ("Markdown", "to the clipboard of the terminal (OSC 52)"),
        ("Picture", "this screen as an SVG file"),
        ("Files", "are saved in the working directory"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("h", "answer('html')", "Report"),
        Binding("m", "answer('markdown')", "Markdown"),
        Binding("p", "answer('picture')", "Picture"),
        Binding("ctrl+c,ctrl+q", "answer('stay')", show=False),
        Binding("escape,e", "answer('stay')", "Back"),
    ]


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
