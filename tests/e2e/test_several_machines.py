"""One run on several machines: each has its own log beside the session, which holds all of it."""

from __future__ import annotations

import os
import sys

import pytest
from fakes.sessions import Log, Printing, eventually, the_log_in

from dlmon.log.directory import read_entry
from dlmon.log.folder import STOP_NAME, part_name
from dlmon.protocol.stop import BY_OTHER_SCREEN
from dlmon.records import Batches, Epoch, Node, Result, Trainer

SCRIPT = """
import dlmon, os, pathlib, sys, time
number = int(os.environ["SLURM_PROCID"])
os.environ |= {"RANK": str(number), "WORLD_SIZE": "3"}
with dlmon.training(samples=640, batch_size=64, epochs=int(sys.argv[1])):
    for epoch in range(int(sys.argv[1])):
        for batch in range(10):
            time.sleep(0.02)
            dlmon.step()
        dlmon.epoch(loss=0.5)
        # They step together, as those of a real run do.
        pathlib.Path(f"{epoch}-{number}").touch()
        while not all(pathlib.Path(f"{epoch}-{other}").exists() for other in range(3)):
            time.sleep(0.005)
"""


@pytest.fixture
def start(dlmon_command, log_dir, tmp_path, files, ended_with_test):
    """Return a function that starts one of three tasks: as `srun` does on each node, or joined."""
    (tmp_path / "train.py").write_text(SCRIPT)

    def start_task(number, epochs, join=()):
        step = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3"}
        step = {} if join else step
        task = {"SLURM_PROCID": str(number), "SLURMD_NODENAME": f"n{number}"}
        command = [dlmon_command, "exec", "--plain", "--log-dir", str(log_dir), *join, "--"]
        command += [sys.executable, "train.py", str(epochs)]
        environment = {**os.environ, **step, **task}
        return ended_with_test(Printing(files(), command, cwd=tmp_path, env=environment))

    return start_task


def test_the_tasks_of_a_step_are_one_session_with_the_throughput_of_all(start, log_dir):
    # Those that come before the first wait for its session.
    others = [start(number, epochs=20) for number in (2, 1)]
    first = start(0, epochs=20)
    assert [each.exit_code() for each in (first, *others)] == [0, 0, 0]
    log = Log(the_log_in(log_dir))
    assert sorted(path.name for path in log_dir.glob("*/*.jsonl")) == [
        "part-1.jsonl",
        "part-2.jsonl",
        "session.jsonl",
    ]
    trainers = {one.number: (one.rank, one.host) for one in log.records(Trainer)}
    assert trainers == {0: (0, None), 1000: (1, "n1"), 2000: (2, "n2")}
    for number in trainers:
        own = [one for one in log.records(Batches) if (one.trainer or 0) == number]
        assert sum(one.count for one in own) == 200
        assert len([one for one in log.records(Epoch) if (one.trainer or 0) == number]) == 20
    assert {node.host for node in log.records(Node)} == {"n1", "n2"}
    (result,) = log.records(Result)
    # On a busy machine, one may be much slower than another.
    rates = []
    for number in trainers:
        own = [one for one in log.records(Batches) if (one.trainer or 0) == number]
        rates.append(64 * sum(one.count for one in own) / (sum(one.time_us for one in own) / 1e6))
    assert result.samples_per_second.mean == pytest.approx(sum(rates), rel=0.25)
    # It is said once, where the first of them runs.
    assert "3 processes on 3 machines" in first.stderr
    assert [each.stderr for each in others] == ["", ""]


@pytest.mark.parametrize("by", ["the command", "another machine", "the screen of a joined one"])
def test_a_session_that_is_asked_to_stop_stops_on_all_machines(start, log_dir, dlmon, by):
    join = ("--join", "night") if "joined" in by else ()
    tasks = [start(number, epochs=10_000, join=join) for number in range(3)]
    log = Log(the_log_in(log_dir))
    eventually(lambda: len({one.number for one in log.records(Trainer)}) == 3, "all to train")
    if by == "the command":
        stopped = dlmon("stop", "--log-dir", str(log_dir), "last")
        assert stopped.returncode == 0, stopped.stderr
    elif join:
        os.kill(read_entry(log.path.with_name(part_name(1))).pid, BY_OTHER_SCREEN)
    else:
        (log.path.parent / STOP_NAME).touch()
    for task in tasks:
        task.exit_code()
    assert log.wait_for(Result).status == "stopped"
    parts = [Log(path) for path in log_dir.glob("*/part-*.jsonl")]
    assert [part.records(Result)[0].status for part in parts] == ["stopped", "stopped"]
