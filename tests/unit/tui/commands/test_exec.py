import click
import pytest

from dlmon.exit_codes import NOT_STARTED
from tui.commands.command_line import run_command
from tui.commands.exec import exec_script
from tui.commands.shared import UserError


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--name", "a,b", 'a name has no ","'),
        ("--name", "last", "choose another name"),
        ("--interval", "0", "the interval must be from 0.1"),
        ("--price", "x", "give US dollars per hour"),
        ("--host", "-x", "host"),
        ("--repeat", "0", "--repeat takes a whole number from 1 to 1,000"),
        ("--repeats", "2", "there is no option"),
    ],
)
def test_a_wrong_option_is_refused_before_the_script_is_started(tmp_path, option, value, says):
    ran = tmp_path / "ran"
    script = ["touch", str(ran)]
    with pytest.raises(UserError, match=says) as refused:
        run_command(["exec", f"{option}={value}", "--log-dir", str(tmp_path), "--", *script])
    assert refused.value.exit_code == NOT_STARTED
    assert not ran.exists()


def test_help_says_in_words_how_often_a_script_may_be_repeated():
    text = " ".join(exec_script.get_help(click.Context(exec_script)).split())
    assert "one after the other, without the live screen (1 to 1,000)." in text
    assert "<=" not in text
