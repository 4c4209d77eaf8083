"""What is printed when the screens close: where a session is recorded, and how to come back."""

from types import SimpleNamespace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.sweeps import plan_of

from dlmon.records import Ended, Outcome, RunStatus, Status
from dlmon.render.exit_messages import print_exit_message, print_sweep_exit_message
from dlmon.session.follower import SessionFollower
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.runner import SweepRun


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


@pytest.mark.parametrize(
    ("host", "log_dir", "where"),
    [
        (None, None, ""),
        ("gpu1", None, " --host gpu1"),
        ("gpu1", "/there", " --host gpu1 --log-dir /there"),
    ],
)
def test_a_session_that_goes_on_says_how_to_come_back(tmp_path, capsys, host, log_dir, where):
    follower = SessionFollower(write_log(tmp_path, recorded_session("training"), "first"))
    follower.host, follower.log_dir_there = host, log_dir
    follower.status_without_result = lambda: Status.RUNNING
    print_exit_message(follower, stops=False)
    name = follower.session.header.id
    said = f"{name} is still running; dlmon attach{where} {name} shows it\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("is_usual", [True, False])
def test_a_sweep_that_has_runs_left_says_where_to_go_on(tmp_path, capsys, is_usual):
    plan = plan_of({"batch_size": ["1", "2"]})
    run = SweepRun(SweepWriter.create(tmp_path, new_header(plan, 1, 1.0)), None, None)
    print_sweep_exit_message(run, tmp_path if is_usual else tmp_path / "elsewhere")
    run.writer.close()
    where = "" if is_usual else f" --log-dir {tmp_path}"
    said = capsys.readouterr().out
    assert said.endswith(f"left: dlmon sweep --resume {run.writer.header.id}{where}\n")


def test_a_sweep_says_which_machines_were_away_and_what_may_still_run_there(tmp_path, capsys):
    plan = plan_of({"host": ["gpu1", "gpu2"]})
    run = SweepRun(SweepWriter.create(tmp_path, new_header(plan, 1, 1.0)), None, None)
    run.unreached["gpu1"] = "gpu1 is not known: no such host name"
    run._places["gpu2"] = SimpleNamespace(host="gpu2", left_running="a-session")
    for slot in plan.order:
        run.writer.write(Ended(slot, Outcome(RunStatus.NOT_RUN, "why"), 1.0))
    print_sweep_exit_message(run)
    run.writer.close()
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "dlmon: gpu1 is not known: no such host name",
        "dlmon: a-session may still run: dlmon stop --host gpu2 a-session ends it",
    ]
    assert "has 2 runs left: dlmon sweep --resume" in said.out
