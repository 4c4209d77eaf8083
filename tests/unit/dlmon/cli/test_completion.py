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
from dlmon.options.run_options import OPTIONS, VARIED
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


# ---- what is offered ----


def test_the_commands_are_offered(ask, monkeypatch):
    assert ask("") == list(COMMANDS)
    assert ask("s") == ["sweep", "stop", "stack", "sessions"]
    assert ask("completion", "") == ["bash", "zsh", "fish"]
    # A number is left to whoever types it.
    assert ask("run", SMALL, "--batch-size", "") == []
    monkeypatch.setenv("COMP_WORDS", "dlmon\nrun\nvgg16")
    monkeypatch.setenv("COMP_CWORD", "vgg16")
    explained = f"plain,vgg16\t{WORKLOADS['vgg16'].title}"
    assert complete(command_line, "fish_complete") == explained


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


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (f"run {SMALL} --python /op", "file"),
        (f"run {SMALL} --log-dir ", "dir"),
        ("attach ./x", "file"),
    ],
)
def test_paths_are_left_to_the_shell(monkeypatch, words, kind):
    monkeypatch.setenv("COMP_LINE", f"dlmon {words}")
    assert complete(command_line, "bash_complete").partition(",")[0] == kind


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


# ---- hosts ----


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """Have hosts in ~/.ssh/config and groups in config.toml; return the folder of both."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DLMON_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / ".ssh").mkdir()
    names = "Host gpu1 gpu2\n    HostName 10.0.0.7\nHost box* !box3\n"
    # No name is offered that a shell takes for something else.
    odd = 'Host "a\'b" a=b a#b a%b a[1] fe80::1\n'
    (tmp_path / ".ssh" / "config").write_text(names + odd)
    groups = 'lab = ["gpu1", "ada@gpu9"]\ncloud = ["ssh://u@203.0.113.7:2222"]\nlater = []\n'
    (tmp_path / "config.toml").write_text(f"[hosts]\n{groups}")
    return tmp_path


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["watch", ""], ["gpu1", "gpu2", "a%b", "@lab", "@cloud"]),
        (["watch", "gp"], ["gpu1", "gpu2"]),
        (["watch", "@l"], ["@lab"]),
        (["watch", "a"], ["a%b"]),
        (["watch", "f"], []),
        # What was named is not offered again.
        (["watch", "gpu1", "gp"], ["gpu2"]),
        (["watch", "@lab", "@"], ["@cloud"]),
        (["run", SMALL, "--host", "gp"], ["gpu1", "gpu2"]),
        (["sweep", SMALL, "--vary", "host=gp"], ["host=gpu1", "host=gpu2"]),
        (
            ["sweep", SMALL, "--vary", "host=gpu1,"],
            [f"host=gpu1,{word}" for word in ("gpu2", "a%b", "@lab", "@cloud")],
        ),
    ],
    ids=" ".join,
)
def test_hosts_of_ssh_and_groups_of_the_settings_are_offered(ask, words, offered):
    assert ask(*words) == offered


def test_what_of_the_two_can_not_be_read_costs_itself_only(hosts, ask):
    (hosts / "config.toml").write_text("[hosts]\nlab = 3")
    assert ask("watch", "") == ["gpu1", "gpu2", "a%b"]
    (hosts / "config.toml").write_text("[hosts]\nlab = ['gpu1']")
    (hosts / ".ssh" / "config").unlink()
    assert ask("watch", "") == ["@lab"]


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
    # Where it was told to part no word at an at, it gets the whole.
    monkeypatch.setenv("COMP_WORDBREAKS", " =:")
    assert ask("attach base@", shell="bash") == ["base@2"]


@pytest.mark.parametrize(
    ("shell", "ours"),
    [
        ("bash", ["compopt -o nospace", "COMP_LINE="]),
        ("zsh", ["no_blank=(-S '')"]),
        ("fish", ['string split --max 1 ","']),
    ],
)
def test_the_script_of_a_shell_is_printed_with_what_that_of_click_lacks(shell, ours, capsys, ask):
    assert _run(["completion", shell]) == DONE
    captured = capsys.readouterr()
    assert f"_DLMON_COMPLETE={shell}_complete" in captured.out
    assert [captured.out.count(each) for each in ours] == [1] * len(ours)
    assert captured.err == ""
    assert ask("run", "mnist-mlp-w", shell=shell) == ["mnist-mlp-wide"]


# ---- the command ----


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
    [["run", "m"], ["sweep", "--vary", "de"], ["attach", ""], [""], ["watch", "g"]],
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
