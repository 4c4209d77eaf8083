"""A Mac, as far as a Linux can be made to look like one (tests/fakes/mac)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.sessions import Log, Printing, eventually, the_log_in

from dlmon.records import Batches, Machine, Notice, Result

MAC = Path(__file__).parents[1] / "fakes" / "mac"
SCRIPT = """
import dlmon, time
with dlmon.training(samples=640, batch_size=64, epochs=1000):
    for batch in range(10_000):
        time.sleep(0.05)
        dlmon.step()
"""


@pytest.fixture
def mac(tmp_path):
    """Return the environment of a Mac."""
    # A socket's path has up to 103 bytes there.
    return {**os.environ, "PYTHONPATH": str(MAC), "TMPDIR": "/tmp"}


def test_a_script_is_run_asked_and_stopped(
    mac, dlmon_command, log_dir, tmp_path, files, ended_with_test
):
    (tmp_path / "train.py").write_text(SCRIPT)
    where = ["--log-dir", str(log_dir)]
    command = [dlmon_command, "exec", "--plain", *where, "--", sys.executable, "train.py"]
    script = ended_with_test(Printing(files(), command, cwd=tmp_path, env=mac))

    def ask(*words):
        done = subprocess.run(
            [dlmon_command, words[0], *where, *words[1:]], env=mac, capture_output=True, text=True
        )
        return done.stdout + done.stderr

    log = Log(the_log_in(log_dir))
    eventually(lambda: len(log.records(Machine)) > 1 and log.records(Batches), "two samples")
    # Its lock is seen, and its socket is found.
    assert "running" in ask("sessions")
    assert "train.py:5" in ask("stack", "last")
    assert "stopping" in ask("stop", "last")
    assert script.exit_code() == 130, script.stderr
    assert log.wait_for(Result).status == "stopped"
    header, samples = log.header, log.records(Machine)
    assert header.machine.cores
    assert header.machine.memory_mib
    assert header.machine.why["gpus"] == "dlmon reads no GPU of a Mac"
    assert samples[0].cpu.pct is not None
    assert any(sample.process and sample.process.rss_mib for sample in samples)
    assert [notice.text for notice in log.records(Notice)] == ["stopping: asked with dlmon stop"]


def test_the_machine_is_watched(mac, dlmon_command, files, ended_with_test):
    command = [dlmon_command, "watch", "--json"]
    watch = ended_with_test(Printing(files(), command, env=mac))
    eventually(lambda: watch.stdout.count("\n") > 1, "two samples")
    sample = json.loads(watch.stdout.splitlines()[1])
    assert sample["cpu"]["pct"] is not None
    assert sample["memory"]["used_mib"]
    assert sample["disk"]["read_mib_s"] is not None
    assert sample["network"]["receive_mib_s"] is not None
    assert any(row["command"] and row["user"] for row in sample["processes"])
    assert "sensors ended" not in watch.stderr
