"""config.toml under the real command: what it changes, and what is said of what is wrong in it."""

from __future__ import annotations

import json

import pytest
from fakes.sessions import Log, the_log_in

SMALL = "mnist-mlp-small"


@pytest.fixture
def config(tmp_path):
    """Return a function that writes config.toml and returns the environment that leads there."""

    def write(text):
        folder = tmp_path / "config" / "dlmon"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(text)
        return {
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }

    return write


def test_a_wrong_key_is_one_sentence_and_exit_code_2(refused, config):
    environment = config("[run]\nepoch = 3\n")
    for arguments in (["run", SMALL], ["sessions"], ["attach", "last"], ["watch"], ["doctor"]):
        done = refused(*arguments, **environment)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), arguments
        assert "config.toml: there is no key run.epoch; did you mean run.epochs?" in done.stderr


def test_a_run_takes_its_defaults_from_there_and_the_command_line_wins(
    dlmon, config, without_keras, tmp_path
):
    kept = tmp_path / "kept"
    environment = config(
        f'log_dir = "{kept}"\n[run]\npython = "{without_keras}"\n'
        'device = "cpu"\nepochs = 2\nsteps = 7\ndata = "synthetic"\n'
    )
    done = dlmon("run", SMALL, "--epochs", "1", "--json", environment=environment)
    assert done.returncode == 0, done.stderr
    options = json.loads(done.stdout)["options"]
    assert (options["epochs"], options["steps"], options["device"]) == (1, 7, "cpu")
    assert Log(the_log_in(kept)).status == "completed"
    (reported,) = json.loads(dlmon("sessions", "--json", environment=environment).stdout)
    assert reported["workload"] == SMALL
