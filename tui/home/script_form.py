"""The form that asks for a script of a person's own: its command line, as one types it."""

from __future__ import annotations

from dlmon.options.run import OPTIONS
from dlmon.options.script import ScriptRun, UnreadableScript, read_script
from dlmon.records.sanitize import clean
from tui.screens.form import Field, FormScreen

HINT = "The command as you type it in a shell. Keras and PyTorch are watched; nothing is changed."
_FIELDS = (
    Field("command", "Command", "python train.py --epochs 3"),
    Field("directory", "Directory", "this one"),
    Field("name", OPTIONS["name"].label, OPTIONS["name"].unset),
    Field("repeat", "Repeat", "1; three or more give an uncertainty"),
    Field("alert", OPTIONS["alert"].label, f"{OPTIONS['alert'].unset}; https://ntfy.sh/my-topic"),
)


class ScriptForm(FormScreen[ScriptRun]):
    """Five fields; answers with the script that they amount to, or with nothing."""

    SUBMIT = "Run"

    def __init__(self) -> None:
        super().__init__("Your own script", _FIELDS)

    def read(self, typed: dict[str, str], submitted: bool) -> tuple[ScriptRun | None, str, bool]:
        """Read the script; while its command is typed, it is not missing yet."""
        try:
            run = read_script(typed)
        except UnreadableScript as error:
            if submitted:
                self.query_one(f"#{error.field}").focus()
            elif error.field == "command":
                return None, HINT, False
            return None, f"{clean(str(error))}.", True
        if run is not None:
            return run, f"$ {clean(run.command_line)}", False
        missing = "Type what is to be run, such as python train.py."
        return None, missing if submitted else HINT, submitted
