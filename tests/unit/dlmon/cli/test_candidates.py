"""The hosts that a shell is offered."""

import json
import subprocess
import sys

import click
import pytest

from dlmon.cli.candidates import host_names, variations
from dlmon.cli.completion import complete

CONFIG = """
Host gpu1 gpu2
    HostName 10.0.0.7
Host box* !box3
Host "a'b" a=b a#b a%b a[1] fe80::1
"""
SETTINGS = """
[hosts]
lab = ["gpu1", "ada@gpu9"]
cloud = ["ssh://ubuntu@203.0.113.7:2222"]
later = []
"""
COMMAND = click.Command(
    "watch",
    params=[
        click.Argument(["hosts"], nargs=-1, shell_complete=host_names),
        click.Option(["--host"], shell_complete=host_names),
        click.Option(["--vary"], shell_complete=variations),
    ],
)


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Have hosts in ~/.ssh/config and groups in config.toml; return the folder of both."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DLMON_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(CONFIG)
    (tmp_path / "config.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture
def ask(monkeypatch):
    """Return a function that asks as fish does; the last word is the one to complete."""

    def ask(*words):
        monkeypatch.setenv("COMP_WORDS", "\n".join(["dlmon", *words]))
        monkeypatch.setenv("COMP_CWORD", words[-1])
        return complete(COMMAND, "fish_complete").replace("plain,", "").splitlines()

    return ask


@pytest.mark.usefixtures("configured")
def test_hosts_and_groups_that_are_not_named_yet_are_offered_to_a_sweep(ask):
    assert ask("--vary", "host=gp") == ["host=gpu1", "host=gpu2"]
    assert ask("--vary", "host=gpu1,") == [
        f"host=gpu1,{word}" for word in ("gpu2", "a%b", "@lab", "@cloud")
    ]


@pytest.mark.usefixtures("configured")
def test_hosts_of_ssh_and_groups_of_the_settings_are_offered(ask):
    groups = ["@lab\tgpu1, ada@gpu9", "@cloud\tssh://ubuntu@203.0.113.7:2222"]
    assert ask("") == ["gpu1", "gpu2", "a%b", *groups]
    assert ask("gp") == ["gpu1", "gpu2"]
    assert ask("@") == groups
    assert ask("@l") == groups[:1]
    assert ask("--host", "gp") == ["gpu1", "gpu2"]
    assert ask("--host=@c") == ["--host=@cloud\tssh://ubuntu@203.0.113.7:2222"]


@pytest.mark.usefixtures("configured")
def test_no_name_is_offered_that_a_shell_takes_for_something_else(ask):
    assert ask("a") == ["a%b"]
    assert ask("f") == []


@pytest.mark.usefixtures("configured")
def test_what_was_named_is_not_offered_again(ask):
    assert ask("gpu1", "gp") == ["gpu2"]
    assert ask("@lab", "@") == ["@cloud\tssh://ubuntu@203.0.113.7:2222"]
    assert ask("gpu1", "gpu2", "gp") == []


def test_broken_settings_cost_the_groups_only(configured, ask):
    (configured / "config.toml").write_text("[hosts]\nlab = 3")
    assert ask("") == ["gpu1", "gpu2", "a%b"]


def test_without_a_configuration_of_ssh_groups_are_offered(configured, ask):
    (configured / ".ssh" / "config").unlink()
    assert ask("g") == []
    assert len(ask("@")) == 2


def test_hosts_are_found_without_anything_heavy(configured):
    script = (
        "import json, sys; from dlmon.cli import candidates; import click;"
        " context = click.Context(click.Command('watch'));"
        " offered = candidates.host_names(context, click.Argument(['hosts']), 'gpu');"
        " print(json.dumps([[item.value for item in offered], [*sys.modules]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    offered, modules = json.loads(done.stdout)
    assert offered == ["gpu1", "gpu2"]
    heavy = {"textual", "rich", "keras", "tensorflow", "numpy", "pynvml", "psutil", "asyncio"}
    assert not {module.partition(".")[0] for module in modules} & heavy
