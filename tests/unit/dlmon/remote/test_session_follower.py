"""What is said of a session whose host is not connected."""

from types import SimpleNamespace

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.records import Status
from dlmon.remote.session_follower import RemoteFollower, lost_text

S = 10**9


@pytest.mark.parametrize(
    ("problem", "lost_s", "text"),
    [
        ("gpu1 closed the connection", 0.4, "gpu1 closed the connection; next try in 3 s"),
        ("gpu1 closed the connection", 0.6, "gpu1 closed the connection, for 1 s; next try in 3 s"),
        ("gpu1 closed the connection", 12, "gpu1 closed the connection, for 12 s; next try in 3 s"),
        (None, None, "gpu1 is not connected yet; connecting"),
    ],
)
def test_how_long_a_host_is_away_is_said_once_that_is_a_second(problem, lost_s, text):
    link = SimpleNamespace(host="gpu1", problem=problem, lost_at_ns=None, retry_at_ns=None)
    if lost_s is not None:
        link.lost_at_ns, link.retry_at_ns = int((100 - lost_s) * S), 103 * S
    assert lost_text(link, 100 * S) == text


def test_a_loss_is_the_same_until_the_next_look_whatever_the_connection_does_meanwhile(tmp_path):
    """Else a loss that is over would be taken for another one, and said again."""
    link = SimpleNamespace(
        host="gpu1", problem="gpu1 closed the connection", clock_difference=None, is_up=False
    )
    link.lost_at_ns, link.retry_at_ns = 97 * S, None
    mirror = SimpleNamespace(
        path=write_log(tmp_path, recorded_session("training")),
        connection=link,
        log_dir="/logs",
        problem=None,
        refusal=None,
        loss=None,
        status=Status.RUNNING,
        close=lambda: None,
    )
    follower = RemoteFollower(mirror, clock=lambda: 100 * S)
    while follower.poll():
        pass
    said = ("gpu1 closed the connection, for 3 s; connecting", "gpu1 closed the connection")
    assert (follower.problem, follower.lasting_problem) == said
    link.is_up, link.problem = True, None
    assert (follower.problem, follower.lasting_problem) == said
    follower.poll()
    assert follower.problem is follower.lasting_problem is None
    follower.close()
