"""Where the copies of sessions are put."""

import errno
import shutil

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.cli import fetch


def test_a_copy_is_put_among_the_sessions_of_this_machine(tmp_path):
    copied = write_log(tmp_path / "cache", recorded_session())
    here = tmp_path / "sessions"
    assert fetch._keep(copied.parent, here) == copied.parent.name
    assert (here / copied.parent.name / copied.name).read_bytes() == copied.read_bytes()


def test_a_copy_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", fail)
    copied = write_log(tmp_path / "cache", recorded_session())
    here = tmp_path / "sessions"
    with pytest.raises(OSError, match="No space left"):
        fetch._keep(copied.parent, here)
    assert list(here.iterdir()) == []
