"""The exit codes: what each is, and that the documentation has it."""

import re
import signal
from pathlib import Path

from dlmon import exit_codes

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"
CODES = [code for name, code in vars(exit_codes).items() if name.isupper()]


def test_what_the_shell_says_of_a_signal_is_said_here():
    assert exit_codes.INTERRUPTED_BY_USER == 128 + signal.SIGINT
    assert exit_codes.READER_LEFT == 128 + signal.SIGPIPE


def test_the_documentation_has_each_of_them_once():
    _, _, section = PAGE.read_text().partition("## Exit codes")
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert listed == CODES
