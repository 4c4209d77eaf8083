"""Ask which time of a replayed session is to be shown."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Label, Static

from tui.textual_internals import Dialog
from tui.widgets.key_footer import KeyFooter
from tui.widgets.text_field import TextField
from tui.widgets.transport_line import HOW_TO_SAY, read_moment


class SeekScreen(Dialog[float]):
    """One field; answers with the seconds since the session began, or with nothing."""

    DEFAULT_CSS = """
    SeekScreen {
        align: left bottom;
        background: $background 0%;

        & > Horizontal { height: 1; margin: 0 0 1 0; padding: 0 1; background: $surface; }
        & TextField { width: 16; }
        & #hint { width: 1fr; color: $text-muted; }
        & #hint.-wrong { color: $text-error; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Go to", priority=True),
        Binding("escape", "cancel", "Back", priority=True),
        Binding("ctrl+c,ctrl+q", "cancel", show=False, priority=True),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the field in the place of the transport."""
        with Horizontal():
            yield Label("go to")
            yield TextField(id="moment")
            yield Static(Content(HOW_TO_SAY), id="hint")
        yield KeyFooter()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Forget what was wrong."""
        event.stop()
        self.query_one("#hint").remove_class("-wrong")

    def on_mount(self) -> None:
        """Take what is typed from now on."""
        self.set_focus(self.query_one("#moment", TextField))

    def action_submit(self) -> None:
        """Answer, once what was typed before has arrived: a field takes its keys one by one."""
        (self.focused or self).call_later(self._submit)

    def _submit(self) -> None:
        """Answer with the time, if it is one; of two keys at once, to the first."""
        if not self.is_current:
            return
        try:
            self.dismiss(read_moment(self.query_one("#moment", TextField).value))
        except ValueError:
            self.query_one("#hint").add_class("-wrong")

    def action_cancel(self) -> None:
        self.dismiss()
