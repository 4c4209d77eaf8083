import json
import stat

import pytest
from fakes.submitted import submit

from dlmon.log.folder import LogError
from dlmon.log.label import read_label
from dlmon.log.submitted import read_submitted
from dlmon.protocol.job import Job
from dlmon.slurm import submit_session as start
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.submit import read_slurm_options
from dlmon.slurm.submit_session import submit_array, submit_session, submitted_job


@pytest.fixture
def handed_in(monkeypatch):
    """Let Slurm take what is submitted, and return that."""
    taken = []

    def take(script, directory):
        taken.append(
            (script.read_text(), directory, read_submitted(script.parent / "session.jsonl"))
        )
        return "12"

    monkeypatch.setattr(start, "has_slurm", lambda: True)
    monkeypatch.setattr(start, "submit", take)
    return taken


def job_in(folder, **fields):
    known = {"options": {"interval": 1.0}, "script": True, "directory": "/work", **fields}
    return Job("train.py", ("python", "train.py"), log_dir=str(folder), **known)


def test_what_is_submitted_is_in_the_folder_before_the_job_may_start(tmp_path, handed_in):
    text = "-p gpu -t 2:00:00 --signal=B:USR1@60"
    log = submit_session(job_in(tmp_path, name="base"), read_slurm_options(text), text)
    [(script, directory, before)] = handed_in
    assert directory == "/work"
    assert f"dlmon.supervisor --submitted {log.parent}" in script
    assert before.slurm_job is None
    submitted = read_submitted(log)
    assert (submitted.slurm_job, submitted.options) == ("12", text)
    assert submitted.time_limit_s == 7200
    assert read_label(log).name == "base"
    job = submitted_job(log.parent, {"SLURM_JOB_ID": "12"})
    assert (job.session, job.command) == (log.parent.name, ("python", "train.py"))
    assert (job.log_dir, job.own_signal, job.outlives_viewer) == (str(tmp_path), "USR1", True)


def test_the_folder_and_what_it_holds_are_its_owner_s(tmp_path, handed_in):
    log = submit_session(job_in(tmp_path), read_slurm_options(""), "")
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(log.with_name("job.json").stat().st_mode) == 0o600


def test_what_is_refused_leaves_nothing(tmp_path, monkeypatch, handed_in):
    def refuse(script, directory):
        raise SlurmError("no such partition")

    monkeypatch.setattr(start, "submit", refuse)
    with pytest.raises(SlurmError):
        submit_session(job_in(tmp_path / "logs"), read_slurm_options(""), "")
    assert list((tmp_path / "logs").iterdir()) == []


def test_a_log_directory_that_can_not_be_written_is_said(tmp_path, handed_in):
    (tmp_path / "file").touch()
    with pytest.raises(LogError, match="choose another with --log-dir"):
        submit_session(job_in(tmp_path / "file"), read_slurm_options(""), "")


def test_where_the_job_sees_no_folder_it_says_what_to_do(tmp_path):
    with pytest.raises(LogError, match="is not there: choose with --log-dir"):
        submitted_job(tmp_path / "gone", {})
    with pytest.raises(LogError, match="holds nothing that was submitted"):
        submitted_job(tmp_path, {})


def test_a_node_that_does_not_see_the_folder_makes_it_of_what_the_job_s_script_holds(tmp_path):
    log = submit(tmp_path / "login", slurm_job=None)
    text = log.with_name("job.json").read_text()
    folder = tmp_path / "node" / log.parent.name
    job = submitted_job(folder, {"SLURM_JOB_ID": "12"}, lambda: text)
    assert (job.session, job.log_dir) == (folder.name, str(folder.parent))
    assert read_submitted(folder / "session.jsonl").slurm_job == "12"


def test_what_another_version_submitted_is_said(tmp_path):
    log = submit(tmp_path)
    made = json.loads(log.with_name("job.json").read_text())
    made["job"]["colour"] = "red"
    log.with_name("job.json").write_text(json.dumps(made))
    with pytest.raises(LogError, match="another version of dlmon"):
        submitted_job(log.parent, {})


def test_each_new_start_has_a_session_of_its_own(tmp_path):
    log = submit(tmp_path)
    log.write_text("what the first start recorded")
    environment = {"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "2"}
    job = submitted_job(log.parent, environment)
    again = tmp_path / f"{log.parent.name}-r2" / "session.jsonl"
    assert job.session == again.parent.name
    submitted = read_submitted(again)
    assert (submitted.restart, submitted.slurm_job) == (2, "12")
    assert log.read_text() == "what the first start recorded"


def test_each_task_of_an_array_has_a_session_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "has_slurm", lambda: True)
    monkeypatch.setattr(start, "submit", lambda script: "7")
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    jobs = [job_in(tmp_path / "logs") for _ in range(300)]
    logs = submit_array(jobs, read_slurm_options(""), "", 4, sweep)
    assert len({log.parent.name for log in logs}) == 300
    assert [read_submitted(log).slurm_job for log in logs] == [f"7_{n}" for n in range(300)]
    [tasks] = [path for path in sweep.iterdir() if path.suffix != ".sh"]
    assert tasks.read_text().splitlines() == [str(log.parent) for log in logs]
    [script] = sweep.glob("*.sh")
    assert "#SBATCH --array=0-299%4\n" in script.read_text()


def test_an_array_that_is_refused_leaves_no_session(tmp_path, monkeypatch):
    def refuse(script):
        raise SlurmError("no such partition")

    monkeypatch.setattr(start, "has_slurm", lambda: True)
    monkeypatch.setattr(start, "submit", refuse)
    with pytest.raises(SlurmError):
        submit_array([job_in(tmp_path / "logs")], read_slurm_options(""), "", None, tmp_path)
    assert list((tmp_path / "logs").iterdir()) == []
