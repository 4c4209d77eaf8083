"""Which code a script was: its file's hash, and the commit that git names."""

import hashlib
import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from dlmon.supervisor import script_source as sources

MODULE_ELSEWHERE = "the module elsewhere.fit is not in the directory of the run"
TEXT = b"print('trains')\n"
HASH = hashlib.sha256(TEXT).hexdigest()
OWN = {
    **os.environ,
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def script_source(command, directory):
    fields, why = sources.script_source(command, directory)
    return SimpleNamespace(**fields, why=why)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_bytes(TEXT)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__main__.py").write_bytes(TEXT)
    (tmp_path / "pkg" / "fit.py").write_bytes(TEXT)
    return tmp_path


def git(folder, *arguments):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(
        command, env=OWN, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(folder):
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py", "--lr", "1e-3"),
        ("torchrun", "--nproc-per-node", "2", "train.py"),
        ("python", "-m", "torch.distributed.run", "train.py", "other.py"),
        ("python", "-m", "pkg"),
        ("python", "-u", "-m", "pkg.fit", "--data", "x.csv"),
        ("python", "-m", "accelerate.commands.launch", "train.py"),
    ],
)
def test_the_hash_is_that_of_the_scripts_file(folder, command):
    assert script_source(command, str(folder)).script_sha256 == HASH


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("python", "-c", "print(1)"), "the command names no script"),
        (("/bin/sh", "-c", "true"), "the command names no script"),
        (("python", "-m"), "the command names no script"),
        (("./train", "-m", "../.."), "no such file or directory"),
        (("python", "-m", "elsewhere.fit", "small.py"), MODULE_ELSEWHERE),
        (("python", "\0.py"), "embedded null byte"),
        (("python", "\udc80" * 300 + ".py"), "file name too long"),
        (("python", "missing.py"), "no such file or directory"),
        (("python", "folder.py"), "it is a directory, not a regular file"),
        (("bash", "pipe.sh"), "it is a named pipe, not a regular file"),
    ],
)
def test_why_there_is_none_is_said(folder, command, why):
    (folder / "folder.py").mkdir()
    os.mkfifo(folder / "pipe.sh")
    source = script_source(command, str(folder))
    assert source.script_sha256 is None
    assert source.why["script_sha256"] == why


def test_without_git_there_is_no_commit(repository, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert script_source((), str(repository)).why["git_commit"] == "git is not installed"


def test_a_script_is_found_from_anywhere_with_its_commit_and_may_be_the_command(
    repository, tmp_path
):
    (repository / "train").write_bytes(b"#!/bin/sh\n" + TEXT)
    expected = hashlib.sha256(b"#!/bin/sh\n" + TEXT).hexdigest()
    assert script_source(("./train", "--lr", "1"), str(repository)).script_sha256 == expected
    source = script_source(("python", str(repository / "train.py")), "/")
    assert (source.script_sha256, source.git_commit) == (HASH, git(repository, "rev-parse", "HEAD"))


@pytest.mark.parametrize("content", [None, b"gitdir: /nowhere"])
def test_a_directory_without_a_repository_has_no_commit(folder, content):
    if content is not None:
        (folder / ".git").write_bytes(content)
    source = script_source((), str(folder))
    assert (source.git_commit, source.why["git_commit"]) == (None, "not in a git repository")


def test_an_interpreter_is_no_script_and_its_folder_not_where_the_code_lies(repository):
    python = repository.parent / f"{repository.name}-venv" / "python3.11"
    python.parent.mkdir()
    python.write_bytes(b"\x7fELF")
    source = script_source((str(python), "-c", "pass"), str(repository))
    assert source.why["script_sha256"] == "the command names no script"
    assert source.git_commit == git(repository, "rev-parse", "HEAD")


def test_the_commit_is_that_which_is_checked_out(repository):
    def found(folder=repository):
        return script_source((), str(folder)).git_commit

    head = git(repository, "rev-parse", "HEAD")
    assert found() == found(repository / "pkg") == head
    git(repository, "checkout", "-q", "--detach")
    assert found() == head
    worktree = repository.parent / f"{repository.name}-worktree"
    git(repository, "worktree", "add", "-q", "-b", "other", str(worktree))
    git(worktree, "commit", "-q", "--allow-empty", "-m", "second")
    assert found(worktree) == git(worktree, "rev-parse", "HEAD") != head


def test_a_repository_without_a_commit_has_none(folder):
    git(folder, "init", "-q")
    assert script_source((), str(folder)).why["git_commit"] == "nothing was committed yet"


def test_a_repository_runs_nothing_to_be_known(repository):
    git(repository, "config", "core.fsmonitor", f"touch {repository / 'ran'}; false")
    assert script_source((), str(repository)).git_commit
    assert not (repository / "ran").exists()


def place_of(folder):
    source = script_source(("python", "pkg/fit.py"), str(folder))
    return source.script_path, source.git_repository, source.git_path


def test_a_script_outside_a_repository_has_its_path_only_with_links_resolved(folder, tmp_path):
    (tmp_path / "link.py").symlink_to(folder / "pkg" / "fit.py")
    path = str((folder / "pkg" / "fit.py").resolve())
    assert place_of(folder) == (path, None, None)
    assert script_source(("python", "link.py"), str(tmp_path)).script_path == path
    assert script_source(("python", "-c", "pass"), str(tmp_path)).script_path is None


def test_a_repository_that_was_cloned_from_nowhere_is_known_by_its_path(repository):
    git(repository, "worktree", "add", "-q", "-b", "other", str(repository.parent / "tree"))
    _, name, path = place_of(repository)
    assert (name, path) == (str((repository / ".git").resolve()), "pkg/fit.py")
    assert place_of(repository.parent / "tree")[1:] == (name, path)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/ada/nets.git",
        "https://ada:secret@github.com/ada/nets",
        "ssh://git@github.com:22/ada/nets.git",
        "git@github.com:ada/nets.git",
    ],
)
def test_a_clone_is_known_by_where_it_came_from_without_a_password(repository, url):
    git(repository, "remote", "add", "upstream", "https://github.com/other/nets")
    git(repository, "remote", "add", "origin", url)
    assert place_of(repository)[1:] == ("github.com/ada/nets", "pkg/fit.py")


def test_a_clone_of_a_folder_is_known_by_that_folder_unless_it_is_a_relative_path(repository):
    git(repository, "remote", "add", "origin", "/srv/nets.git")
    assert place_of(repository)[1] == "/srv/nets.git"
    git(repository, "remote", "set-url", "origin", "../nets")
    assert place_of(repository)[1] == str((repository / ".git").resolve())
