"""A machine that is recorded without a workload, by real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
from fakes.sessions import (
    DEADLINE_S,
    Log,
    children_of,
    is_alive,
    the_log_in,
    wait_until_gone,
)
from fakes.terminal import PseudoTerminal

from dlmon.records import Machine

RECORD = ("watch", "--record", "--interval", "0.2")


@pytest.fixture
def record(dlmon, log_dir):
    """Return a function that records in the background, and the log of that; it ends at last."""
    pids = []

    def begin(*options):
        ran = dlmon(*RECORD, "--detach", "--log-dir", str(log_dir), *options)
        assert ran.returncode == 0, ran.stderr
        log = Log(the_log_in(log_dir))
        pids.append(log.supervisor_pid)
        assert ran.stdout == (
            f"{log.header.id} is running; dlmon attach --log-dir {log_dir} {log.header.id} "
            f"shows it, dlmon stop --log-dir {log_dir} {log.header.id} ends it\n"
        )
        return log

    yield begin
    for pid in pids:
        if pid is not None and is_alive(pid):
            os.kill(pid, signal.SIGTERM)
            wait_until_gone(pid)


def test_a_machine_is_recorded_for_as_long_as_was_asked(dlmon, log_dir):
    ran = dlmon(*RECORD, "--for", "2s", "--log-dir", str(log_dir))
    assert (ran.returncode, ran.stderr) == (0, "")
    log = Log(the_log_in(log_dir))
    assert log.header.workload == ""
    assert log.header.id.partition("-machine-")[1]
    assert log.header.options == {"interval": 0.2, "pcie": False, "for_s": 2.0}
    assert set(log.header.versions) == {"python", "dlmon"}
    assert log.header.machine.cores == os.cpu_count()
    result = log.result
    assert (result.status, result.workload) == ("completed", "")
    assert 2.0 <= result.wall_s < 10
    assert 0 <= result.machine.cpu_pct <= 100
    samples = log.records(Machine)
    assert len(samples) >= 3
    assert log.records() == [*samples, result]
    assert all(sample.process is None for sample in samples)
    lines = ran.stdout.splitlines()
    assert sum("  CPU " in line and "memory" in line for line in lines) == len(samples)
    assert "status    completed" in ran.stdout


def test_it_goes_on_without_its_command_is_listed_and_stopped(dlmon, log_dir, record):
    log = record()
    assert {p.name() for p in children_of(log.supervisor_pid)} == {"python"}
    assert len(children_of(log.supervisor_pid)) == 1, "only sensors are started"
    log.wait_for(Machine)
    (listed,) = json.loads(dlmon("sessions", "--json", "--log-dir", str(log_dir)).stdout)
    assert (listed["workload"], listed["status"], listed["result"]) == ("", "running", None)
    table = dlmon("sessions", "--log-dir", str(log_dir)).stdout
    assert "  machine   running " in table
    stopped = dlmon("stop", "last", "--log-dir", str(log_dir))
    assert (stopped.returncode, stopped.stdout) == (0, f"{log.header.id} is stopping\n")
    assert log.wait_for_end().status == "stopped"
    assert log.notices() == ["stopping: asked with dlmon stop"]


def test_a_signal_to_its_viewer_stops_it_and_sums_it_up(dlmon_command, log_dir):
    command = [dlmon_command, *RECORD, "--log-dir", str(log_dir)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as viewer:
        log = Log(the_log_in(log_dir))
        log.wait_for(Machine)
        # It shows the recording by then: one that has not begun to is ended with a sentence.
        assert any("CPU" in line for line in viewer.stdout)
        viewer.send_signal(signal.SIGINT)
        out, errors = viewer.communicate(timeout=DEADLINE_S)
        assert viewer.returncode == 130
    assert log.wait_for_end().status == "stopped"
    assert "status    stopped" in out
    assert "batch" not in errors


def test_in_a_terminal_it_is_shown_and_left_running(dlmon_command, log_dir):
    command = [dlmon_command, *RECORD, "--log-dir", log_dir]
    with PseudoTerminal(command) as terminal:
        terminal.wait_for(b"RECORDING ")
        log = Log(the_log_in(log_dir))
        log.wait_for(Machine)
        terminal.press("d")
        assert terminal.process.wait(DEADLINE_S) == 0
    pid = log.supervisor_pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    assert log.wait_for_end().status == "stopped"
