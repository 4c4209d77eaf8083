"""Where the copies of sessions are put."""

import shutil
from types import SimpleNamespace

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.cli import fetch
from dlmon.cli.shared import UserError


def test_a_copy_is_put_among_the_sessions_of_this_machine(tmp_path):
    copied = write_log(tmp_path / "cache", recorded_session())
    here = tmp_path / "sessions"
    assert fetch._keep(copied.parent, here) == copied.parent.name
    assert (here / copied.parent.name / copied.name).read_bytes() == copied.read_bytes()


def test_what_the_disk_has_no_room_for_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    copied = write_log(tmp_path / "cache", recorded_session())
    here = tmp_path / "sessions"
    with pytest.raises(UserError, match="has no room for: make room there"):
        fetch._keep(copied.parent, here)
    assert list(here.iterdir()) == []
