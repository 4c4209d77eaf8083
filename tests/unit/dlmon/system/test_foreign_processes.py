"""A signal reaches the process that was seen, and no other that has its number."""

import signal
import subprocess
import sys

import pytest

from dlmon.sensors.processes.tree import read_stat, wall_at_boot, wall_at_start
from dlmon.system.foreign_processes import FoundProcess, NoSignal


@pytest.fixture
def child():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as process:
        yield process
        process.kill()


def started(pid):
    """Return when a process started, as the sensors write it."""
    return wall_at_start(read_stat("/proc", pid), wall_at_boot())


def test_it_gets_the_signal(child):
    FoundProcess(child.pid, started(child.pid)).send(signal.SIGTERM)
    assert child.wait(60) == -signal.SIGTERM


def test_another_one_with_its_number_gets_none(child):
    with pytest.raises(NoSignal, match="has ended: another one has its number now"):
        FoundProcess(child.pid, started(child.pid) - 60)
    assert child.poll() is None


def test_one_that_has_ended_is_said_to(child):
    begun = started(child.pid)
    found = FoundProcess(child.pid, begun)
    child.kill()
    child.wait()
    with pytest.raises(NoSignal, match=f"process {child.pid} has ended"):
        found.send(signal.SIGTERM)
    with pytest.raises(NoSignal, match=f"process {child.pid} has ended"):
        FoundProcess(child.pid, begun)


def test_one_of_another_user_is_named_as_such_before_anything_is_asked(child, monkeypatch):
    def denied(pidfd, number):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(signal, "pidfd_send_signal", denied)
    with pytest.raises(NoSignal, match="belongs to another user"):
        FoundProcess(child.pid, started(child.pid))


def test_one_of_which_nothing_is_known_here_gets_none():
    with pytest.raises(NoSignal, match="nothing is known here of process 1"):
        FoundProcess(1, None)
