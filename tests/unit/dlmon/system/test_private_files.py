"""Folders and files that nobody but their owner may read or change."""

import os

import pytest
from fakes.recorded import recorded_session
from fakes.sweeps import plan_of

from dlmon.comparison.peaks import calibration_path, write_peaks
from dlmon.log.writer import LogWriter
from dlmon.options.settings import remember, remembered
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.system.private_files import (
    NotPrivateError,
    make_private_folder,
    own_private_folder,
    write_private,
)


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes_below(folder):
    """Return the modes of all folders, and those of all files."""
    found = [path for path in folder.rglob("*") if not path.is_symlink()]
    return (
        {oct(path.stat().st_mode & 0o777) for path in found if path.is_dir()},
        {oct(path.stat().st_mode & 0o777) for path in found if path.is_file()},
    )


def test_every_folder_that_is_made_is_private_whatever_the_umask(tmp_path, umask):
    make_private_folder(tmp_path / "one" / "two" / "three")
    assert (tmp_path / "one" / "two" / "three").is_dir()
    assert modes_below(tmp_path) == ({"0o700"}, set())


def test_a_folder_that_is_there_is_left_as_it_is_and_may_be_a_link(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    (tmp_path / "link").symlink_to(shared)
    make_private_folder(tmp_path / "link" / "sessions")
    make_private_folder(shared)
    assert (shared / "sessions").is_dir()
    assert shared.stat().st_mode & 0o777 == 0o775
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_private_folder(tmp_path / "file" / "sessions")
    # One of our own may be none.
    with pytest.raises(NotPrivateError) as refused:
        own_private_folder(tmp_path / "link")
    assert refused.value.strerror == f"{tmp_path}/link is a link"


def test_a_session_and_a_sweep_are_private_with_all_folders_above_them(tmp_path, umask):
    log_dir = tmp_path / "state" / "dlmon" / "sessions"
    LogWriter(log_dir, recorded_session()[0]).close()
    SweepWriter.create(log_dir, new_header(plan_of(repeats=2), 1, 0.0)).close()
    assert modes_below(tmp_path) == ({"0o700"}, {"0o600"})


def test_what_is_remembered_is_private_in_a_private_folder(tmp_path, monkeypatch, umask):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remember("theme", "nord")
    write_peaks(calibration_path(), [])
    assert remembered("theme") == "nord"
    assert modes_below(tmp_path) == ({"0o700"}, {"0o600"})
    assert [path.name for path in calibration_path().parent.iterdir() if path.name[0] == "."] == []


def test_what_others_could_read_so_far_is_private_once_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "dlmon"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "theme").write_text("textual-dark\n")
    (folder / "theme").chmod(0o666)
    remember("theme", "nord")
    assert modes_below(tmp_path) == ({"0o700"}, {"0o600"})


def test_a_file_that_cannot_be_written_keeps_its_content(tmp_path, monkeypatch):
    path = tmp_path / "state" / "theme"
    write_private(path, b"nord\n")

    def fail(*arguments):
        raise OSError("no room")

    monkeypatch.setattr(os, "fdopen", fail)
    with pytest.raises(OSError, match="no room"):
        write_private(path, b"dracula\n")
    assert path.read_bytes() == b"nord\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["theme"]
