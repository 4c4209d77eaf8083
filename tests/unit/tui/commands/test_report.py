"""What can't be written as a report is refused in words for what was asked for."""

from pathlib import Path

import pytest

from tui.commands.report import _table
from tui.commands.shared import UserError

SWEEP = Path("sweep.jsonl")


@pytest.mark.parametrize(
    ("sweeps", "form", "table"),
    [([SWEEP], "json", "batches"), ([SWEEP], "csv", "epochs"), ([SWEEP, SWEEP], "csv", None)],
)
def test_a_sweep_has_one_table_in_whatever_form(sweeps, form, table):
    with pytest.raises(UserError) as error:
        _table([], sweeps, form, table, False)
    assert str(error.value) == "a table is of one sweep, with one row per combination"
