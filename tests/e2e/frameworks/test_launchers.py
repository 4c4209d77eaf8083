"""`dlmon exec` of launchers: each process that trains is found, and the session is their sum."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.sessions import Printing
from fakes.sshd import free_port

from dlmon.log.directory import list_sessions
from dlmon.records import Batches, Model, Status, Trainer, decode

SCRIPTS = Path(__file__).parent / "scripts"
TIMEOUT_S = 240.0
MAIN = "from tui.start import main; main()"


@pytest.fixture
def execute(interpreter, tmp_path, shared_cache):
    """Return a function that runs a command beside the frameworks' Python under `dlmon exec`."""

    def run(*command):
        first, *rest = command
        words = [str(Path(interpreter).with_name(first)), *rest]
        logs = tmp_path / "logs"
        done = subprocess.run(
            [sys.executable, "-P", "-c", MAIN, "exec", "--plain", "--log-dir", logs, "--", *words],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": shared_cache},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        (entry,) = list_sessions(logs)
        return done, [decode(line) for line in entry.path.read_bytes().splitlines()]

    return run


def check(counted, records):
    """Compare what each rank counted itself with what was recorded."""
    assert {line["rank"] for line in counted} == {0, 1}
    trainers = [record for record in records if isinstance(record, Trainer) and not record.ended]
    # They are so quick that one may have ended before the other begins, under its number then.
    assert {trainer.rank for trainer in trainers} == {0, 1}
    assert {trainer.pid for trainer in trainers} == {line["pid"] for line in counted}
    assert {trainer.world_size for trainer in trainers} == {2}
    batches = [record for record in records if isinstance(record, Batches)]
    samples = sum(sum(record.counted) for record in batches)
    assert samples == sum(line["samples"] for line in counted)
    assert sum(record.count for record in batches) == sum(line["steps"] for line in counted)


def test_torchrun_with_a_rank_that_the_other_waits_for(execute):
    script = str(SCRIPTS / "data_parallel.py")
    done, records = execute("torchrun", "--nproc-per-node", "2", script, "fsdp", "1")
    assert "WAITING FOR RANK 1" in done.stderr
    assert re.search(r"it waited [\d.,]+ ms a step for data", done.stderr)
    check([json.loads(line) for line in done.stdout.splitlines()], records)
    # Each rank of FSDP holds a part of them.
    assert {record.parameters for record in records if isinstance(record, Model)} == {5}


def names_the_line_of_rank_1(errors):
    """Check that rank 1 is said to be slow in its own code, and where."""
    lines = (SCRIPTS / "data_parallel.py").read_text().splitlines()
    number = lines.index("            time.sleep(0.1)") + 1
    assert "WAITING FOR RANK 1" in errors
    assert "it worked " in errors or "rank 1 on " in errors
    said = " ".join(errors.split())
    assert "more in your code" in said
    assert f"take data_parallel.py:{number} out of the loop of rank 1" in said


@pytest.mark.costly
def test_a_rank_of_torchrun_that_is_slow_in_its_own_code_is_named_with_its_line(execute):
    script = str(SCRIPTS / "data_parallel.py")
    done, records = execute("torchrun", "--nproc-per-node", "2", script, "ddp", "1", "code")
    names_the_line_of_rank_1(done.stderr)
    check([json.loads(line) for line in done.stdout.splitlines()], records)
    assert {record.parameters for record in records if isinstance(record, Model)} == {5}


@pytest.mark.costly
def test_accelerate_launch(execute):
    done, records = execute(
        "accelerate", "launch", "--cpu", str(SCRIPTS / "loops.py"), "accelerated"
    )
    counted = json.loads(done.stdout.splitlines()[0])
    batches = [record for record in records if isinstance(record, Batches)]
    assert sum(sum(record.counted) for record in batches) == counted["samples"]


def test_ranks_on_two_machines_that_join_are_one_session_and_the_slow_one_is_named(
    interpreter, tmp_path, shared_cache, files, ended_with_test
):
    logs, script = tmp_path / "logs", str(SCRIPTS / "data_parallel.py")
    command = [sys.executable, "-P", "-c", MAIN, "exec", "--plain", "--log-dir", str(logs)]
    command += ["--join", "two", "--", interpreter, script, "ddp", "1", "code"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": shared_cache}
    # As torchrun does, which would import PyTorch once more.
    environment |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    nodes = [
        ended_with_test(
            Printing(
                files(),
                command,
                cwd=tmp_path,
                env={**environment, "RANK": str(rank), "SLURMD_NODENAME": f"n{rank}"},
            )
        )
        for rank in (0, 1)
    ]
    assert [node.exit_code() for node in nodes] == [0, 0], [node.stderr for node in nodes]
    counted = [json.loads(node.stdout) for node in nodes]
    assert [line["rank"] for line in counted] == [0, 1]
    (entry,) = list_sessions(logs)
    assert (entry.status, entry.label.name) == (Status.COMPLETED, "two")
    records = [decode(line) for line in entry.path.read_bytes().splitlines()]
    trainers = [record for record in records if isinstance(record, Trainer) and not record.ended]
    assert {record.rank for record in trainers} == {0, 1}
    # The first to come makes the session; the other one's process is of another host.
    assert [record.host for record in trainers if record.number] in (["n0"], ["n1"])
    samples = sum(sum(record.counted) for record in records if isinstance(record, Batches))
    assert samples == sum(line["samples"] for line in counted)
    # It is said once, where the first of them runs.
    [said] = [node.stderr for node in nodes if "recorded in" in node.stderr]
    names_the_line_of_rank_1(said)
