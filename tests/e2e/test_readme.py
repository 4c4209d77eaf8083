"""The commands in README.md run as they stand, but for those that need what no test has."""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.sessions import DEADLINE_S, eventually

from dlmon.log.directory import list_sessions
from dlmon.log.label import Label, write_label
from dlmon.records import Status

README = Path(__file__).parents[2] / "README.md"
LEFT_OUT = {
    "uv tool install": "tests/dist installs by each way",
    "pip install": "tests/dist installs by each way",
    "gpu1": "needs a machine that ssh reaches; test_remote.py has one",
    "https://": "needs a network; test_alerts.py has a server",
    "torchrun": "needs PyTorch; tests/e2e/frameworks has it",
    "dlmon run": "trains for minutes; test_keras_runs.py trains less",
    "dlmon sweep": "trains for an hour; test_sweeps.py trains less",
    "dlmon try": "takes minutes; tests/e2e/frameworks/test_tries.py takes less",
    "dlmon ab": "needs commits and minutes; tests/unit/dlmon/sweep has its parts",
}
"""Why the lines that have these words are not run here."""
SCRIPT = "import time\nimport dlmon\nfor _ in range(30):\n    dlmon.step()\n    time.sleep(0.01)\n"
LINES = [
    line.partition("#")[0].strip()
    for block in re.findall(r"(?ms)^```\n(.*?)^```", README.read_text())
    for line in block.splitlines()
]
RUN = [line for line in LINES if not any(words in line for words in LEFT_OUT)]


def test_each_reason_to_leave_a_command_out_is_that_of_one():
    assert [words for words in LEFT_OUT if not any(words in line for line in LINES)] == []
    assert len(RUN) >= 6


@pytest.fixture
def begin(dlmon_command, tmp_path):
    """Return a function that begins a command where a train.py is, with its own sessions."""
    (tmp_path / "train.py").write_text(SCRIPT)
    programs = f"{Path(dlmon_command).parent}{os.pathsep}{os.environ['PATH']}"
    processes = []

    def run(line):
        state = tmp_path / f"state-{len(processes)}"
        for name, step_us in (("base", 24_000), ("new", 15_000)):
            if "compare" in line:
                records = recorded_session(step_us=step_us, session_id=name)
                write_label(write_log(state / "dlmon" / "sessions", records, name), Label(name))
        process = subprocess.Popen(
            shlex.split(line),
            cwd=tmp_path,
            env={**os.environ, "PATH": programs, "XDG_STATE_HOME": str(state)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process, state / "dlmon" / "sessions"

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def test_the_commands_run_as_they_stand(begin):
    begun = [(line, *begin(line)) for line in RUN]
    for line, process, sessions in begun:
        if line == "dlmon watch":
            assert process.stdout.readline().strip()
            process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == (130 if line == "dlmon watch" else 0), (line, errors)
        assert "Traceback" not in errors
        if "dlmon exec" in line:
            repeats = re.search(r"--repeat (\d+)", line)
            count = int(repeats[1]) if repeats else 1
            eventually(
                lambda sessions=sessions, count=count: (
                    [entry.status for entry in list_sessions(sessions)]
                    == [Status.COMPLETED] * count
                ),
                f"{line}: the end of its runs",
            )
        if "compare" in line:
            assert "new is 1.600× as fast as base" in said
