"""The traces of a session's profiles, copied whole or not at all, whatever a host sends."""

import asyncio
import base64

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.log.folder import MOST_TRACE_BYTES, LogError
from dlmon.remote import agent
from dlmon.remote import host_requests as traces
from dlmon.remote.ssh import HostRefusal

TRACE = bytes(range(256)) * 40
NAME = "profile-1.json.gz"


class HostLink:
    """A link to an agent in this process; `replies` stand in place of its answers."""

    host = "box"

    def __init__(self, replies=None):
        self._replies = replies
        self.answers = 0

    async def ask(self, ask, **fields):
        for answer in self._replies or ():
            yield answer
        if self._replies is None:
            async for answer in agent._traces(**fields):
                self.answers += 1
                yield answer


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Return a function that copies the traces of a session over a link, and where they come to."""
    monkeypatch.setattr(agent, "TRACE_CHUNK_BYTES", 4_000)
    log = write_log(tmp_path / "there", recorded_session())
    log.with_name(NAME).write_bytes(TRACE)
    log.with_name("profile-2.part.gz").write_bytes(b"of a profile that is being made")
    here = tmp_path / "here"
    here.mkdir()

    def run(link):
        session = log.parent.name
        asyncio.run(traces.copy_traces(link, session, here, str(tmp_path / "there")))

    return run, here


def test_a_trace_is_copied_in_pieces_and_not_once_more(copy):
    run, here = copy
    link = HostLink()
    run(link)
    assert [path.name for path in here.iterdir()] == [NAME]
    assert (here / NAME).read_bytes() == TRACE
    assert (here / NAME).stat().st_mode & 0o777 == 0o600
    assert link.answers == 3
    run(link)
    assert link.answers == 3


def piece(data=b"x", file=NAME, size=9):
    return {"file": file, "size": size, "text": base64.b64encode(data).decode()}


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ([piece(file="../x")], HostRefusal),
        ([piece(size="1")], HostRefusal),
        ([piece(size=MOST_TRACE_BYTES + 1)], LogError),
        ([{"file": NAME, "size": 9}], HostRefusal),
        ([{"file": NAME, "size": 9, "text": "§"}], HostRefusal),
        ([piece(b"x" * 8)], HostRefusal),
        ([piece(b"x" * 10)], HostRefusal),
    ],
)
def test_what_is_no_trace_leaves_nothing_here(copy, replies, error):
    run, here = copy
    with pytest.raises(error):
        run(HostLink(replies))
    assert list(here.iterdir()) == []
