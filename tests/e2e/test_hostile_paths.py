"""Folders whose names are written to upset a terminal: no command prints them as they are."""

from __future__ import annotations

import re

import pytest
from fakes.forged_logs import CONTROLS
from fakes.recorded import recorded_session, write_log
from fakes.sweeps import plan_of
from fakes.terminal import PseudoTerminal

from dlmon.sweep.log import SweepWriter, new_header

BIDI = "\u202eevil\u2066"
NAME = f"{CONTROLS.replace('/', '-')}{BIDI}".replace("\x00", "")
# What a terminal obeys, or what reorders what a person reads; a line ends with one of its own.
OBEYED = [chr(code) for code in (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0))]
OBEYED += ["\u202e", "\u2066"]


@pytest.fixture
def hostile(tmp_path):
    """A log directory of such a name, with a session and a sweep in folders of such names."""
    directory = tmp_path / NAME / "sessions"
    log = write_log(directory, recorded_session())
    log.parent.rename(directory / f"session-{NAME}")
    unfinished = write_log(directory, recorded_session("training", session_id="unfinished"))
    unfinished.parent.rename(directory / f"unfinished-{NAME}")
    SweepWriter.create(directory, new_header(plan_of(repeats=2), 1, 0.0)).close()
    return directory


COMMANDS = (
    (["sessions"], "cifar10-cnn"),
    (["sessions", "--json"], "cifar10-cnn"),
    (["attach", "--plain", "session-"], "evil"),
    (["attach", "--plain", "unfinished-"], "evil"),
    (["attach", "{directory}/session-{name}", "--plain"], "evil"),
    (["attach", "nothing"], "evil"),
    (["attach", "{directory}/nothing/"], "evil"),
    (["stop", "session-"], "is not running"),
    (["stop", "nothing"], "evil"),
    (["run", "mnist-mlp-small", "--python", "{directory}/python"], "red"),
    (
        ["run", "mnist-mlp-small", "--log-dir", "{directory}/session-{name}/session.jsonl"],
        "evil",
    ),
    (["sweep", "--resume", "nothing"], "evil"),
    (["sweep", "--resume", "{directory}/nothing/"], "evil"),
    (["doctor", "--quick"], "evil"),
    (["doctor", "--quick", "--json"], "evil"),
)


def test_no_command_prints_a_path_that_a_terminal_would_obey(refused, hostile):
    for arguments, says in COMMANDS:
        words = [word.format(directory=hostile, name=NAME) for word in arguments]
        if "--log-dir" not in words and words[0] != "run":
            words += ["--log-dir", str(hostile)]
        done = refused(*words)
        printed = done.stdout + done.stderr
        assert says in printed, arguments
        assert "Traceback" not in printed, arguments
        assert not {character for character in printed if character in OBEYED}, arguments


def test_the_farewell_of_the_screen_prints_no_path_that_a_terminal_would_obey(
    dlmon_command, hostile
):
    log = hostile / f"session-{NAME}" / "session.jsonl"
    command = [dlmon_command, "attach", str(log)]
    with PseudoTerminal(command) as terminal:
        terminal.wait_for(b"completed")
        terminal.press("q")
        terminal.process.wait()
        terminal.wait_until_quiet(0.5)
        # A long path begins a line of its own.
        said = re.split(rb"recorded\s+in\s", terminal.written)[-1].decode()
    assert "evil" in said
    assert not {character for character in said if character in OBEYED and character != "\r"}
