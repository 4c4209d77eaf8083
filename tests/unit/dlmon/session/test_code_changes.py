"""The files that changed between two commits: read from any repository, which may be hostile."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from fakes.compared import side

from dlmon.comparison.same_script import Script
from dlmon.comparison.sides import ChangedFile, compare_sides
from dlmon.session.code_changes import with_code_changes
from dlmon.system import git as of_git

OWN = {
    **os.environ,
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
}
FIRST, SECOND = "import torch\n\nlr = 1\n", "import torch\n\nlr = 2\nbatch = 64\n"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder, *words):
    command = ["git", "-C", str(folder), *words]
    done = subprocess.run(command, env=OWN, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder, **contents):
    """Write files, named without their suffix, and return the commit of them."""
    for name, content in contents.items():
        (folder / f"{name}.py").write_text(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def folder(tmp_path):
    git(tmp_path, "init", "-q")
    return tmp_path


def compared(folder, *commits, contents=(FIRST, SECOND), path="train.py"):
    """Return the comparison of two runs of train.py in a folder, with what changed."""
    runs = []
    for name, of_run, content in zip("ab", commits, contents, strict=True):
        place = str(folder / "train.py")
        script = Script("train.py", place, str(folder), git_path=path, git_commit=of_run)
        sha256 = hashlib.sha256(content.encode()).hexdigest()
        (run,) = side(name, 1.0, workload="train.py", command=("python", "train.py"))
        runs.append([replace(run, script=script, script_sha256=sha256)])
    return with_code_changes(compare_sides(*runs)).code


def test_changed_added_deleted_and_renamed_files_are_told_with_their_lines(folder):
    base = commit(folder, train=FIRST, old="x\n", net="same\n" * 20)
    (folder / "old.py").unlink()
    (folder / "net.py").rename(folder / "model.py")
    (folder / "weights").write_bytes(b"\0\1\2")
    code = compared(folder, base, commit(folder, train=SECOND, new="y\n" * 9))
    assert code.files == (
        ChangedFile("new.py", 9, 0),
        ChangedFile("train.py", 2, 1),
        ChangedFile("old.py", 0, 1),
        ChangedFile("net.py → model.py", 0, 0),
        ChangedFile("weights", None, None),
    )
    assert code.uncommitted == ()


def test_a_script_that_was_changed_after_its_commit_is_named(folder):
    base = commit(folder, train=FIRST)
    code = compared(folder, base, base, contents=(FIRST, SECOND))
    assert code.files == ()
    assert code.uncommitted == ("b-0",)


def test_a_name_from_a_repository_is_cleaned(folder):
    base = commit(folder, train=FIRST)
    code = compared(folder, base, commit(folder, **{"\x1b[31mred\n": "x\n"}))
    assert code.files == (ChangedFile("red.py", 1, 0),)


@pytest.mark.parametrize("place", ["gone", "another repository"])
def test_without_a_repository_that_holds_both_commits_the_reason_is_given(folder, place):
    base, new = commit(folder, train=FIRST), commit(folder, train=SECOND)
    if place == "gone":
        shutil.rmtree(folder)
    else:
        shutil.rmtree(folder / ".git")
        git(folder, "init", "-q")
        commit(folder, other="z\n")
    code = compared(folder, base, new)
    assert code.files is None
    assert code.why == "no repository on this machine holds both commits"


@pytest.mark.parametrize("forged", ["--output=stolen", "HEAD", "", "A" * 40, f"{'a' * 40}\n"])
def test_only_a_whole_hash_becomes_an_argument_of_git(folder, forged, monkeypatch):
    base = commit(folder, train=FIRST)
    monkeypatch.setattr(of_git.subprocess, "Popen", None)
    assert compared(folder, base, forged) is None
    assert compared(folder, forged, base) is None


def test_no_program_that_a_repository_names_is_run(folder, monkeypatch):
    program = folder / "program"
    program.write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    program.chmod(0o755)
    base = commit(folder, train=FIRST)
    new = commit(folder, train=SECOND)
    (folder / ".gitattributes").write_text("* diff=own filter=own\n")
    for name in (
        *("diff.external", "core.pager", "pager.diff-tree", "core.fsmonitor", "diff.own.textconv"),
        *("diff.own.command", "filter.own.clean", "filter.own.smudge", "filter.own.process"),
    ):
        git(folder, "config", name, str(program))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(program))
    monkeypatch.setenv("GIT_PAGER", str(program))
    assert compared(folder, base, new).files == (ChangedFile("train.py", 2, 1),)
    assert not (folder / "ran").exists()


def test_git_that_hangs_or_prints_without_end_is_ended(folder, monkeypatch, tmp_path):
    base, new = commit(folder, train=FIRST), commit(folder, train=SECOND)
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(of_git, "_LONGEST_S", 0.5)
    for does, why in (("exec sleep 600", "git took more than"), ("exec yes", "git printed too")):
        fake.write_text(f"#!/bin/sh\n{does}\n")
        fake.chmod(0o755)
        assert compared(folder, base, new).why.startswith(why)
    fake.unlink()
    monkeypatch.setenv("PATH", str(fake.parent))
    assert compared(folder, base, new).why == "git is not installed"
