"""Ask which time of a replayed session is to be shown."""

from __future__ import annotations

from tui.screens.form import Field, FormScreen
from tui.widgets.text_field import TextField
from tui.widgets.transport_line import HOW_TO_SAY, read_moment


class SeekScreen(FormScreen[float]):
    """One field; answers with the seconds since the session began, or with nothing."""

    SUBMIT = "Go to"

    def __init__(self) -> None:
        super().__init__("Go to a time", (Field("moment", "Time", "12m30s"),))

    def on_mount(self) -> None:
        """Take what is typed from now on."""
        self.set_focus(self.query_one(TextField))

    def read(self, typed: dict[str, str], submitted: bool) -> tuple[float | None, str, bool]:
        """Read the time; while it is typed, it is not wrong yet."""
        try:
            return read_moment(typed["moment"]), HOW_TO_SAY, False
        except ValueError:
            return None, HOW_TO_SAY, submitted
