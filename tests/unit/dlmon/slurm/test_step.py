import pytest

from dlmon.remote.host_names import HostError, check_host
from dlmon.remote.ssh import agent_command
from dlmon.slurm import step
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.queue import JobState, QueuedJob
from dlmon.slurm.step import job_node, logs_of_job, node_of, nodes_of_jobs


def queue_of(monkeypatch, *jobs):
    monkeypatch.setattr(step, "read_queue", lambda ids, mine: list(jobs))
    monkeypatch.setattr(step, "host_names", lambda listed: ["n1", "n2"])


def test_a_node_of_a_job_is_no_host_and_no_host_is_one():
    name = job_node("12_3", "n1.cluster")
    assert node_of(name) == ("12_3", "n1.cluster")
    with pytest.raises(HostError):
        check_host(name)
    for host in ("lab", "me@lab", "ssh://me@lab:22", "12/-x", "x/n1", "12/n1;rm"):
        assert node_of(host) is None


def test_it_is_reached_from_within_the_job():
    words = agent_command("12/n1")
    assert words[:3] == ["srun", "--jobid=12", "--overlap"]
    assert "--nodelist=n1" in words
    assert words[-3:-1] == ["python3", "-c"]


def test_the_nodes_of_the_jobs_that_run(monkeypatch):
    running = QueuedJob("12", JobState.RUNNING, node_list="n[1-2]")
    queue_of(monkeypatch, QueuedJob("11", JobState.PENDING), running)
    assert nodes_of_jobs() == ["12/n1", "12/n2"]


@pytest.mark.parametrize(
    ("asked", "jobs", "says"),
    [
        ([], [], "none of your jobs runs"),
        (["12"], [], "Slurm has no job 12"),
        (["12"], [QueuedJob("12", JobState.OUT_OF_MEMORY)], "does not run: it is out of memory"),
        (["12; rm"], [], "a job is named by its number"),
    ],
)
def test_why_there_is_no_node(monkeypatch, asked, jobs, says):
    queue_of(monkeypatch, *jobs)
    with pytest.raises(SlurmError, match=says):
        nodes_of_jobs(asked)


def test_what_a_job_records_on_a_node_is_found_by_its_processes_wherever_it_lies(tmp_path):
    job = {"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n1"}

    def runs(pid, command, opened, **environment):
        process = tmp_path / f"{pid}"
        (process / "fd").mkdir(parents=True)
        (process / "cmdline").write_bytes(b"\0".join(command))
        told = {**job, **environment}
        (process / "environ").write_bytes(b"\0".join(f"{k}={v}".encode() for k, v in told.items()))
        (process / "fd" / "3").symlink_to(opened)

    supervisor = (b"python", b"-P", b"-m", b"dlmon.supervisor")
    runs(1, supervisor, "/scratch/a/session.jsonl")
    runs(2, supervisor, "/scratch/b/part-1.jsonl")
    runs(3, supervisor, "/scratch/c/job.out")
    runs(4, supervisor, "/scratch/d/session.jsonl", SLURM_JOB_ID="13")
    runs(5, supervisor, "/scratch/e/session.jsonl", SLURMD_NODENAME="n2")
    runs(6, (b"dlmon", b"attach"), "/scratch/f/session.jsonl")
    (tmp_path / "7").mkdir()
    found = logs_of_job(job, tmp_path)
    assert [str(log) for log in found] == ["/scratch/a/session.jsonl", "/scratch/b/session.jsonl"]
    assert logs_of_job({}, tmp_path) == []
