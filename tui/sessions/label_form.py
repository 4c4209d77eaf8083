"""The form that asks what a recorded session is called, and what is to be noted of it."""

from __future__ import annotations

from dlmon.log import label
from dlmon.records.sanitize import clean
from tui.screens.form import Field, FormScreen

HINT = "Every command finds it by its name. An empty field takes it away."


class LabelForm(FormScreen[label.Label]):
    """Two fields; answers with what they amount to, or with nothing.

    Args:
        recording: the id of the session, or of the sweep.
        before: what it is called.
    """

    SUBMIT = "Rename"

    def __init__(self, recording: str, before: label.Label) -> None:
        name = Field("name", "Name", value=before.name or "")
        note = Field("note", "Note", value=before.note or "")
        super().__init__(clean(recording, label.LONGEST_NAME), (name, note))

    def read(self, typed: dict[str, str], submitted: bool) -> tuple[label.Label | None, str, bool]:
        """Read the name and the note, or say what is wrong with them."""
        name, note = typed["name"], typed["note"]
        problem = label.refuse_name(name) if name else None
        problem = problem or label.refuse_note(note)
        if problem is not None:
            return None, clean(problem), True
        return label.Label(name or None, note or None), HINT, False
