"""What `dlmon watch HOST --json` prints of the sessions of a host."""

import pytest
from fakes.hosts import session

from dlmon.records import read_object
from dlmon.remote.host import RunningSession
from dlmon.render.watch_lines import running_session_json

STEPS, TOKENS = ({"per_second": 50.0, "unit": unit} for unit in ("steps/s", "tokens/s"))


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([], (None, False, None)),
        ([STEPS], (50.0, True, None)),
        ([STEPS, TOKENS], (50.0, True, 50.0)),
    ],
)
def test_throughputs_have_the_keys_of_a_result(rates, expected):
    fields = running_session_json(read_object(RunningSession, session(1, rates=rates)))
    keys = "samples_per_second", "counts_steps", "tokens_per_second"
    assert tuple(fields[key] for key in keys) == expected
    assert "rates" not in fields
