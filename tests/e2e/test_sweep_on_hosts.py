"""Sweeps over hosts that a real sshd serves: at once, stopped, cut off, left alone and taken up."""

from __future__ import annotations

import json
import signal

import pytest
from fakes.sessions import DEADLINE_S, Printing, eventually, is_alive
from fakes.sshd import lacks_sshd
from fakes.terminal import PseudoTerminal

from dlmon.exit_codes import DONE, INTERRUPTED_BY_USER
from dlmon.log.directory import list_sessions
from dlmon.log.log_follower import LogFollower
from dlmon.records import Batches, RunStatus, Status
from dlmon.sweep.log import SWEEP_NAME, read_sweep

pytestmark = pytest.mark.skipif(lacks_sshd() is not None, reason=str(lacks_sshd()))

SMALL = "mnist-mlp-small"
BOTH = "host=box-1,box-2"
HOW = ("--device", "cpu", "--data", "synthetic")
SHORT = ("--epochs", "1", "--steps", "30", "--seconds", "0")
# Long enough to do something to it meanwhile, and no longer.
LASTING = ("--epochs", "1", "--steps", "500")
LONG = ("--epochs", "1000000")


@pytest.fixture
def scripted(without_keras):
    """Return the options of a run that needs no Keras: what matters is where it goes on."""
    return ("--python", without_keras, *HOW)


@pytest.fixture(scope="module")
def hosts(network):
    return [network.add("box-1"), network.add("box-2")]


@pytest.fixture
def boxes(hosts):
    """Two hosts on which nothing was recorded; whatever a test leaves there must be over."""
    before = {box.name: {entry.header.id for entry in list_sessions(box.log_dir)} for box in hosts}
    return [Box(box, before[box.name]) for box in hosts]


class Box:
    """A host, and what was recorded on it since a test began."""

    def __init__(self, sshd, before):
        self.sshd, self._before = sshd, before

    @property
    def entries(self):
        found = list_sessions(self.sshd.log_dir)
        return [entry for entry in found if entry.header.id not in self._before]

    @property
    def statuses(self):
        return [entry.status for entry in self.entries]

    def wait_until_training(self):
        """Wait until a session trains; return who supervises it."""

        def trains():
            for entry in self.entries:
                if entry.status == Status.RUNNING and has_batches(entry.path):
                    return entry.pid
            return None

        return eventually(trains, f"{self.sshd.name} to train")


def has_batches(log):
    follower = LogFollower(log)
    try:
        return any(isinstance(record, Batches) for record in follower.poll())
    finally:
        follower.close()


class Sweeper(Printing):
    """A process of the laptop that makes a sweep."""

    def __init__(self, laptop, folder, *arguments):
        super().__init__(folder, [laptop.command, "sweep", *arguments], env=laptop.environment)
        self._sessions = laptop.sessions

    @property
    def path(self):
        (path,) = self._sessions.glob(f"*/{SWEEP_NAME}")
        return path

    @property
    def sweep(self):
        return read_sweep(self.path)[1]


@pytest.fixture
def sweeper(laptop, files, ended_with_test):
    """Return a function that starts a sweep."""
    return lambda *arguments: ended_with_test(Sweeper(laptop, files(), *arguments))


def test_a_host_that_is_not_there_keeps_no_other_from_its_run(laptop, boxes, scripted):
    swept = laptop.dlmon(
        *("sweep", SMALL, "--vary", f"{BOTH},nosuch", *scripted, *SHORT),
        *("--name", "mine", "--json"),
    )
    assert swept.returncode == DONE, swept.stderr
    rows = json.loads(swept.stdout)["rows"]
    assert [(row["options"]["host"], row["status"]) for row in rows] == [
        ("box-1", "completed"),
        ("box-2", "completed"),
        ("nosuch", "not run"),
    ]
    assert rows[2]["reason"] == "nosuch is not known: no such host name"
    assert "dlmon: nosuch is not known: no such host name\n" in swept.stderr
    assert "1 run left: dlmon sweep --resume" in swept.stderr
    for box, row in zip(boxes, rows, strict=False):
        (entry,) = box.entries
        assert entry.header.id == row["runs"][0]["session"]
        assert entry.label.name == "mine"
    report = laptop.dlmon("report", "mine", "--format", "md", "--full")
    assert report.returncode == DONE, report.stderr
    assert "| box-2 | completed |" in report.stdout
    assert list_sessions(laptop.sessions) == [], "its sessions are on the hosts"


