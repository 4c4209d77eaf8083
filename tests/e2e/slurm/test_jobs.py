"""`dlmon exec --slurm` and `dlmon run --slurm`, with a real Slurm: whatever becomes of the job."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest
from fakes.sessions import Log, Printing, eventually
from fakes.sshd import lacks_sshd

from dlmon.log.directory import list_sessions
from dlmon.log.submitted import read_submitted
from dlmon.records import Batches, Epoch, Notice, Output, Status, StopCause, Trainer, decode

LOOP = """
import dlmon, os, signal, sys, time
if "saves" in sys.argv:
    def save(*_):
        print("saved", flush=True)
        os._exit(0)
    signal.signal(signal.SIGTERM, save)
if "own" in sys.argv:
    signal.signal(signal.SIGUSR1, lambda *_: print("warned", flush=True))
epochs = int(sys.argv[1])
with dlmon.training(samples=640, batch_size=64, epochs=epochs, network="mine"):
    for epoch in range(epochs):
        for batch in range(10):
            time.sleep(0.02)
            dlmon.step()
        dlmon.epoch(loss=1 / (epoch + 1))
print("trained on", os.environ.get("SLURMD_NODENAME"))
"""
FOR_EVER = "100000"


def can_mount():
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture
def folder(slurm, tmp_path, monkeypatch, shared_cache):
    monkeypatch.setenv("XDG_CACHE_HOME", shared_cache)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "XDG_STATE_HOME"))
    (tmp_path / "train.py").write_text(LOOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sessions(folder):
    """Return what reads all sessions, oldest first."""
    return lambda: list_sessions(folder / "XDG_STATE_HOME" / "dlmon" / "sessions")


@pytest.fixture
def execute(folder, files, dlmon_command, ended_with_test):
    """Return a function that starts `dlmon exec --slurm`, which ends with the test."""

    def begin(options, *arguments, more=()):
        command = [dlmon_command, "exec", "--plain", "--slurm", options, *more, "--"]
        words = [*command, sys.executable, "train.py", *arguments]
        return ended_with_test(Printing(files(), words))

    return begin


def records_of(entry):
    return [decode(line) for line in entry.path.read_bytes().splitlines()]


def job_of(entry):
    return read_submitted(entry.path).slurm_job


def test_a_script_runs_on_a_node_and_its_lines_are_shown(execute, sessions):
    viewer = execute("-c2 --gres=gpu:1 -t 10", "3", more=["--verbose"])
    assert viewer.exit_code() == 0, viewer.stderr
    assert "epoch 3/3 took" in viewer.stdout
    [entry] = sessions()
    assert entry.status == Status.COMPLETED
    job = entry.header.slurm
    assert (job.job, job.partition, job.node_list) == (job_of(entry), "main", "n1")
    assert (job.cpus, job.memory_mib, job.gpus, job.time_limit_s) == (2, 200, 1, 600)
    assert "asked for" in viewer.stdout
    assert "would have fitted  #SBATCH --cpus-per-task=" in viewer.stdout
    assert "trained on n1" in [r.text for r in records_of(entry) if isinstance(r, Output)]
    names = {path.name: path.stat().st_mode & 0o777 for path in entry.path.parent.iterdir()}
    assert names["job.json"] == names["session.jsonl"] == 0o600
    assert {"job.sh", "job.out"} <= set(names)


def test_the_exit_code_is_that_of_the_script_also_for_slurm(slurm, execute, sessions):
    viewer = execute("-t 10", "none")
    assert viewer.exit_code() == 1
    assert "train.py failed" in viewer.stderr
    [entry] = sessions()
    eventually(lambda: slurm.state_of(job_of(entry)) == "FAILED", "the job to fail")


def test_what_slurm_refuses_is_said_with_its_reason_and_leaves_nothing(execute, folder, sessions):
    viewer = execute("-p nowhere", "1")
    assert viewer.exit_code() == 125
    assert viewer.stderr == (
        "dlmon: Slurm refused it: invalid partition specified: nowhere; Invalid partition name "
        "specified\n"
    )
    assert sessions() == []
    for options, why in {
        "--gres=gpu:99": "Requested node configuration is not available",
        "-t soon": "Invalid --time specification",
        "--frob": "unrecognized option '--frob'",
    }.items():
        viewer = execute(options, "1")
        assert viewer.exit_code() == 125
        assert why in viewer.stderr
    assert sessions() == []


def test_a_job_that_never_starts_says_why_and_can_be_left_and_taken_out(
    slurm, execute, sessions, dlmon
):
    viewer = execute("-p down", "1")
    viewer.wait_for_line("is queued (PartitionDown)")
    viewer.process.send_signal(signal.SIGINT)
    assert viewer.exit_code() == 130
    assert "it stays in the queue" in viewer.stderr
    [entry] = sessions()
    assert entry.status == Status.QUEUED
    assert entry.header.command[1:] == ("train.py", "1")
    [listed] = json.loads(dlmon("sessions", "--json").stdout)
    assert (listed["status"], listed["result"]) == ("queued", None)
    stopped = dlmon("stop", "last")
    assert f"job {job_of(entry)} is out of the queue" in stopped.stdout
    eventually(lambda: slurm.state_of(job_of(entry)) == "CANCELLED", "the job to be cancelled")
    attached = dlmon("attach", "--plain", "last")
    assert attached.returncode == 1
    assert "was cancelled before the session began" in attached.stderr
    [listed] = json.loads(dlmon("sessions", "--json").stdout)
    assert listed["status"] == "interrupted"


def test_stop_asks_the_supervisor(slurm, execute, sessions, dlmon):
    viewer = execute("-t 10", FOR_EVER)
    viewer.wait_for_line("epoch 2/")
    assert dlmon("stop", "last").returncode == 0
    viewer.exit_code()
    [entry] = sessions()
    assert (entry.status, entry.result.stopped_by) == (Status.STOPPED, StopCause.COMMAND)
    assert entry.result.epochs >= 2
    eventually(lambda: slurm.state_of(job_of(entry)) == "FAILED", "the job to be over")


def test_a_viewer_that_is_closed_leaves_the_job_and_another_attaches(execute, sessions, dlmon):
    viewer = execute("-t 10", "40", more=["--name", "base"])
    viewer.wait_for_line("epoch 2/")
    viewer.process.send_signal(signal.SIGINT)
    assert viewer.exit_code() == 130
    attached = dlmon("attach", "--plain", "base")
    assert attached.returncode == 0
    assert "epoch 40/40 took" in attached.stdout
    assert [entry.status for entry in sessions()] == [Status.COMPLETED]


def test_a_job_may_be_left_from_its_start(execute, sessions):
    viewer = execute("-t 10", "2", more=["--detach"])
    assert viewer.exit_code() == 0
    assert "is in Slurm's queue; dlmon attach" in viewer.stdout
    eventually(lambda: [e.status for e in sessions()] == [Status.COMPLETED], "it to be over")


def test_scancel_leaves_a_whole_result_that_says_so(slurm, execute, sessions):
    viewer = execute("-t 10", FOR_EVER)
    viewer.wait_for_line("epoch 2/")
    slurm.run("scancel", job_of(sessions()[0]))
    viewer.exit_code()
    assert "stopped: its job was cancelled" in viewer.stdout
    [entry] = sessions()
    assert (entry.status, entry.result.stopped_by) == (Status.STOPPED, StopCause.CANCELLED)
    assert not any("sensors" in r.text for r in records_of(entry) if isinstance(r, Notice))


def test_near_its_time_limit_a_script_may_save_its_state(execute, sessions):
    # A warning may come a minute early, so it comes at once.
    viewer = execute("-t 1", FOR_EVER, "saves")
    assert viewer.exit_code() == 0
    [entry] = sessions()
    assert (entry.status, entry.result.stopped_by) == (Status.STOPPED, StopCause.TIME_LIMIT)
    assert "saved" in [r.text for r in records_of(entry) if isinstance(r, Output)]


def test_a_signal_that_the_script_handles_itself_is_passed_on(slurm, execute, sessions, dlmon):
    viewer = execute("-t 10 --signal=B:USR1@5", FOR_EVER, "own")
    viewer.wait_for_line("epoch 2/")
    slurm.run("scancel", "--batch", "--signal=USR1", job_of(sessions()[0]))

    def is_warned():
        outputs = [r for r in records_of(sessions()[0]) if isinstance(r, Output)]
        return "warned" in [output.text for output in outputs]

    eventually(is_warned, "the script to hear of it")
    assert sessions()[0].status == Status.RUNNING
    dlmon("stop", "last")
    viewer.exit_code()


def test_what_is_preempted_says_so_and_waits_for_its_next_start(slurm, execute, sessions):
    viewer = execute("-N2 --exclusive -t 10", FOR_EVER)
    viewer.wait_for_line("epoch 2/")
    urgent = slurm.run(
        "sbatch",
        "--parsable",
        "-p",
        "urgent",
        "-N2",
        "--exclusive",
        "-o/dev/null",
        "--wrap",
        "sleep 99",
    ).strip()
    viewer.wait_for_line("stopped: Slurm gave its place to another job")
    first = sessions()[0]
    assert first.result.stopped_by == StopCause.PREEMPTED
    viewer.wait_for_line("is queued (")
    slurm.run("scancel", urgent)
    second = eventually(lambda: sessions()[1:], "its second start")[0]
    assert second.header.id == f"{first.header.id}-r1"


def test_a_node_that_is_lost_is_named(slurm, execute, sessions, dlmon):
    viewer = execute("-w n2 --no-requeue -t 10", FOR_EVER)
    viewer.wait_for_line("epoch 2/")
    slurm.kill_node("n2")
    assert viewer.exit_code() == 124
    assert "lost its node (n2)" in viewer.stderr
    assert [entry.status for entry in sessions()] == [Status.INTERRUPTED]


@pytest.mark.skipif(os.geteuid() != 0 or not can_mount(), reason="nothing can be mounted here")
def test_what_a_node_records_on_a_disk_of_its_own_is_copied_from_it(
    slurm, execute, folder, sessions
):
    (folder / "XDG_STATE_HOME").mkdir()
    show = slurm.hide("n2", folder / "XDG_STATE_HOME")
    try:
        viewer = execute("-w n2 -t 10", "40")
        assert viewer.exit_code() == 0, viewer.stderr
        assert "epoch 40/40 took" in viewer.stdout
        [entry] = sessions()
        assert (entry.status, entry.result.epochs) == (Status.COMPLETED, 40)
        assert read_submitted(entry.path).on_node == "n2"
    finally:
        show()


def test_a_workload_runs_in_slurm(folder, sessions, dlmon, without_keras):
    done = dlmon(
        "run",
        "mnist-mlp-small",
        "--python",
        without_keras,
        "--epochs",
        "1",
        "--steps",
        "20",
        "--plain",
        "--data",
        "synthetic",
        "--device",
        "cpu",
        "--slurm",
        "-c2 -t 10",
    )
    assert done.returncode == 0, done.stderr
    [entry] = sessions()
    assert (entry.status, entry.result.epochs) == (Status.COMPLETED, 1)
    assert entry.header.slurm.cpus == 2


def test_without_slurm_that_is_said(folder, dlmon, sessions):
    path = folder / "bin"
    path.mkdir()
    (path / "python3").symlink_to(sys.executable)
    done = dlmon("exec", "--slurm", "", "--", "true", environment={"PATH": str(path)})
    assert done.returncode == 125
    assert "there is no Slurm here" in done.stderr
    assert sessions() == []


def test_the_nodes_of_a_job_are_watched_from_within_it(slurm, folder, dlmon_command, dlmon):
    job = slurm.run(
        *("sbatch", "--parsable", "-N2", "-t10", "-o/dev/null", "--wrap", "sleep 300")
    ).strip()
    eventually(lambda: slurm.state_of(job) == "RUNNING", "the job to run")
    watching = Printing(folder / "watch", [dlmon_command, "watch", "--job", job, "--json"])
    try:
        for node in ("n1", "n2"):
            watching.wait_for_line(f'"host":"{job}/{node}"')
    finally:
        watching.process.send_signal(signal.SIGINT)
        assert watching.exit_code() == 130, watching.stderr
    all_mine = Printing(folder / "all", [dlmon_command, "watch", "--jobs", "--plain"])
    all_mine.wait_for_line(f"{job}/n2")
    slurm.run("scancel", job)
    assert all_mine.exit_code() == 0
    assert all(
        f"dlmon: {job}/{node}: job {job} has ended" in all_mine.stderr for node in ("n1", "n2")
    )
    refused = dlmon("watch", "--jobs", "--plain")
    assert (refused.returncode, "none of your jobs runs" in refused.stderr) == (2, True)


def test_a_script_of_ones_own_that_runs_dlmon_knows_its_job(slurm, folder, sessions, dlmon_command):
    words = [dlmon_command, "exec", "--plain", "--", sys.executable, "train.py", FOR_EVER]
    job = slurm.run(
        "sbatch", "--parsable", "-t10", "-oown.out", "--wrap", shlex.join(words)
    ).strip()
    log = Log(eventually(sessions, "its session")[0].path)
    log.wait_for(Epoch)
    slurm.run("scancel", job)
    result = log.wait_for_end()
    assert (result.status, result.stopped_by) == (Status.STOPPED, StopCause.CANCELLED)
    assert log.header.slurm.job == job


def test_a_script_on_two_nodes_is_one_session(execute, sessions):
    viewer = execute("-N2 -t 10", "30", more=["--verbose"])
    assert viewer.exit_code() == 0, viewer.stderr
    assert "2 processes on 2 machines" in viewer.stdout
    assert "2 CPUs, used " in viewer.stdout
    [entry] = sessions()
    assert entry.status == Status.COMPLETED
    assert entry.path.with_name("part-1.jsonl").exists()
    assert entry.header.slurm.nodes == 2
    log = Log(entry.path)
    assert {one.host for one in log.records(Trainer)} == {None, "n2"}
    for number in (0, 1000):
        steps = [one.count for one in log.records(Batches) if (one.trainer or 0) == number]
        assert sum(steps) == 30 * 10


@pytest.fixture
def login(network, slurm, tmp_path):
    """A login node that ssh reaches, with a home that its nodes see too."""
    host = network.add(f"login-{tmp_path.name}", environment=slurm.environment)
    (host.home / "train.py").write_text(LOOP)
    yield host
    host.stop()


@pytest.mark.skipif(lacks_sshd() is not None, reason=str(lacks_sshd()))
def test_a_login_node_over_ssh_submits_it_and_it_is_followed_stopped_and_queued_again_from_here(
    slurm, login, laptop, tmp_path
):
    words = ["--host", login.name, "--slurm", "-c1 -t 10", "--plain", "--", sys.executable]
    command = [laptop.command, "exec", *words, "train.py", "30"]
    viewer = Printing(tmp_path / "viewer", command, env=laptop.environment)
    viewer.wait_for_line("epoch 2/")
    [entry] = list_sessions(login.log_dir)
    slurm.run("scontrol", "requeue", job_of(entry))
    assert viewer.exit_code() == 0, viewer.stdout + viewer.stderr
    assert "stopped: Slurm put it back into the queue" in viewer.stdout
    assert "epoch 30/30 took" in viewer.stdout
    first, second = list_sessions(login.log_dir)
    assert (first.status, first.result.stopped_by) == (Status.STOPPED, StopCause.REQUEUED)
    assert (second.header.id, second.status) == (f"{first.header.id}-r1", Status.COMPLETED)
    assert second.result.epochs == 30
    assert job_of(first) == job_of(second)

    refused = laptop.dlmon("exec", "--host", login.name, "--slurm", "-p nowhere", "--", "true")
    assert refused.returncode == 125
    assert f"{login.name}: Slurm refused it: invalid partition specified" in refused.stderr
    where = ["--host", login.name]
    left = laptop.dlmon("exec", *where, "--detach", "--slurm", "-p down", "--", "true")
    assert f"is in Slurm's queue on {login.name}; dlmon attach --host" in left.stdout
    listed = json.loads(laptop.dlmon("sessions", "--json", *where).stdout)
    assert [each["status"] for each in listed] == ["stopped", "completed", "queued"]
    attached = Printing(
        tmp_path / "attached",
        [laptop.command, "attach", "--plain", *where, "last"],
        env=laptop.environment,
    )
    attached.wait_for_line("is queued (PartitionDown)")
    assert "is out of the queue" in laptop.dlmon("stop", *where, "last").stdout
    assert attached.exit_code() == 1
    assert "was cancelled before the session began" in attached.stderr
