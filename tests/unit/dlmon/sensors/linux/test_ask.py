"""Fields of a record, any of which may fail without the others."""

import pytest

from dlmon.sensors.kernel_files import ask


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError(5, "no"), "input/output error"), (ValueError("no number"), "no number")],
)
def test_a_field_that_cannot_be_read_has_a_reason_and_the_others_are_read(error, reason):
    def fails():
        raise error

    values, why = ask({"total_mib": fails, "used_mib": lambda: 5})
    assert values == {"used_mib": 5}
    assert why == {"total_mib": reason}
