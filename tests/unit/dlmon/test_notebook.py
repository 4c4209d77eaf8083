"""A session for the process that runs already: what is left where none can be started."""

import tempfile

import pytest

from dlmon import notebook
from dlmon.exit_codes import FAILED
from dlmon.instrument.reporter import SOCKET
from dlmon.protocol.job import Refused


def test_where_the_supervisor_refuses_nothing_is_left_behind(tmp_path, monkeypatch):
    class Refusing:
        def answer(self):
            assert [path.name[:6] for path in tmp_path.iterdir()] == ["dlmon-"]
            return Refused("the disk is full", FAILED)

    monkeypatch.delenv(SOCKET, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(notebook, "launch", lambda job: Refusing())
    with pytest.raises(RuntimeError, match="the disk is full"):
        notebook.start("mine")
    assert list(tmp_path.iterdir()) == []
