"""What a host says of its sessions."""

import json

import pytest
from fakes.recorded import recorded_session
from fakes.sweeps import completed, plan_of

from dlmon.records import Began, Ended, Slot, Status, encode, to_json
from dlmon.remote.listing import listed_sessions, listed_sweeps
from dlmon.sweep.log import new_header

HEADER, *_, RESULT = recorded_session()


class Asked:
    """A host that gives some answers, and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = answers
        self.asked = None

    async def ask(self, ask, **fields):
        self.asked = (ask, fields)
        for answer in self.answers:
            yield answer


def answer(**changed):
    fields = {
        "session": HEADER.id,
        "file": "session.jsonl",
        "size": 1234,
        "status": "completed",
        "name": "base",
        "note": "why",
        "header": to_json(HEADER),
        "result": to_json(RESULT),
    }
    return {key: value for key, value in {**fields, **changed}.items() if value is not ...}


async def test_a_session_is_listed_as_its_host_knows_it(tmp_path):
    host = Asked(answer())
    (listed,) = await listed_sessions(host, "/logs", "base", " --host lab")
    asked = {"log_dir": "/logs", "meant": "base", "where": " --host lab"}
    assert host.asked == ("sessions", asked)
    assert (listed.session, listed.file, listed.size) == (HEADER.id, "session.jsonl", 1234)
    assert (listed.status, listed.label.name, listed.label.note) == (
        Status.COMPLETED,
        "base",
        "why",
    )
    assert (listed.header, listed.result) == (HEADER, RESULT)
    entry = listed.entry(tmp_path)
    assert entry.path == tmp_path / HEADER.id / "session.jsonl"
    assert (entry.header, entry.result, entry.status, entry.label, entry.pid) == (
        HEADER,
        RESULT,
        Status.COMPLETED,
        listed.label,
        None,
    )


async def test_sessions_stay_in_the_order_of_their_host():
    found = await listed_sessions(Asked(*(answer(session=name) for name in "cab")))
    assert [listed.session for listed in found] == ["c", "a", "b"]


async def test_what_may_be_absent_may_be_absent():
    (listed,) = await listed_sessions(Asked(answer(result=..., name=..., note=..., status=...)))
    assert (listed.result, listed.label.name, listed.label.note) == (None, None, None)
    assert listed.status == Status.UNKNOWN


@pytest.mark.parametrize("name", ["last", "a,b", "../x", "", " a", 7, ["a"], "x" * 61])
async def test_what_nobody_could_call_a_session_is_left_out(name):
    (listed,) = await listed_sessions(Asked(answer(name=name)))
    assert listed.label.name is None


@pytest.mark.parametrize("file", ["session.jsonl", "session-2.jsonl", "session-17.jsonl"])
async def test_a_log_may_have_gone_on_in_another_file(file):
    (listed,) = await listed_sessions(Asked(answer(file=file)))
    assert listed.file == file


@pytest.mark.parametrize(
    "changed",
    [
        *({"session": name} for name in ("..", ".", "", "a/b", "/a", "../../x", ".a", "a b", "ä")),
        *({"session": name} for name in ("x" * 121, None, 7, ["a"], {}, ...)),
        *({"file": name} for name in ("", "..", "a.jsonl", "../session.jsonl", "label.json")),
        *({"file": name} for name in ("/etc/session.jsonl", "session.jsonl/", None, 7, ...)),
        *({"size": size} for size in ("many", None, [], -1, float("inf"), float("nan"), ...)),
        *({"header": header} for header in (None, "", "{}", 7, {}, [], ...)),
        {"header": {"schema": 1}},
        {"header": to_json(RESULT)},
        {"result": to_json(HEADER)},
        {"result": "["},
        {"result": 7},
    ],
)
async def test_what_is_no_session_is_passed_over_among_others(changed):
    found = await listed_sessions(Asked(answer(**changed), answer(session="good")))
    assert [listed.session for listed in found] == ["good"]


SWEEP = new_header(plan_of({"batch_size": [32, 64]}), 1, 1_795_186_000.0)
RUNS = [Began(Slot(0, 0), "run-1", 1.0), Ended(Slot(0, 0), completed(0.5), 2.0)]


def said(sweep="a-sweep", **changed):
    fields = {"sweep": sweep, "status": "interrupted", "name": "grid", "note": None}
    return {**fields, **changed}


def sent(*records, sweep="a-sweep"):
    return [{"sweep": sweep, "record": json.loads(encode(record))} for record in records]


async def test_a_sweep_is_listed_with_what_its_log_says():
    host = Asked(said(), *sent(SWEEP, *RUNS))
    (listed,) = await listed_sweeps(host, "/logs")
    assert host.asked == ("sweeps", {"log_dir": "/logs"})
    assert (listed.sweep, listed.status, listed.label.name) == (
        "a-sweep",
        Status.INTERRUPTED,
        "grid",
    )
    assert (listed.header, listed.records) == (SWEEP, tuple(RUNS))


@pytest.mark.parametrize(
    "answers",
    [
        [said()],
        sent(SWEEP),
        [said(sweep="../etc"), *sent(SWEEP, sweep="../etc")],
        [said(sweep=["a"]), *sent(SWEEP, sweep=["a"])],
        [said(), *sent(HEADER)],
        [said(), *sent(*RUNS)],
        [said(), {"sweep": "a-sweep", "record": {"type": "sweep"}}],
        [said(), {"sweep": "a-sweep", "record": "x" * 9}],
        [said(), {"sweep": "a-sweep"}],
        [{}],
    ],
)
async def test_what_is_no_sweep_is_left_out(answers):
    assert await listed_sweeps(Asked(*answers)) == []


async def test_a_host_that_lists_without_an_end_is_kept_to_what_there_can_be(monkeypatch):
    monkeypatch.setattr("dlmon.remote.listing.MOST_SWEEPS", 3)
    monkeypatch.setattr("dlmon.remote.listing.MOST_RECORDS", 5)
    answers = []
    for number in range(9):
        name = f"sweep-{number}"
        answers += [said(sweep=name), *sent(SWEEP, *RUNS * 9, sweep=name)]
    listed = await listed_sweeps(Asked(*answers))
    assert len(listed) == 3
    assert {len(each.records) for each in listed} == {4}
