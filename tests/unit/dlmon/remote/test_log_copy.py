"""The copy of another machine's log, byte for byte, whatever that machine sends."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from fakes.recorded import recorded_session
from hypothesis import given
from hypothesis import strategies as st

from dlmon.log.directory import SessionEntry
from dlmon.log.folder import LogError
from dlmon.log.index import LogPosition, position_after
from dlmon.log.label import Label
from dlmon.records import Status
from dlmon.remote.session_follower import LogCopy, copies_directory
from dlmon.remote.ssh import HostRefusal, SshError

HEADER, *_ = recorded_session()
LOG = b"".join(b'{"line": %d}\n' % number for number in range(200))
CHUNK = 300


class FakeLink:
    """A link on which a test answers."""

    host, needs_person, problem = "box", False, None

    def __init__(self):
        self.standing, self.added, self.sent = [], [], []

    def add(self, standing):
        self.added.append(standing)
        self.standing.append(standing)

    def remove(self, standing):
        if standing in self.standing:
            self.standing.remove(standing)

    def send(self, ask, take, **fields):
        self.sent.append((ask, fields, take))


def listed():
    path = Path("run-1", "session.jsonl")
    return SessionEntry(HEADER, path, Status.RUNNING, None, None, Label("base", "why"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def make():
    """Return a function that makes the copy of a session, as each viewer does."""
    made = []

    def begin():
        made.append(LogCopy(FakeLink(), listed(), "/logs"))
        made[-1].start()
        return made[-1]

    yield begin
    for copy in made:
        copy.close()


def answer(copy, *answers):
    for each in answers:
        for standing in copy.connection.standing:
            standing.take(each)


def known_place(copy, log):
    """Return where a host with that log goes on, by what it is asked."""
    (standing,) = copy.connection.standing
    fields = standing.fields()
    position = LogPosition(fields["offset"], fields["checked"], fields["digest"])
    before = log[max(0, position.offset - position.checked) : position.offset]
    is_known = position.offset <= len(log) and position_after(before, position.offset) == position
    return position.offset if is_known else 0


def texts(log, start, end=None):
    data = log[start:end]
    for at in range(0, len(data), CHUNK):
        yield {"at": start + at, "text": data[at : at + CHUNK].decode("latin-1")}


def send(copy, log, start=None, end=None):
    """Answer as a host with that log does, up to some place in it."""
    at = known_place(copy, log) if start is None else start
    answer(copy, {"file": "session.jsonl", "at": at, "size": len(log)}, *texts(log, at, end))
    return at


def test_a_log_is_copied_as_it_grows(make):
    copy = make()
    assert copy.share == 0
    assert send(copy, LOG, end=1000) == 0
    assert copy.path.read_bytes() == LOG[:1000]
    assert copy.share == 1000 / len(LOG)
    answer(copy, *texts(LOG, 1000))
    assert copy.path.read_bytes() == LOG
    answer(copy, {"status": "completed", "loss": None})
    assert (copy.share, copy.status, copy.problem) == (None, Status.COMPLETED, None)


def test_it_is_for_its_owner_alone_and_lies_as_in_a_log_directory_with_its_label(make):
    copy = make()
    assert copy.path == copies_directory("box") / "run-1" / "session.jsonl"
    assert copy.path.stat().st_mode & 0o777 == 0o600
    assert copy.path.parent.stat().st_mode & 0o777 == 0o700
    label = json.loads(copy.path.with_name("label.json").read_text())
    assert label == {"name": "base", "note": "why"}


def test_hosts_whose_names_are_alike_have_folders_of_their_own():
    names = ("me@box", "you@box", "me box", "me:box", "me/box", "../box", "BOX", "x" * 255)
    folders = {copies_directory(name) for name in names}
    assert len(folders) == len(names)
    assert {folder.parent for folder in folders} == {copies_directory("box").parent}


def test_what_is_here_already_is_not_sent_again(make):
    first = make()
    send(first, LOG, end=1234)
    first.close()
    again = make()
    assert send(again, LOG) == 1234
    assert again.path.read_bytes() == LOG


@pytest.mark.parametrize(
    "other",
    [
        LOG.replace(b"line", b"note"),
        LOG[:500].replace(b"line", b"note"),
        LOG[:900] + LOG[900:].replace(b"line", b"note"),
    ],
)
def test_another_log_of_that_name_takes_the_place_of_the_copy(make, other):
    first = make()
    send(first, LOG)
    first.close()
    again = make()
    assert send(again, other) == 0
    assert again.path.read_bytes() == other
    assert again.problem is None


def test_two_viewers_of_one_log_copy_it_together(make):
    ahead, behind = make(), make()
    send(ahead, LOG, end=1000)
    send(behind, LOG, start=0, end=900)
    assert ahead.path.read_bytes() == LOG[:1000]
    # A chunk that is partly there is completed.
    answer(behind, *texts(LOG, 900, 1200))
    assert ahead.path.read_bytes() == LOG[:1200]
    answer(ahead, *texts(LOG, 1000))
    answer(behind, *texts(LOG, 1200))
    assert behind.path.read_bytes() == LOG
    assert (ahead.problem, behind.problem) == (None, None)


def test_a_log_that_is_larger_than_any_is_refused_before_any_of_it_is_sent(make):
    copy = make()
    answer(copy, {"file": "session.jsonl", "at": 0, "size": 9 << 30})
    assert copy.problem == (
        "the log of run-1 on box has 9.0 GiB, and no more than 8 GiB of a log are copied: "
        "replay or report it there"
    )
    assert copy.share is None
    assert not copy.connection.standing


def test_what_a_host_sends_beyond_what_may_be_copied_is_not_written(make, monkeypatch):
    monkeypatch.setattr("dlmon.remote.session_follower.LARGEST_LOG_BYTES", 1100)
    copy = make()
    (standing,) = copy.connection.standing
    for each in ({"file": "session.jsonl", "at": 0, "size": 1000}, *texts(LOG, 0)):
        standing.take(each)
    assert 0 < copy.path.stat().st_size <= 1100
    assert copy.problem == "box sent no log that can be copied"
    assert not copy.connection.standing


def test_a_link_in_place_of_the_copy_is_not_followed(make, tmp_path):
    path = make().path
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"mine")
    path.unlink()
    path.symlink_to(elsewhere)
    with pytest.raises(LogError, match="it can't be copied to "):
        make()
    assert elsewhere.read_bytes() == b"mine"


async def test_who_waits_hears_when_all_is_copied_or_why_nothing_is(make):
    async def begin():
        copy, shown = make(), []
        waiting = asyncio.ensure_future(copy.wait_until_copied(shown.append))
        await asyncio.sleep(0)
        return copy, shown, waiting

    copy, shown, waiting = await begin()
    send(copy, LOG)
    answer(copy, {"status": "running", "loss": None})
    assert await waiting == copy.path
    assert shown[0] == 0
    copy, _, waiting = await begin()
    answer(copy, {"error": "there is no such session", "code": 2})
    with pytest.raises(HostRefusal, match="box: there is no such session"):
        await waiting
    copy, _, waiting = await begin()
    copy.connection.problem, copy.connection.needs_person = (
        "box lets nobody in: run ssh-add first",
        True,
    )
    with pytest.raises(SshError, match="run ssh-add first"):
        await waiting


def test_a_session_that_can_not_be_stopped_says_why(make):
    copy = make()
    copy.stop_session()
    ((ask, fields, take),) = copy.connection.sent
    assert (ask, fields) == ("stop", {"session": "run-1", "log_dir": "/logs"})
    take({"session": "run-1"})
    assert copy.refusal is None
    take({"error": "run-1 is not running"})
    assert copy.refusal == "box: run-1 is not running"
    copy.stop_session()
    assert copy.refusal is None


def test_a_stop_that_is_lost_is_said_until_the_session_is_seen_to_have_ended(make):
    copy = make()
    copy.stop_session()
    copy.connection.sent[0][2]({"lost": True})
    assert copy.refusal == "box: the connection was lost; stop it again"
    answer(copy, {"status": "running", "loss": None})
    assert copy.refusal is not None
    answer(copy, {"status": "stopped", "loss": None})
    assert copy.refusal is None


numbers = st.one_of(st.integers(-2, 40), st.integers(), st.floats(), st.none(), st.text(max_size=3))
words = st.one_of(
    st.sampled_from(["session.jsonl", "session-2.jsonl", "sweep.jsonl", "../session.jsonl", ""]),
    st.text(max_size=9),
    st.none(),
)
letters = st.text(st.characters(min_codepoint=1, max_codepoint=300), max_size=12)
answers = st.one_of(
    st.fixed_dictionaries({"file": words, "at": numbers, "size": numbers}),
    st.fixed_dictionaries(
        {"at": numbers, "text": st.one_of(letters, st.none(), st.lists(letters))}
    ),
    st.fixed_dictionaries({"status": words}, optional={"loss": words}),
    st.fixed_dictionaries({"error": words}, optional={"code": numbers}),
    st.dictionaries(
        st.sampled_from(["file", "at", "size", "text", "name", "note", "status", "error", "end"]),
        st.one_of(numbers, words, st.lists(numbers, max_size=2)),
    ),
)


@given(st.lists(answers, max_size=12), st.binary(max_size=20).filter(lambda b: b"\0" not in b))
def test_whatever_answers_come_the_copy_has_no_hole_and_nothing_else_is_written(sent, before):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", folder)
        copy = LogCopy(FakeLink(), listed())
        copy.path.write_bytes(before)
        copy.close()
        copy = LogCopy(FakeLink(), listed())
        copy.start()
        answer(copy, *sent)
        (standing,) = copy.connection.added
        assert 0 <= standing.fields()["offset"] <= copy.path.stat().st_size
        assert copy.share is None or 0 <= copy.share <= 1
        copy.close()
        taken = sum(len(each["text"]) for each in sent if isinstance(each.get("text"), str))
        for path in copy.path.parent.iterdir():
            assert path.name in ("session.jsonl", "label.json")
            if path.name != "label.json":
                content = path.read_bytes()
                assert b"\0" not in content
                assert len(content) <= len(before) + taken
        if not any("text" in each for each in sent):
            assert (copy.path.parent / "session.jsonl").read_bytes() == before
