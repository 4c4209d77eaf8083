"""What a shell is offered to complete a word with."""

import json
import os
import subprocess
import sys

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.cli.command_line import COMMANDS, command_line
from dlmon.cli.completion import complete
from dlmon.cli.main import _run
from dlmon.exit_codes import DONE
from dlmon.log.label import Label, write_label
from dlmon.options.run import OPTIONS, VARIED
from dlmon.sweep.log import SWEEP_NAME
from workloads.catalog import WORKLOADS

SMALL = "mnist-mlp-small"


@pytest.fixture(autouse=True)
def nobodys_settings(tmp_path, monkeypatch):
    """Let neither settings nor sessions of this machine count."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DLMON_CONFIG", raising=False)


@pytest.fixture
def ask(monkeypatch):
    """Return a function that asks as a script does; the last word is the one to complete."""

    def ask(*words, shell="fish"):
        monkeypatch.setenv("COMP_WORDS", "\n".join(["dlmon", *words]))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
        monkeypatch.setenv("COMP_LINE", " ".join(["dlmon", *words]))
        answer = complete(command_line, f"{shell}_complete").splitlines()
        if shell == "zsh":
            return answer[1::3]
        return [line.partition(",")[2].partition("\t")[0] for line in answer]

    return ask


def types(monkeypatch, *words):
    monkeypatch.setenv("COMP_LINE", " ".join(["dlmon", *words]))
    return [line.partition(",")[0] for line in complete(command_line, "bash_complete").splitlines()]


# ---- what is offered ----


def test_the_commands_are_offered(ask):
    assert ask("") == list(COMMANDS)
    assert ask("s") == ["sweep", "stop", "stack", "sessions"]


def test_commands_and_workloads_are_explained(monkeypatch):
    monkeypatch.setenv("COMP_WORDS", "dlmon\nrun\nvgg16")
    monkeypatch.setenv("COMP_CWORD", "vgg16")
    completion = complete(command_line, "fish_complete")
    assert completion == f"plain,vgg16\t{WORKLOADS['vgg16'].title}"


@pytest.mark.parametrize(("command", "more"), [("run", []), ("sweep", ["ALL"])])
def test_workloads_are_offered(ask, command, more):
    assert ask(command, "") == [*WORKLOADS, *more]
    assert ask(command, "vgg") == ["vgg-a", "vgg16"]


def test_every_option_of_a_run_is_offered(ask):
    offered = ask("run", SMALL, "--")
    assert {option.flag for option in OPTIONS.values()} <= set(offered)


@pytest.mark.parametrize("name", [name for name, each in OPTIONS.items() if each.choices])
def test_the_choices_of_an_option_are_offered(ask, name):
    option = OPTIONS[name]
    for command in ("run", "sweep"):
        assert ask(command, SMALL, option.flag, "") == list(option.choices)
        whole = [f"{option.flag}={word}" for word in option.choices]
        assert ask(command, SMALL, f"{option.flag}=") == whole


def test_a_number_is_left_to_whoever_types_it(ask):
    assert ask("run", SMALL, "--batch-size", "") == []


def test_paths_are_left_to_the_shell(monkeypatch):
    assert types(monkeypatch, "run", SMALL, "--python", "/op") == ["file"]
    assert types(monkeypatch, "run", SMALL, "--log-dir", "") == ["dir"]
    assert types(monkeypatch, "attach", "./x") == ["file"]


def test_what_can_be_varied_is_offered_and_behind_it_its_values(ask):
    assert ask("sweep", SMALL, "--vary", "") == [f"{name}=" for name in VARIED]
    assert ask("sweep", SMALL, "--vary", "mode=") == [
        "mode=train",
        "mode=gradients",
        "mode=inference",
    ]
    assert ask("sweep", SMALL, "--vary", "mode=train,i") == ["mode=train,inference"]
    assert ask("sweep", SMALL, "--vary", "mode=train,t") == []
    assert ask("sweep", SMALL, "--vary", "threads=") == []
    assert ask("sweep", SMALL, "--vary", "price=") == []
    assert ask("sweep", SMALL, "--vary", "jit=on,off", "--vary", "da") == ["data="]


def test_the_shells_are_offered(ask):
    assert ask("completion", "") == ["bash", "zsh", "fish"]


# ---- sessions ----


@pytest.fixture
def recorded(tmp_path):
    """Return a function that records sessions and a sweep in a directory."""

    def record(directory, *names):
        for name in names:
            (directory / name).mkdir(parents=True)
            (directory / name / "session.jsonl").touch()
        (directory / "20200101-000000-sweep-0000").mkdir()
        (directory / "20200101-000000-sweep-0000" / SWEEP_NAME).touch()
        (directory / "no session").mkdir()
        return directory

    return record


@pytest.mark.parametrize("command", ["attach", "replay", "stop"])
def test_sessions_are_offered_the_newest_first(ask, recorded, tmp_path, command):
    usual = recorded(tmp_path / "state" / "dlmon" / "sessions", "20200101-a", "20200102-b")
    assert ask(command, "") == ["last", "20200102-b", "20200101-a"]
    assert ask(command, "20200101") == ["20200101-a"]
    assert ask(command, "l") == ["last"]
    assert ask("sweep", "--resume", "") == ["last", "20200101-000000-sweep-0000"]
    assert ask(command, f"{usual}/2") == [f"{usual}/2"]


def test_a_true_log_is_offered(ask, tmp_path):
    path = write_log(tmp_path / "state" / "dlmon" / "sessions", recorded_session())
    assert ask("attach", "") == ["last", path.parent.name]


@pytest.mark.parametrize("command", ["attach", "stop", "name"])
def test_names_are_offered_but_none_that_a_shell_could_run(ask, tmp_path, command):
    names = ["batch 256", "base", "base", "$(rm -rf x)", "`x`", "a;b", "a'b", 'a"b', "a&b", "a>b"]
    for number, name in enumerate(names):
        records = recorded_session(session_id=f"2020010{number}")
        path = write_log(tmp_path / "state" / "dlmon" / "sessions", records)
        write_label(path, Label(name))
    assert ask(command, "")[:4] == ["last", "base", "batch 256", "20200109"]
    assert ask(command, "ba") == ["base", "batch 256"]
    assert ask(command, "ba", shell="bash") == ["base", "batch\\ 256"]
    assert ask(command, "$") == ask(command, "`") == ask(command, "a") == []


def test_the_chosen_directory_wins_over_the_configured_one(ask, recorded, tmp_path, monkeypatch):
    chosen = recorded(tmp_path / "chosen", "20200101-chosen")
    configured = recorded(tmp_path / "configured", "20200101-configured")
    config = tmp_path / "config.toml"
    config.write_text(f'log_dir = "{configured}"')
    monkeypatch.setenv("DLMON_CONFIG", str(config))
    assert ask("attach", "2") == ["20200101-configured"]
    assert ask("attach", "--log-dir", str(chosen), "2") == ["20200101-chosen"]
    assert ask("attach", f"--log-dir={chosen}", "2") == ["20200101-chosen"]
    config.write_text("log_dir = 3")
    assert ask("attach", "--log-dir", str(chosen), "2") == ["20200101-chosen"]


# ---- what can't be answered ----


@pytest.mark.parametrize(
    "words",
    [
        ["attach", ""],
        ["attach", "--log-dir", "/nowhere", ""],
        ["attach", "--log-dir", "/dev/null", ""],
        ["run", "--nothing", "--", "x"],
        ["sweep", "--vary", "nothing="],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_where_nothing_can_be_offered_nothing_is_said(monkeypatch, words, shell, capfd):
    monkeypatch.setenv("COMP_WORDS", "\n".join(["dlmon", *words]))
    monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
    monkeypatch.setenv("COMP_LINE", " ".join(["dlmon", *words]))
    assert complete(command_line, f"{shell}_complete") == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("instruction", ["", "bash", "tcsh_complete", "bash_complete"])
def test_a_script_that_says_nothing_gets_no_answer(instruction, monkeypatch):
    for name in ("COMP_LINE", "COMP_WORDS", "COMP_CWORD"):
        monkeypatch.delenv(name, raising=False)
    assert complete(command_line, instruction) == ""


def test_broken_settings_are_no_matter(ask, recorded, tmp_path, monkeypatch):
    recorded(tmp_path / "state" / "dlmon" / "sessions", "20200101-a")
    config = tmp_path / "config.toml"
    config.write_text("log_dir = ")
    monkeypatch.setenv("DLMON_CONFIG", str(config))
    assert ask("attach", "2") == ["20200101-a"]


# ---- what a shell makes of the words ----


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (f"run {SMALL} --device=c", ["cpu"]),
        (f"run {SMALL} --device=", ["auto", "cpu", "gpu"]),
        (f"sweep {SMALL} --vary device=c", ["cpu"]),
        (f"sweep {SMALL} --vary device=gpu:0,c", ["0,cpu"]),
        (f"sweep {SMALL} --vary device=cpu,gpu --vary jit=o", ["on", "off"]),
        ("attach @", ["@lab"]),
        ("attach @l", ["@lab"]),
        ("attach base@", ["@2"]),
        ("attach base @l", []),
        ("attach batch\\ 2", ["batch\\ 256"]),
        ("attach --log-dir=@l", ["@l"]),
    ],
)
def test_bash_parts_words_and_gets_the_part_that_it_asks_for(
    ask, tmp_path, monkeypatch, line, offered
):
    for number, name in enumerate(["@lab", "base@2", "batch 256"]):
        records = recorded_session(session_id=f"2020010{number}")
        path = write_log(tmp_path / "state" / "dlmon" / "sessions", records)
        write_label(path, Label(name))
    assert ask(line, shell="bash") == offered


def test_where_bash_was_told_to_part_no_word_at_an_at_it_gets_the_whole(ask, monkeypatch, tmp_path):
    path = write_log(tmp_path / "state" / "dlmon" / "sessions", recorded_session())
    write_label(path, Label("base@2"))
    monkeypatch.setenv("COMP_WORDBREAKS", " =:")
    assert ask("attach base@", shell="bash") == ["base@2"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_answer(ask, shell):
    assert ask("run", "mnist-mlp-w", shell=shell) == ["mnist-mlp-wide"]


@pytest.mark.parametrize(
    ("shell", "ours"),
    [
        ("bash", "compopt -o nospace"),
        ("bash", "COMP_LINE="),
        ("zsh", "no_blank=(-S '')"),
        ("fish", 'string split --max 1 ","'),
    ],
)
def test_what_the_scripts_of_click_lack_is_put_into_them(shell, ours, capsys):
    assert _run(["completion", shell]) == DONE
    assert capsys.readouterr().out.count(ours) == 1


# ---- the command ----


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell, capsys):
    assert _run(["completion", shell]) == DONE
    captured = capsys.readouterr()
    assert f"_DLMON_COMPLETE={shell}_complete" in captured.out
    assert "dlmon" in captured.out
    assert captured.err == ""


ANSWERED = """
import json, sys
from tui.start import main
try:
    main()
except SystemExit as left:
    sys.stderr.write(json.dumps([left.code, sorted(sys.modules)]))
"""


@pytest.mark.parametrize(
    "words",
    [["run", "m"], ["sweep", "--vary", "de"], ["attach", ""], [""], ["sweep", "--resume", ""]],
    ids=" ".join,
)
def test_nothing_heavy_is_imported_to_answer(words, tmp_path):
    environment = {
        **os.environ,
        "_DLMON_COMPLETE": "bash_complete",
        "COMP_LINE": " ".join(["dlmon", *words]),
    }
    done = subprocess.run(
        [sys.executable, "-c", ANSWERED], env=environment, capture_output=True, text=True
    )
    code, modules = json.loads(done.stderr)
    assert code == DONE
    heavy = {"textual", "rich", "keras", "tensorflow", "numpy", "pynvml", "psutil", "asyncio"}
    assert not {module.partition(".")[0] for module in modules} & heavy
