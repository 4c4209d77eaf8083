"""What is typed to run a script: read as a shell would, and refused in one sentence."""

import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.options.script import ScriptRun, UnreadableScript, read_script


def read(command="", **typed):
    return read_script({"command": command, **typed})


def test_a_command_is_split_as_a_shell_splits_it_and_shown_with_all_that_was_typed(tmp_path):
    assert read("") is read("   ", repeat="3") is None
    run = read(f"{sys.executable} 'my script.py' --epochs 3")
    assert run == ScriptRun((sys.executable, "my script.py", "--epochs", "3"))
    run = read("python3 train.py", directory=str(tmp_path), name="base line", repeat="3")
    assert run.command_line == (
        f"dlmon exec --directory {shlex.quote(str(tmp_path))} --name 'base line' --repeat 3 "
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
