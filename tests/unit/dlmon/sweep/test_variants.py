"""What the values of a combination change in the command of a script."""

from __future__ import annotations

import os

import pytest

from dlmon.protocol.job import Job
from dlmon.sweep.plan import SweepError
from dlmon.sweep.variants import check_keys, varied_job

COMMAND = ("python", "train.py", "--workers", "{workers}", "--out=run-{workers}-{seed}")


def varied(values, command=COMMAND, directory="/repo", trees=None, repository=None):
    job = Job("train.py", command, {}, "/logs", script=True, directory=directory)
    return varied_job(job, values, repository, trees or {})


def test_a_name_in_braces_is_filled_wherever_it_stands():
    job = varied({"workers": 4, "seed": "1e-3"})
    assert job.command == ("python", "train.py", "--workers", "4", "--out=run-4-1e-3")


def test_other_braces_stay_as_they_are():
    job = varied({"env:N": 1}, command=("python", "-c", 'print({"a": 1}, f"{x}")'))
    assert job.command == ("python", "-c", 'print({"a": 1}, f"{x}")')


def test_an_environment_variable_and_an_interpreter():
    job = varied({"env:OMP_NUM_THREADS": 2, "python": "/opt/new/bin/python"}, COMMAND[:2])
    assert job.environment == {"OMP_NUM_THREADS": "2"}
    assert job.command == ("/opt/new/bin/python", "train.py")


def test_what_dlmon_sets_inside_the_script_is_part_of_the_job():
    assert varied({"set:num_workers": 4}, COMMAND[:2]).injected == {"num_workers": 4}


@pytest.mark.parametrize(
    ("keys", "command", "why"),
    [
        (["lr"], COMMAND[:2], "--vary lr= changes nothing: write {lr} in the command"),
        (["workers"], COMMAND, "the command has {seed}, and nothing varies it: --vary seed=A,B"),
        (["python"], ("torchrun", "train.py"), "torchrun and no Python"),
    ],
)
def test_a_key_that_says_nothing_to_the_command_is_refused(keys, command, why):
    with pytest.raises(SweepError) as refused:
        check_keys(command, keys)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("keys", "command"),
    [
        (["workers", "seed"], COMMAND),
        (["commit"], ("python", "-c", 'print(f"{x}")')),
        (["env:A", "set:num_workers"], COMMAND[:2]),
        (["python"], ("python3.12", "train.py")),
    ],
)
def test_a_key_that_says_something_is_taken(keys, command):
    check_keys(command, keys)


class TestACommit:
    @pytest.fixture
    def repository(self, tmp_path):
        for folder in ("repo/jobs", "repo/.venv/bin", "tree/jobs", "tree/src"):
            (tmp_path / folder).mkdir(parents=True)
        for file in ("repo/.venv/bin/python", "repo/jobs/train.py", "tree/jobs/train.py"):
            (tmp_path / file).touch()
        return tmp_path

    def run(self, root, command, directory="repo"):
        trees = {"main": root / "tree"}
        repository = str(root / "repo")
        return varied({"commit": "main"}, command, str(root / directory), trees, repository)

    def test_it_runs_in_the_same_folder_of_the_copy(self, repository):
        job = self.run(repository, ("python", "train.py"), "repo/jobs")
        assert job.directory == str(repository / "tree/jobs")
        assert job.command == ("python", "train.py")

    def test_the_modules_of_the_copy_come_first(self, repository, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", "/mine")
        path = self.run(repository, ("python", "train.py")).environment["PYTHONPATH"]
        folders = [str(repository / "tree/src"), str(repository / "tree"), "/mine"]
        assert path.split(os.pathsep) == folders

    def test_a_path_into_the_repository_leads_into_the_copy_if_it_has_the_file(self, repository):
        words = [str(repository / "repo" / name) for name in ("jobs/train.py", "data.bin")]
        job = self.run(repository, ("python", *words))
        assert job.command == ("python", str(repository / "tree/jobs/train.py"), words[1])

    def test_an_interpreter_that_git_ignores_stays_that_of_the_repository(self, repository):
        job = self.run(repository, (".venv/bin/python", "jobs/train.py"))
        assert job.command[0] == str(repository / "repo/.venv/bin/python")

    def test_the_tree_as_it_lies_changes_nothing(self, repository):
        trees = {"main": repository / "tree"}
        job = varied({"commit": "."}, ("python", "train.py"), trees=trees, repository="/repo")
        assert (job.directory, job.command) == ("/repo", ("python", "train.py"))
        assert "PYTHONPATH" not in job.environment


def test_an_injection_as_it_is_sets_nothing():
    assert varied({"set:num_workers": "as it is"}, COMMAND[:2]).injected == {}
