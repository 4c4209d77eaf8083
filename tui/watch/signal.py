"""Ask which signal a process is to get."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from dlmon.records import Process
from dlmon.records.sanitize import clean
from tui.machine.process_rows import command_text
from tui.screens.quit import Answer, QuestionScreen

_LONGEST_COMMAND = 60


class SignalScreen(QuestionScreen):
    """Answers with the name of a signal, or `stay`.

    Args:
        process: what is to get it.
    """

    ANSWERS: ClassVar[tuple[Answer, ...]] = (
        ("SIGTERM", "End (e)", "primary"),
        ("SIGINT", "Interrupt (i)", "primary"),
        ("SIGKILL", "Kill (k)", "error"),
        ("stay", "Back (esc)", "default"),
    )
    CONSEQUENCES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("End", "SIGTERM asks it to end; it may save its work first"),
        ("Interrupt", "SIGINT, as Ctrl-C in its terminal"),
        ("Kill", "SIGKILL ends it at once; what it has not saved is lost"),
        ("Back", "nothing changes"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "answer('SIGTERM')", "End"),
        Binding("i", "answer('SIGINT')", "Interrupt"),
        Binding("k", "answer('SIGKILL')", "Kill"),
        Binding("ctrl+c,ctrl+q", "answer('stay')", show=False),
        Binding("escape,K", "answer('stay')", "Back"),
    ]

    def __init__(self, process: Process) -> None:
        """Note which process it is."""
        super().__init__()
        self._process = process

    @property
    def question(self) -> str:
        """Which process it is, whose, and whether the run that is watched has it."""
        process = self._process
        whose = f" of {process.user}" if process.user else ""
        part = ", a part of this run" if process.of_run else ""
        command = clean(command_text(process), _LONGEST_COMMAND)
        return f"Send a signal to process {process.pid}{whose}{part}?\n{command}"
