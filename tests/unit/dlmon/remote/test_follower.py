"""What is said of a session whose host is not connected."""

from types import SimpleNamespace

import pytest

from dlmon.remote.follower import lost_text

S = 10**9


def said(problem="gpu1 closed the connection", **times):
    link = SimpleNamespace(host="gpu1", problem=problem, lost_at_ns=None, retry_at_ns=None)
    vars(link).update(times)
    return lost_text(link, 100 * S)


@pytest.mark.parametrize(
    ("lost_s", "text"),
    [(0.0, ""), (0.4, ""), (0.6, ", for 1 s"), (12.0, ", for 12 s")],
)
def test_how_long_a_host_is_away_is_said_once_that_is_a_second(lost_s, text):
    times = {"lost_at_ns": int((100 - lost_s) * S), "retry_at_ns": 103 * S}
    assert said(**times) == f"gpu1 closed the connection{text}; next try in 3 s"


def test_a_host_that_was_never_there_is_said_to_be_connected_to():
    assert said(None) == "gpu1 is not connected yet; connecting"
