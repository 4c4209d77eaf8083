"""Export the sessions of a screen: as a report, as Markdown, or as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, cast

from textual.binding import Binding, BindingType

from tui.messages import Export, ExportFormat
from tui.screens.base import BaseScreen
from tui.screens.question import AnswerButton, QuestionScreen, stay

EXPORT = Binding("e", "export", "Export", tooltip="A report, Markdown or a picture, to share")


class ExportScreen(QuestionScreen):
    """Answers with an `ExportFormat`, or `stay`."""

    QUESTION = "Share as"
    ANSWERS = (
        AnswerButton("html", "h", "Report", "one HTML file, which needs no network", "primary"),
        AnswerButton(
            "markdown", "m", "Markdown", "to the terminal's clipboard (OSC 52)", "primary"
        ),
        AnswerButton("picture", "p", "Picture", "this screen as an SVG file", "primary"),
        stay("Back", "are saved in the working directory", "Files"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("e", "answer('stay')", show=False)]


class ExportControls(BaseScreen):
    """A screen of sessions that can be exported."""

    @property
    def exported_logs(self) -> Sequence[Path]:
        """The logs of the sessions that a report would cover."""
        raise NotImplementedError

    def action_export(self) -> None:
        self.ask(ExportScreen(), self._take_export_answer)

    def _take_export_answer(self, answer: str) -> None:
        if answer != "stay":
            self.post_message(Export(cast("ExportFormat", answer), self.exported_logs))
