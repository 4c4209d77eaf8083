"""Which of the recorded sessions `dlmon sessions` lists."""

import errno
import json
import shutil
import time

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.cli import fetch
from dlmon.cli.command_line import run_command
from dlmon.cli.sessions import NO_MATCH
from dlmon.cli.shared import UserError
from dlmon.log.label import Label, write_label

HOUR_S = 3600


@pytest.fixture
def sessions(tmp_path, capsys):
    """Return what runs `dlmon sessions` where runs of three ages have names."""
    for name, hours in (("base-1", 30), ("base-2", 3), ("new-1", 1)):
        begun = recorded_session(session_id=name, begin_wall=time.time() - hours * HOUR_S)
        write_label(write_log(tmp_path, begun, name), Label(name))

    def run(*arguments):
        run_command(["sessions", *arguments, "--log-dir", str(tmp_path)])
        return capsys.readouterr().out

    return run


def listed(text):
    return [each["name"] for each in json.loads(text)]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), ["base-1", "base-2", "new-1"]),
        (("--since", "2h"), ["new-1"]),
        (("--since", "1d"), ["base-2", "new-1"]),
        (("--since", "2020-01-01"), ["base-1", "base-2", "new-1"]),
        (("--name", "base*"), ["base-1", "base-2"]),
        (("--name", "base-1"), ["base-1"]),
        (("--name", "base*", "--since", "1d"), ["base-2"]),
        (("--name", "base"), []),
    ],
)
def test_only_what_is_asked_for_is_listed(sessions, arguments, names):
    assert listed(sessions(*arguments, "--json")) == names
    text = sessions(*arguments)
    assert [name in text for name in ("base-1", "base-2", "new-1")] == [
        name in names for name in ("base-1", "base-2", "new-1")
    ]
    assert names or text.strip() == NO_MATCH


@pytest.mark.parametrize("since", ["yesterday", "2h ago", "", "2026-13-01", "-1h"])
def test_what_is_no_time_is_refused(sessions, since):
    with pytest.raises(UserError, match=r"--since needs a length of time.* or a day"):
        sessions("--since", since)


def test_a_copy_is_put_among_the_sessions_of_this_machine(tmp_path):
    copied = write_log(tmp_path / "cache", recorded_session())
    here = tmp_path / "sessions"
    assert fetch._import_session(copied.parent, here) == here / copied.parent.name
    assert (here / copied.parent.name / copied.name).read_bytes() == copied.read_bytes()


def test_a_copy_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", fail)
    copied = write_log(tmp_path / "cache", recorded_session())
    here = tmp_path / "sessions"
    with pytest.raises(OSError, match="No space left"):
        fetch._import_session(copied.parent, here)
    assert list(here.iterdir()) == []