def test_hosts_run_at_once_until_ctrl_c_and_resume_makes_what_is_left(sweeper, boxes, scripted):
    one = sweeper(SMALL, "--vary", BOTH, *scripted, *LONG, "--plain")
    pids = [box.wait_until_training() for box in boxes]
    assert [box.statuses for box in boxes] == [[Status.RUNNING], [Status.RUNNING]]
    one.process.send_signal(signal.SIGINT)
    assert one.exit_code() == INTERRUPTED_BY_USER
    assert [box.statuses for box in boxes] == [[Status.STOPPED], [Status.STOPPED]]
    assert not any(map(is_alive, pids))
    assert "2 runs left: dlmon sweep --resume" in one.stderr
    assert {outcome.status for outcome in one.sweep.outcomes.values()} == {RunStatus.NOT_RUN}
    again = sweeper("--resume", "last", "--plain")
    for box in boxes:
        box.wait_until_training()
    again.process.send_signal(signal.SIGINT)
    assert again.exit_code() == INTERRUPTED_BY_USER
    assert [box.statuses for box in boxes] == [[Status.STOPPED] * 2] * 2


def test_a_screen_that_is_ended_leaves_nothing_running_on_any_host(laptop, boxes, scripted):
    command = [laptop.command, "sweep", SMALL, "--vary", BOTH, *scripted, *LONG]
    with PseudoTerminal(command, laptop.environment) as terminal:
        pids = [box.wait_until_training() for box in boxes]
        terminal.process.send_signal(signal.SIGHUP)
        assert terminal.process.wait(DEADLINE_S) != DONE
    for box, pid in zip(boxes, pids, strict=True):
        eventually(lambda box=box: box.statuses == [Status.STOPPED], "its end")
        eventually(lambda pid=pid: not is_alive(pid), "its supervisor to end")


def test_a_run_outlives_its_sweep_and_whoever_resumes_takes_it_up(sweeper, boxes, scripted):
    one = sweeper(SMALL, "--vary", "host=box-1", "--repeat", "2", *scripted, *LASTING, "--plain")
    box, _ = boxes
    box.wait_until_training()
    one.process.kill()
    one.process.wait()
    (began,) = one.sweep.running.values()
    again = sweeper("--resume", "last", "--plain")
    assert again.exit_code() == DONE, again.stderr
    assert box.statuses == [Status.COMPLETED] * 2
    outcomes = again.sweep.outcomes
    assert outcomes[began.slot].session == began.session == box.entries[0].header.id
    assert not again.sweep.remaining()


def test_a_run_goes_on_while_the_connection_is_cut(sweeper, boxes, scripted):
    one = sweeper(SMALL, "--host", "box-1", "--repeat", "2", *scripted, *LASTING, "--plain")
    box, _ = boxes
    box.wait_until_training()
    box.sshd.cut()
    assert one.exit_code() == DONE, one.stderr
    first, second = box.entries
    assert first.result.t <= second.header.t, "two ran at once on one host"
    assert {outcome.status for outcome in one.sweep.outcomes.values()} == {RunStatus.COMPLETED}
    assert one.stderr.count("dlmon: box-1") == 1


def test_a_host_that_is_gone_is_not_waited_for_by_who_stops(sweeper, boxes, scripted):
    one = sweeper(SMALL, "--vary", BOTH, *scripted, *LONG, "--plain")
    for box in boxes:
        box.wait_until_training()
    gone = boxes[1].sshd
    gone.stop()
    try:
        eventually(lambda: "dlmon: box-2" in one.stderr, "the loss to be noticed")
        one.process.send_signal(signal.SIGINT)
        assert one.exit_code() == INTERRUPTED_BY_USER
        assert boxes[0].statuses == [Status.STOPPED]
        assert boxes[1].statuses == [Status.RUNNING]
        (session,) = [entry.header.id for entry in boxes[1].entries]
        ends = f"dlmon stop --host box-2 {session} ends it"
        assert f"dlmon: {session} may still run: {ends}\n" in one.stderr
    finally:
        gone.start()
    # It is taken up there, and stopped.
    again = sweeper("--resume", "last", "--plain")
    boxes[0].wait_until_training()
    again.process.send_signal(signal.SIGINT)
    assert again.exit_code() == INTERRUPTED_BY_USER
    assert boxes[1].statuses == [Status.STOPPED]
