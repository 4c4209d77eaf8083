"""A run that its viewer suspends and resumes: nothing is lost, and nothing is left stopped."""

from __future__ import annotations

import os
import signal
import statistics
import sys
from pathlib import Path

import pytest
from fakes.sessions import Session, eventually, is_alive, is_stopped, wait_until_gone

from dlmon.protocol.job import Job
from dlmon.records import Batches, Machine, Status, Suspended
from dlmon.session.follower import SessionFollower

EPOCHS, STEPS = 3, 100
# It leads a session of its own, as workers of a launcher may, and ends after its parent.
CHILD = """
import os, time
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.05)
"""
SCRIPT = f"""
import dlmon, os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], start_new_session=True)
open("pids", "w").write(f"{{os.getpid()}} {{child.pid}}\\n")
with dlmon.training(samples={STEPS} * 8, batch_size=8, epochs={EPOCHS}, network="mine"):
    for epoch in range({EPOCHS}):
        for batch in range({STEPS}):
            time.sleep(0.01)
            dlmon.step()
        dlmon.epoch()
while os.path.exists("wait"):
    time.sleep(0.05)
"""


@pytest.fixture
def begin(tmp_path, launch_job):
    """Return a function that starts the script, and returns its session and its two processes."""

    def start():
        job = Job(
            *("mine", (sys.executable, "-c", SCRIPT), {"interval": 0.25}, str(tmp_path / "logs")),
            interval_s=0.25,
            environment=dict(os.environ),
            script=True,
            directory=str(tmp_path),
        )
        session = Session(launch_job(job))
        session.wait_for(Batches, lambda batches: batches.first > 0)
        return session, [int(pid) for pid in (tmp_path / "pids").read_text().split()]

    return start


def wait_until_stopped(pids):
    eventually(lambda: all(map(is_stopped, pids)), "all processes to stop")


def test_a_run_that_is_suspended_twice_has_the_figures_of_its_running_time(begin):
    session, pids = begin()
    before_ms = statistics.median(dt / 1000 for b in session.records(Batches) for dt in b.dt_us)
    for number in range(2):
        session.say("suspend")
        wait_until_stopped(pids)
        begins = eventually(lambda n=number: session.records(Suspended)[2 * n :], "its record")
        (suspended,) = begins
        batches = session.count_batches()
        # Longer than the shortest gap that is listed.
        session.wait_for(Machine, lambda sample, t=suspended.t: sample.t - t > 1.2e9)
        assert session.count_batches() == batches
        follower = SessionFollower(session.path)
        follower.poll()
        assert follower.snapshot().is_suspended
        assert follower.snapshot().overdue_s is None
        session.say("resume")
        session.wait_for(Suspended, lambda record, t=suspended.t: record.t == t and record.until)
        assert not any(map(is_stopped, pids))
        session.wait_for(Batches, lambda batches, n=number: batches.epoch > n)
    result = session.wait_for_end()
    assert (result.status, result.batches, result.epochs) == (Status.COMPLETED, EPOCHS * STEPS, 3)
    assert result.step_ms.median == pytest.approx(before_ms, rel=0.1)
    step_s = result.step_ms.mean / 1000
    assert result.seconds_per_epoch.value == pytest.approx(STEPS * step_s, rel=0.1)
    follower.poll()
    snapshot = follower.snapshot()
    # On a busy machine, a step may really be late.
    assert all(gap.seconds < 1.2 for gap in snapshot.gaps)
    assert all(stack.t - stack.begin < 1.2e9 for stack in snapshot.stacks)
    assert snapshot.suspended_s > 2.4
    lasted_s = (session.records()[-1].t - session.header.t) / 1e9
    assert snapshot.elapsed_s == pytest.approx(lasted_s - snapshot.suspended_s, abs=0.01)


def test_all_processes_of_a_run_stop_and_go_on_each_time(begin):
    session, pids = begin()
    for _ in range(5):
        session.say("suspend")
        wait_until_stopped(pids)
        session.say("resume")
        eventually(lambda: not any(map(is_stopped, pids)), "it to go on")
    session.say("stop")
    assert session.wait_for_end().status == "stopped"


def test_a_suspended_run_whose_viewer_is_gone_is_stopped_at_once(begin):
    session, pids = begin()
    session.say("suspend")
    wait_until_stopped(pids)
    session.release()
    assert session.wait_for_end().status == "stopped"
    assert all(record.until for record in session.records(Suspended)[1::2])
    for pid in pids:
        wait_until_gone(pid)


def test_a_suspended_run_that_is_asked_to_stop_ends_at_once(begin):
    session, pids = begin()
    session.say("suspend")
    wait_until_stopped(pids)
    session.say("stop")
    assert session.wait_for_end().status == "stopped"
    assert not any("did not stop" in text for text in session.notices())


def test_a_suspended_run_goes_on_if_its_supervisor_is_killed_or_its_viewer_detaches(
    begin, tmp_path
):
    (tmp_path / "wait").touch()
    session, pids = begin()
    session.say("suspend")
    wait_until_stopped(pids)
    session.say("detach")
    eventually(lambda: not any(map(is_stopped, pids)), "it to go on without its viewer")
    session.say("suspend")
    wait_until_stopped(pids)
    os.kill(session.supervisor_pid, signal.SIGKILL)
    eventually(lambda: not any(map(is_stopped, pids)), "it to go on without its supervisor")
    Path(tmp_path / "wait").unlink()
    for pid in pids:
        wait_until_gone(pid)
    assert not any(map(is_alive, pids))
