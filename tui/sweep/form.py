"""The form that asks what a sweep of one workload varies."""

from __future__ import annotations

from collections.abc import Callable

from dlmon.figures.sweeps import plan_text
from dlmon.options.option import UnreadableOption, whole_number_of
from dlmon.records.sanitize import clean
from dlmon.sweep.plan import Plan, SweepError
from tui.screens.form import Field, FormScreen

HINT = "Enter an option and its values, or a number of runs."
_FIELDS = (
    Field("vary", "Vary", "batch_size=32,64,128 threads=1,2"),
    Field("repeats", "Runs of each", "1; three or more give an uncertainty"),
)


class SweepForm(FormScreen[Plan]):
    """Two fields; answers with the plan that they amount to, or with nothing.

    Args:
        workload: its name.
        plan: turns what `--vary` would say, and how often each combination is
            run, into a plan; raises SweepError where that can't be.
    """

    SUBMIT = "Sweep"

    def __init__(self, workload: str, plan: Callable[[list[str], int], Plan]) -> None:
        super().__init__(f"Sweep {workload}", _FIELDS)
        self._plan_of = plan

    def read(self, typed: dict[str, str], submitted: bool) -> tuple[Plan | None, str, bool]:
        """Read the plan; empty fields are wrong only on submit."""
        vary = typed["vary"].split()
        try:
            repeats = whole_number_of("the number of runs")(typed["repeats"] or "1")
            if not (vary or repeats > 1 or submitted):
                return None, HINT, False
            plan = self._plan_of(vary, repeats)
        except (SweepError, UnreadableOption) as error:
            # A word without its = is still being typed.
            return None, clean(str(error)), submitted or not vary or "=" in vary[-1]
        return plan, plan_text(plan), False
