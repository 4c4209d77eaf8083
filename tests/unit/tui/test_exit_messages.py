"""What is printed when the screens close: where a session is recorded, and how to come back."""

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.session.follower import SessionFollower
from tui.exit_messages import print_exit_message


@pytest.mark.parametrize(
    ("host", "where"), [(None, "recorded in"), ("gpu1", "recorded on gpu1, copied to")]
)
def test_a_session_that_is_over_says_where_its_log_is(tmp_path, capsys, host, where):
    log = write_log(tmp_path, recorded_session(), "first")
    follower = SessionFollower(log)
    follower.host = host
    print_exit_message(follower, stops=False)
    name = follower.session.header.id
    assert capsys.readouterr().out.splitlines()[-1] == f"{name} completed; {where} {log}"
