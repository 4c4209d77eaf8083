"""What a host says of its sessions."""

from pathlib import Path

import pytest
from fakes.recorded import recorded_session
from fakes.sweeps import completed, plan_of

from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import Began, Ended, Slot, Status, encode, to_json
from dlmon.remote.session_follower import listed_sessions, listed_sweeps
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
        "folder": HEADER.id,
        "file": "session.jsonl",
        "status": "completed",
        "name": "base",
        "note": "why",
        "header": to_json(HEADER),
        "result": to_json(RESULT),
    }
    return {key: value for key, value in {**fields, **changed}.items() if value is not ...}


async def test_a_session_is_listed_as_its_host_knows_it(tmp_path):
    host = Asked(answer())
    (listed,) = await listed_sessions(host, "/logs", "base", " --host lab", tmp_path)
    asked = {"log_dir": "/logs", "meant": "base", "where": " --host lab"}
    assert host.asked == ("sessions", asked)
    path, label = tmp_path / HEADER.id / "session.jsonl", Label("base", "why")
    assert listed == SessionEntry(HEADER, path, Status.COMPLETED, RESULT, None, label)


async def test_sessions_stay_in_the_order_of_their_host_and_what_may_be_absent_may_be():
    absent = dict.fromkeys(("result", "name", "note", "status"), ...)
    given = answer(folder="c", file="session-17.jsonl", **absent), answer(folder="a")
    first, second = await listed_sessions(Asked(*given))
    assert (first.path, second.path.parent.name) == (Path("c", "session-17.jsonl"), "a")
    assert (first.result, first.label, first.status) == (None, Label(), Status.UNKNOWN)


@pytest.mark.parametrize("name", ["last", "a,b", "../x", "", " a", 7, ["a"], "x" * 61])
async def test_what_nobody_could_call_a_session_is_left_out(name):
    (listed,) = await listed_sessions(Asked(answer(name=name)))
    assert listed.label.name is None


@pytest.mark.parametrize(
    "changed",
    [
        *({"folder": name} for name in ("..", ".", "", "a/b", "/a", "../../x", ".a", "a b", "ä")),
        *({"folder": name} for name in ("x" * 121, None, 7, ["a"], {}, ...)),
        *({"file": name} for name in ("", "..", "a.jsonl", "../session.jsonl", "label.json")),
        *({"file": name} for name in ("/etc/session.jsonl", "session.jsonl/", None, 7, ...)),
        *({"header": header} for header in (None, "", "{}", 7, {}, [], {"schema": 1}, ...)),
        {"header": to_json(RESULT)},
        *({"result": result} for result in (to_json(HEADER), "[", 7)),
    ],
)
async def test_what_is_no_session_is_passed_over_among_others(changed):
    (listed,) = await listed_sessions(Asked(answer(**changed), answer(folder="good")))
    assert listed.path.parent.name == "good"


SWEEP = new_header(plan_of({"batch_size": [32, 64]}), 1, 1_795_186_000.0)
RUNS = [Began(Slot(0, 0), "run-1", 1.0), Ended(Slot(0, 0), completed(0.5), 2.0)]


def said(*records, **changed):
    text = b"".join(map(encode, records)).decode("latin-1")
    fields = {"folder": "a-sweep", "file": "sweep.jsonl", "status": "interrupted", "name": "grid"}
    return {**fields, "text": text, **changed}


async def test_a_sweep_is_listed_with_what_its_log_says(tmp_path):
    host = Asked(said(SWEEP, *RUNS))
    (listed,) = await listed_sweeps(host, "/logs", tmp_path)
    assert host.asked == ("sweeps", {"log_dir": "/logs"})
    path = tmp_path / "a-sweep" / "sweep.jsonl"
    assert listed == (SWEEP, RUNS, path, Status.INTERRUPTED, Label("grid"))


@pytest.mark.parametrize(
    "answer",
    [
        said(),
        said(SWEEP, folder="../etc"),
        said(SWEEP, folder=["a"]),
        said(SWEEP, file="../sweep.jsonl"),
        said(HEADER),
        said(*RUNS),
        said(text='{"type": "sweep"}'),
        said(text="x" * 9),
        said(text="\u20ac"),
        said(text=None),
        {},
    ],
)
async def test_what_is_no_sweep_is_left_out(answer):
    assert await listed_sweeps(Asked(answer)) == []


async def test_a_host_that_lists_without_an_end_is_kept_to_what_there_can_be(monkeypatch):
    monkeypatch.setattr("dlmon.remote.session_follower.MOST_SWEEPS", 3)
    assert len(await listed_sweeps(Asked(*[said(SWEEP)] * 9))) == 3
