"""Copies of commits: made by the real git, and gone afterwards."""

from __future__ import annotations

import subprocess

import pytest

from dlmon.sweep import commit_trees
from dlmon.sweep.commit_trees import (
    commit_of,
    has_uncommitted_changes,
    leftover_trees,
    linked_paths,
    make_trees,
    remove_trees,
    repository_of,
)
from dlmon.sweep.plan import SweepError
from dlmon.system.git import GitError


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repo"
    (folder / "data").mkdir(parents=True)

    def git(*words):
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("data\n")
    (folder / "train.py").write_text("print(1)\n")
    (folder / "src").mkdir()
    (folder / "src" / "model.py").touch()
    git("add", "-A")
    git("commit", "-qm", "one")
    (folder / "train.py").write_text("print(2)\n")
    git("commit", "-qam", "two")
    (folder / "data" / "samples.bin").write_bytes(b"x")
    hook = folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hook-ran\n")
    hook.chmod(0o755)
    return folder


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sweep").mkdir()
    return tmp_path / "sweep"


def commits(repository, *names):
    return {name: commit_of(repository, name) for name in names}


def known_to_git(repository):
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=repository, check=True, capture_output=True, text=True
    )
    return len(listed.stdout.splitlines()) - 1


def test_each_commit_has_a_folder_and_none_is_left(repository, folder):
    trees = make_trees(repository, folder, commits(repository, "HEAD~1", "main"))
    assert sorted(trees) == ["HEAD~1", "main"]
    assert (trees["HEAD~1"] / "train.py").read_text() == "print(1)\n"
    assert (trees["main"] / "train.py").read_text() == "print(2)\n"
    assert not (trees["main"] / "hook-ran").exists()
    remove_trees(repository, trees)
    assert list(folder.iterdir()) == []
    assert known_to_git(repository) == 0


def test_what_git_ignores_is_seen_in_each_copy_if_it_is_linked(repository, folder):
    trees = make_trees(repository, folder, commits(repository, "main"), links=["data"])
    assert (trees["main"] / "data" / "samples.bin").read_bytes() == b"x"
    remove_trees(repository, trees)
    assert (repository / "data" / "samples.bin").exists()


@pytest.mark.parametrize(
    ("link", "why"),
    [("train.py", "has this file"), ("src", "has this folder: name what git ignores in it")],
)
def test_a_link_that_can_not_be_leaves_no_copy(repository, folder, link, why):
    with pytest.raises(SweepError, match=why):
        make_trees(repository, folder, commits(repository, "main"), [link])
    assert list(folder.iterdir()) == []
    assert known_to_git(repository) == 0


def test_a_full_disk_is_named_where_git_ends_with_another_line(repository, folder, monkeypatch):
    said = "error: unable to write file a: No space left on device\nfatal: Could not reset index"

    def full(*words, **more):
        raise GitError(said)

    names = commits(repository, "main")
    monkeypatch.setattr(commit_trees, "git", full)
    with pytest.raises(SweepError, match="No space left on device"):
        make_trees(repository, folder, names)


def test_what_a_killed_process_left_is_found(repository, folder):
    trees = make_trees(repository, folder, commits(repository, "main"))
    assert list(leftover_trees(folder).values()) == [trees["main"]]
    remove_trees(repository, leftover_trees(folder))
    assert known_to_git(repository) == 0


@pytest.mark.parametrize("name", ["nothing", "--help", "", "main:train.py"])
def test_a_name_that_is_no_commit_is_refused(repository, name):
    with pytest.raises(SweepError, match="there is no commit"):
        commit_of(repository, name)


def test_a_folder_without_a_repository_is_refused(tmp_path):
    with pytest.raises(SweepError, match="is in no git repository"):
        repository_of(tmp_path)


def test_changed_files_are_told(repository):
    assert has_uncommitted_changes(repository) is False
    (repository / "train.py").write_text("print(3)\n")
    assert has_uncommitted_changes(repository) is True


@pytest.mark.parametrize("link", ["..", "../other", "/", ".", "nothing"])
def test_a_link_names_what_lies_below_the_repository(repository, link):
    with pytest.raises(SweepError, match="--link"):
        linked_paths(repository, [link])


def test_a_link_may_be_written_in_any_way(repository):
    links = ["data/", "./data", str(repository / "data"), "data/../data"]
    assert set(linked_paths(repository, links)) == {"data"}
