import errno
import re

import pytest

from dlmon.cli.command_line import run_command
from dlmon.cli.shared import UserError, user_errors
from dlmon.exit_codes import NOT_STARTED


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--name", "a,b", "can't be a name"),
        ("--interval", "0", "the interval must be from 0.1"),
        ("--price", "x", "give US dollars per hour"),
        ("--host", "-x", "host"),
        ("--alert", "nosuch+https://s3cret", "before the +"),
        ("--repeat", "0", "--repeat"),
        ("--repeats", "2", "--repeat"),
        ("--epochs", "0", "--epochs"),
        ("--steps", "x", "--steps"),
        ("--samples-per-step", "1.5", "--samples-per-step"),
    ],
)
def test_a_wrong_option_is_refused_before_the_script_is_started(tmp_path, option, value, says):
    ran = tmp_path / "ran"
    script = ["touch", str(ran)]
    with pytest.raises(UserError, match=re.escape(says)) as refused:
        run_command(["exec", f"{option}={value}", "--log-dir", str(tmp_path), "--", *script])
    assert refused.value.exit_code == NOT_STARTED
    assert not ran.exists()


def _refusal(*arguments):
    """Return why `dlmon exec` did not start a script, having seen that its exit code says so."""
    with pytest.raises(user_errors()) as refused:
        run_command(["exec", "--plain", *arguments, "--", "true"])
    assert refused.value.exit_code == NOT_STARTED
    return str(refused.value)


def test_wrong_settings_have_the_exit_code_of_a_script_that_was_not_started(tmp_path, monkeypatch):
    config = tmp_path / "config.toml"
    config.write_text("colour = 1\n")
    monkeypatch.setenv("DLMON_CONFIG", str(config))
    assert _refusal("--log-dir", str(tmp_path)).startswith(f"{config}: ")


def test_so_has_a_supervisor_that_can_not_be_started(tmp_path, monkeypatch):
    def fail(job):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("dlmon.launch.supervisor_process.launch", fail)
    monkeypatch.setattr("dlmon.render.script.launch", fail)
    for more in ([], ["--detach"]):
        assert "temporarily unavailable" in _refusal("--log-dir", str(tmp_path), *more)


def test_a_working_directory_that_was_deleted_is_one_sentence(tmp_path, monkeypatch):
    here = tmp_path / "deleted"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    assert _refusal("--log-dir", str(tmp_path)) == (
        "the working directory is gone; change to another one, or give --directory a full path"
    )
    assert _refusal("--log-dir", "logs").startswith("the working directory is gone, so logs leads")
    assert _refusal("--log-dir", "") == "--log-dir needs a value"
