"""One run on machines that share no log directory: the first copies from the other by ssh."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from fakes.sessions import Log, Printing, eventually, the_log_in
from fakes.sshd import lacks_sshd

from dlmon.exit_codes import NOT_STARTED
from dlmon.records import Node, Result, Status, Trainer

pytestmark = pytest.mark.skipif(lacks_sshd() is not None, reason=str(lacks_sshd()))

SCRIPT = """
import dlmon, os, sys, time
os.environ |= {"RANK": sys.argv[1], "WORLD_SIZE": "2"}
with dlmon.training(samples=640, batch_size=64, epochs=int(sys.argv[2])):
    for epoch in range(int(sys.argv[2])):
        for batch in range(10):
            time.sleep(0.02)
            dlmon.step()
        dlmon.epoch(loss=0.5)
"""


@pytest.fixture
def box(network):
    return network.add("n2")


def test_a_run_is_joined_over_ssh_and_stopped_on_both(
    laptop, box, dlmon_command, tmp_path, files, ended_with_test
):
    (tmp_path / "train.py").write_text(SCRIPT)
    script = [sys.executable, str(tmp_path / "train.py")]
    exec_ = [dlmon_command, "exec", "--plain", "--join", "vit"]
    there = {**os.environ, "HOME": str(box.home), "XDG_STATE_HOME": str(box.home / "state")}
    there |= {"SLURMD_NODENAME": "n2"}
    second = ended_with_test(
        Printing(files(), [*exec_, "--", *script, "1", "10000"], cwd=tmp_path, env=there)
    )
    joined = [*exec_, "--joined-by", "n2", "--log-dir", str(tmp_path / "here"), "--"]
    first = ended_with_test(
        Printing(files(), [*joined, *script, "0", "10000"], cwd=tmp_path, env=laptop.environment)
    )
    log = Log(the_log_in(tmp_path / "here"))
    eventually(lambda: len({one.number for one in log.records(Trainer)}) == 2, "both to train")
    eventually(lambda: log.records(Node), "the readings of the other machine")
    assert {node.host for node in log.records(Node)} == {"n2"}
    laptop.dlmon("stop", "--log-dir", str(tmp_path / "here"), "vit")
    for task in (first, second):
        task.exit_code()
    assert log.wait_for(Result).status == Status.STOPPED
    assert Log(the_log_in(box.log_dir)).wait_for(Result).status == Status.STOPPED


def test_a_machine_that_can_not_be_reached_is_said_before_anything_starts(laptop, tmp_path):
    ran = laptop.dlmon(
        *("exec", "--join", "vit", "--joined-by", "nowhere", "--log-dir", str(tmp_path / "here")),
        *("--", sys.executable, "-c", ""),
    )
    assert ran.returncode == NOT_STARTED
    assert "nowhere" in ran.stderr
    assert not (tmp_path / "here").exists()
    assert isinstance(ran, subprocess.CompletedProcess)
