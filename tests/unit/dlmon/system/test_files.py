"""Only regular files of a sane size are read: nothing else is waited for, or read without end."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from pathlib import Path

import pytest

from dlmon.comparison.peaks import CalibrationError, read_peaks
from dlmon.log.directory import list_sessions
from dlmon.log.folder import LogError
from dlmon.log.log_follower import LogFollower, writer_pid
from dlmon.options.settings import SettingsError, read_settings, remember, remembered
from dlmon.sweep.log import SweepWriter, list_sweeps, read_sweep
from dlmon.system.files import open_regular, read_regular


@pytest.fixture(autouse=True)
def no_waiting():
    """Fail a test that waits for what never comes."""

    def late(number, frame):
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    # The name of a socket may be no longer than a hundred bytes.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{folder}/socket")
        Path(f"{folder}/socket").rename(path)


SPECIAL = {
    "pipe": (make_pipe, "a named pipe"),
    "socket": (make_socket, "a socket"),
    "directory": (lambda path: path.mkdir(), "a directory"),
    "endless": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "full": (lambda path: path.symlink_to("/dev/full"), "a device"),
}


@pytest.fixture(params=SPECIAL)
def special(request, tmp_path):
    """Return the path of a file that is none, and what a sentence calls it."""
    make, called = SPECIAL[request.param]
    path = tmp_path / "special"
    make(path)
    return path, f"it is {called}, not a regular file"


def read_config(path):
    read_settings(path)


@pytest.mark.parametrize(
    ("read", "error"),
    [
        pytest.param(read_config, SettingsError, id="config.toml"),
        pytest.param(read_peaks, CalibrationError, id="calibration"),
        pytest.param(LogFollower, LogError, id="log"),
        pytest.param(writer_pid, OSError, id="lock of a log"),
        pytest.param(read_sweep, LogError, id="sweep"),
        pytest.param(lambda path: SweepWriter.resume(path, 1.0), LogError, id="resumed sweep"),
    ],
)
def test_a_special_file_is_refused_in_a_sentence_and_never_waited_for(special, read, error):
    path, says = special
    with pytest.raises(error) as refused:
        read(path)
    assert says in str(refused.value)


def test_a_theme_is_neither_read_from_nor_written_to_a_special_file(special, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    memory = tmp_path / "state" / "dlmon" / "theme"
    memory.parent.mkdir(parents=True)
    special[0].rename(memory)
    assert remembered("theme") == ""
    if memory.is_dir():
        with pytest.raises(OSError, match="directory"):
            remember("theme", "nord")
        assert [path.name for path in memory.parent.iterdir()] == ["theme"]
    else:
        remember("theme", "nord")
        assert remembered("theme") == "nord"


def test_a_special_file_is_no_session_of_a_directory_and_no_sweep(special, tmp_path):
    for name in ("session.jsonl", "sweep.jsonl"):
        folder = tmp_path / "sessions" / name
        folder.mkdir(parents=True)
        (folder / name).symlink_to(special[0])
    assert list_sessions(tmp_path / "sessions") == []
    assert list_sweeps(tmp_path / "sessions") == []


@pytest.mark.parametrize("reported_size", [True, False])
def test_no_more_is_read_than_the_most(tmp_path, monkeypatch, reported_size):
    path = tmp_path / "large"
    path.write_bytes(b"x" * 1001)
    if not reported_size:  # as of a file that grows, or one of /proc
        sizeless = os.stat_result((0o100644, *[0] * 9))
        monkeypatch.setattr("dlmon.system.files.os.fstat", lambda fd: sizeless)
    assert len(read_regular(path, 1001)) == 1001
    with pytest.raises(OSError, match="it is larger than 1,000 bytes"):
        read_regular(path, 1000)


def test_a_huge_config_is_refused_unread(tmp_path):
    path = tmp_path / "config.toml"
    with path.open("wb") as file:
        file.truncate(24 << 30)
    with pytest.raises(SettingsError, match=r"config\.toml can't be read: it is larger than 1 MiB"):
        read_settings(path)


def test_what_turns_into_a_pipe_meanwhile_is_refused_too(tmp_path, monkeypatch):
    path = tmp_path / "log"
    os.mkfifo(path)
    regular = Path(__file__).stat()
    monkeypatch.setattr(Path, "stat", lambda self: regular)
    before = open_files()
    with pytest.raises(OSError, match="a named pipe"):
        open_regular(path)
    assert open_files() == before


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))
