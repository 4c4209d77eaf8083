"""The form that asks what a sweep of one workload varies."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Label, Static

from dlmon.figures.glyphs import glyphs_in_use
from dlmon.figures.sweeps import plan_text
from dlmon.records.sanitize import clean
from dlmon.sweep.plan import Plan, SweepError, read_repeats
from tui.screens.form import FORM_KEYS, FormScreen
from tui.widgets.key_footer import KeyFooter
from tui.widgets.text_field import TextField

HINT = "Enter an option and its values, or a number of runs."


class SweepForm(FormScreen[Plan]):
    """Two fields; answers with the plan that they amount to, or with nothing.

    Args:
        workload: its name.
        plan: turns what `--vary` would say, and how often each combination is
            run, into a plan; raises SweepError where that can't be.
    """

    CSS_PATH = "sweep_form.tcss"
    AUTO_FOCUS = "#vary"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "Sweep", priority=True),
        *FORM_KEYS,
    ]

    def __init__(self, workload: str, plan: Callable[[list[str], int], Plan]) -> None:
        """Take the workload; nothing is varied yet."""
        super().__init__()
        self._workload = workload
        self._plan_of = plan

    def compose(self) -> ComposeResult:
        """Lay out the fields, and below them what they amount to."""
        with Vertical(id="sweep-form", classes="panel") as box:
            box.border_title = Content(f"Sweep {self._workload}")
            with Horizontal():
                yield Label("Vary")
                yield TextField(placeholder="batch_size=32,64,128 threads=1,2", id="vary")
            with Horizontal():
                yield Label("Runs of each")
                yield TextField(placeholder="1; three or more give an uncertainty", id="repeats")
            yield Static(id="summary")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Say what to type."""
        self.check()

    def check(self, submitted: bool = False) -> Plan | None:
        """Show what the fields amount to, or what is wrong with them.

        An empty field is an error only on submit; until then the hint says what to type.
        """
        summary = self.query_one("#summary", Static)
        vary = self.query_one("#vary", TextField).value.split()
        plan, text, wrong = None, HINT, False
        try:
            repeats = self._repeats()
            if vary or repeats > 1 or submitted:
                plan = self._plan_of(vary, repeats)
                text = plan_text(plan, glyphs_in_use())
        except SweepError as error:
            # A word without its = is still being typed.
            text, wrong = clean(str(error)), submitted or not vary or "=" in vary[-1]
        summary.update(Content(text))
        summary.set_class(wrong, "-wrong")
        return plan

    def _repeats(self) -> int:
        text = self.query_one("#repeats", TextField).value.strip()
        if not text:
            return 1
        return read_repeats(text)
