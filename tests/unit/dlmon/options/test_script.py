"""What is typed to run a script: read as a shell would, and refused in one sentence."""

import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.options.jobs import make_script_job
from dlmon.options.run_options import RunOptions
from dlmon.options.script import (
    ScriptRun,
    UnreadableScript,
    last_script,
    read_script,
    remember_script,
)


def read(command="", **typed):
    return read_script({"command": command, **typed})


def test_a_command_is_split_as_a_shell_splits_it_and_shown_with_all_that_was_typed(tmp_path):
    assert read("") is read("   ", repeat="3") is None
    run = read(f"{sys.executable} 'my script.py' --epochs 3")
    assert run == ScriptRun((sys.executable, "my script.py", "--epochs", "3"))
    run = read("python3 train.py", directory=str(tmp_path), name="base line", repeat="3")
    assert run.command_line == (
        f"dlmon sweep --directory {shlex.quote(str(tmp_path))} --name 'base line' --repeat 3 "
        "-- python3 train.py"
    )


@given(st.lists(st.text(min_size=1, max_size=8), max_size=5))
def test_the_command_line_that_is_shown_reads_back_as_the_same_words(words):
    run = ScriptRun(("python3", *words))
    assert shlex.split(run.command_line) == ["dlmon", "exec", "--", "python3", *words]


@pytest.mark.parametrize(
    ("typed", "field", "words"),
    [
        ({"command": "python3 'train.py"}, "command", "a quote is not closed"),
        ({"command": "python3 train.py \\"}, "command", "a backslash ends the line"),
        ({"command": "no-such-command x"}, "command", "there is no command no-such-command"),
        ({"command": "./no-such-file.py"}, "command", "there is no command ./no-such-file.py"),
        ({"command": "python3 a.py | tee log"}, "command", "| needs a shell"),
        ({"command": "python3 a.py && ls"}, "command", "&& needs a shell"),
        ({"command": "SEED=1 python3 a.py"}, "command", "to set SEED, write env in front"),
        ({"command": "ls", "directory": "/no/such"}, "directory", "there is no directory /no/such"),
        ({"command": "ls", "repeat": "0"}, "repeat", "from 1 to 1,000"),
        ({"command": "ls", "repeat": "many"}, "repeat", "not many"),
        ({"command": "ls", "name": "last"}, "name", "last"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence_at_its_field(typed, field, words):
    with pytest.raises(UnreadableScript) as refused:
        read_script(typed)
    assert refused.value.field == field
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_of_the_directory_that_is_no_program_is_explained(tmp_path):
    (tmp_path / "train.py").write_text("")
    for command in ("train.py", "./train.py"):
        words = f"there is no command {command}: for a Python script, say python {command}"
        with pytest.raises(UnreadableScript, match=words):
            read(command, directory=str(tmp_path))
    (tmp_path / "train.py").chmod(0o700)
    assert read("./train.py", directory=str(tmp_path)) is not None


def test_a_tilde_is_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    run = read("ls ~/data", directory="~")
    assert run == ScriptRun(("ls", str(tmp_path / "data")), str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "first_stays"),
    [
        ({"UV": "/bin/uv"}, False),
        ({"UV": "/bin/uv", "VIRTUAL_ENV": sys.prefix}, True),
        ({}, True),
    ],
    ids=["uvx", "active environment", "put there by a person"],
)
def test_a_bare_python_is_that_of_the_caller(monkeypatch, tmp_path, changes, first_stays):
    """uvx puts the environment of the tool first in PATH."""
    for name in ("UV", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    for name, text in changes.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:/usr/bin:/bin")
    job = make_script_job(("python", "train.py"), None, tmp_path, RunOptions())
    assert job.environment == ({} if first_stays else {"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("text", ["", "[]", '["/work"]', '[1, "a"]', "{}", '[null, "a"]', "1"])
def test_a_script_that_was_not_kept_well_is_none(monkeypatch, tmp_path, text):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert last_script() is None
    remember_script(("python", "train.py", "a b"), "/work")
    assert last_script() == ScriptRun(("python", "train.py", "a b"), "/work")
    (tmp_path / "dlmon" / "last-script").write_text(text)
    assert last_script() is None
