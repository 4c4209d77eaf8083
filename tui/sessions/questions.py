"""Ask before recordings are deleted, and before the runs that a sweep lacks are trained."""

from __future__ import annotations

from tui.screens.question import Answer, QuestionScreen, stay


class DeleteScreen(QuestionScreen):
    """Answers `delete` or `stay`."""

    ANSWERS = (
        Answer("delete", "y", "Delete", "permanently: this cannot be undone", "error"),
        stay("Keep"),
    )


class ResumeScreen(QuestionScreen):
    """Answers `resume` or `stay`."""

    ANSWERS = (
        Answer("resume", "y", "Resume", "they are trained now", "primary"),
        stay("Back"),
    )
