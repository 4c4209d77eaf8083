"""`dlmon ab` and `dlmon sweep -- COMMAND` with real processes and the real git."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from fakes.sessions import eventually

from dlmon.records import Status
from dlmon.sweep.log import list_sweeps

ROOT = Path(__file__).parents[2]
DLMON = [sys.executable, "-P", "-c", "from tui.start import main; main()"]
SCRIPT = """
import os, sys, time
import dlmon
step_s = STEP_S * float(os.environ.get("SLOWER", "1"))
with dlmon.training(samples=100_000, batch_size=10, epochs=1):
    for _ in range(10_000):
        time.sleep(step_s)
        dlmon.step()
"""
QUICK = ("--window", "1s", "--to", "50%", "--plain")
BY_SECONDS = 120


@pytest.fixture
def repository(tmp_path):
    """A repository whose second commit makes each step three times as long."""
    folder = tmp_path / "repo"
    folder.mkdir()

    def git(*words):
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for step_s in ("0.010", "0.030"):
        (folder / "train.py").write_text(SCRIPT.replace("STEP_S", step_s))
        git("add", "-A")
        git("commit", "-qm", step_s)
    return folder


@pytest.fixture
def dlmon(tmp_path, repository):
    """Return a function that starts a command in the repository."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    started = []

    def start(*words):
        command = [*DLMON, *words]
        at = command.index("--") if "--" in command else len(command)
        command[at:at] = ["--log-dir", str(tmp_path / "logs")]
        started.append(
            subprocess.Popen(
                command,
                cwd=repository,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def copies(repository):
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=repository, check=True, capture_output=True, text=True
    )
    return listed.stdout.splitlines()[1:]


def processes_in(folder):
    """Return the processes whose command names a script in a folder."""
    return [p for p in psutil.process_iter(["cmdline", "cwd"]) if str(folder) in f"{p.info['cwd']}"]


def line_with(part, process):
    """Return the next line that holds a text; fail with all that was said if none does."""
    said = []
    for line in iter(process.stdout.readline, ""):
        said.append(line)
        if part in line:
            return line
    raise AssertionError("".join([*said, process.stderr.read()]))


def test_a_slower_commit_is_found_and_ctrl_c_leaves_no_copy_and_no_process(
    dlmon, repository, tmp_path
):
    process = dlmon("ab", "main~1", "main", *QUICK, "--", sys.executable, "train.py")
    verdict = line_with("; 1 pair", process)
    assert re.search(r"main is [23]\.\d+× as slow as main~1; 1 pair, which proves no", verdict)
    eventually(lambda: processes_in(tmp_path / "logs"), "a run in the copy of a commit")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=BY_SECONDS)
    assert process.returncode == 130
    assert "main changes 1 file; the script imports 1: train.py" in stdout
    assert "dlmon sweep --resume" in stderr
    assert copies(repository) == []
    assert list((tmp_path / "logs").glob("*/commit-*")) == []
    eventually(lambda: not processes_in(tmp_path / "logs"), "the run to end")


def test_under_a_launcher_the_runs_of_a_pair_are_never_suspended(dlmon, repository, tmp_path):
    launcher = repository / "torchrun"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    launcher.chmod(0o755)
    process = dlmon("ab", "--vary", "env:SLOWER=1,3", *QUICK, "--", "./torchrun", "train.py")
    # On a busy machine, the first pair may be set aside.
    line_with("SLOWER 3 is", process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=BY_SECONDS)
    assert "come one after the other: torchrun would time out" in stderr
    logs = [path.read_text() for path in (tmp_path / "logs").glob("*/session.jsonl")]
    assert len(logs) >= 4
    assert not any('"type":"suspended"' in log for log in logs)


def test_a_side_that_fails_ends_it_with_its_last_lines(dlmon, repository, tmp_path):
    command = ("--vary", "file=train.py,nothing.py", *QUICK)
    process = dlmon("ab", *command, "--", sys.executable, "{file}")
    stdout, stderr = process.communicate(timeout=BY_SECONDS)
    assert "file nothing.py failed" in stdout
    assert "can't open file" in stderr
    assert "--resume" not in stderr
    (entry,) = list_sweeps(tmp_path / "logs")
    assert entry.status == Status.FAILED


def test_a_side_that_hangs_ends_it_once_its_time_is_over(dlmon, repository):
    (repository / "hang.py").write_text("import time\ntime.sleep(3600)\n")
    command = ("--vary", "env:SIDE=1,2", "--window", "1s", "--for", "5s")
    process = dlmon("ab", *command, "--", sys.executable, "hang.py")
    stdout, _ = process.communicate(timeout=BY_SECONDS)
    assert "it did not train steadily within the time of the experiment" in stdout
    assert process.returncode == 1
    assert not [p for p in processes_in(repository) if "hang.py" in f"{p.info['cmdline']}"]


def test_a_script_is_swept_over_a_variable(dlmon):
    process = dlmon(
        "sweep",
        "--vary",
        "env:SLOWER=0.1,0.2",
        "--json",
        "--",
        sys.executable,
        "-c",
        SCRIPT.replace("STEP_S", "0.01").replace("10_000", "1_500"),
    )
    stdout, _ = process.communicate(timeout=BY_SECONDS)
    rows = json.loads(stdout)["rows"]
    assert [row["options"]["env:SLOWER"] for row in rows] == [0.1, 0.2]
    assert [row["status"] for row in rows] == ["completed"] * 2
    assert rows[0]["samples_per_second"] > rows[1]["samples_per_second"]
