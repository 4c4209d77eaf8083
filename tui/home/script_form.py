"""The form that asks for a script of a person's own: its command line, as one types it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Label, Static

from dlmon.options.run import OPTIONS
from dlmon.options.script import ScriptRun, UnreadableScript, read_script
from dlmon.records.sanitize import clean
from tui.screens.form import FORM_KEYS, FormScreen
from tui.widgets.key_footer import KeyFooter
from tui.widgets.text_field import TextField

HINT = "The command as you type it in a shell. Keras and PyTorch are watched; nothing is changed."
_FIELDS = (
    ("command", "Command", "python train.py --epochs 3"),
    ("directory", "Directory", "this one"),
    ("name", OPTIONS["name"].label, OPTIONS["name"].unset),
    ("repeat", "Repeat", "1; three or more give an uncertainty"),
    ("alert", OPTIONS["alert"].label, f"{OPTIONS['alert'].unset}; https://ntfy.sh/my-topic"),
)


class ScriptForm(FormScreen[ScriptRun]):
    """Five fields; answers with the script that they amount to, or with nothing."""

    CSS_PATH = "script_form.tcss"
    AUTO_FOCUS = "#command-line"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "Run", priority=True),
        *FORM_KEYS,
    ]

    def compose(self) -> ComposeResult:
        """Lay out the fields, and below them the command or what is wrong."""
        with Vertical(id="script-form", classes="panel") as box:
            box.border_title = "Your own script"
            for name, title, placeholder in _FIELDS:
                with Horizontal():
                    yield Label(title)
                    yield TextField(placeholder=placeholder, id=_id(name))
            yield Static(Content(HINT), id="summary")
        yield KeyFooter()

    def check(self, submitted: bool = False) -> ScriptRun | None:
        """Show what the fields amount to, or what is wrong with them.

        While the command is typed it is not there yet: that it isn't is said on submit.
        """
        typed = {name: self.query_one(f"#{_id(name)}", TextField).value for name, _, _ in _FIELDS}
        summary = self.query_one("#summary", Static)
        run, text, wrong = None, Content(HINT), False
        try:
            run = read_script(typed)
        except UnreadableScript as error:
            unfinished = error.field == "command" and not submitted
            if not unfinished:
                text, wrong = Content(f"{clean(str(error))}."), True
            if submitted:
                self.query_one(f"#{_id(error.field)}", TextField).focus()
        else:
            if run is not None:
                text = Content(f"$ {clean(run.command_line)}")
            elif submitted:
                text, wrong = Content("Type what is to be run, such as python train.py."), True
        summary.update(text)
        summary.set_class(wrong, "-wrong")
        return run


def _id(name: str) -> str:
    return "command-line" if name == "command" else name
