"""Another machine as a sweep uses it: launches, stops and losses, by a link that a test holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fakes import hosts
from fakes.recorded import recorded_session
from fakes.sessions import until
from fakes.sweeps import SMALL

from dlmon.exit_codes import UNREACHABLE
from dlmon.log.directory import SessionEntry
from dlmon.protocol.job import Job, Refused, Started
from dlmon.records import Status
from dlmon.remote import sweep_host
from dlmon.remote.ssh import HostRefusal, SshError
from dlmon.remote.sweep_host import RemoteHost

JOB = Job(workload=SMALL, command=(), options={"batch_size": 32}, log_dir="")
CUT = SshError("box closed the connection")


class FakeLink(hosts.FakeLink):
    """A connection that is there, or not, as its test says."""

    def __init__(self):
        super().__init__("box", lambda: 0)
        self.connect()
        self.looks = self.tries = 0
        self.sent = []

    @property
    def is_up(self):
        self.looks += 1
        return self._is_up

    @is_up.setter
    def is_up(self, is_it):
        self._is_up = is_it

    def lose(self, problem="box closed the connection", needs_person=False):
        self.fail(problem, may_pass=not needs_person, retry_s=1)

    def send(self, ask, take, **fields):
        self.sent.append((ask, fields))

    async def ask_one(self, ask, **fields):
        self.asked.append((ask, fields))
        answer = self.answers[ask]
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            answer = self.answers[f"{ask} at last"]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def link():
    return FakeLink()


@pytest.fixture
def box(link, monkeypatch):
    monkeypatch.setattr(sweep_host, "POLL_S", 0.001)
    return RemoteHost("box", link)


@pytest.fixture
def listed(monkeypatch):
    """Return the sessions that the machine lists; a test adds to them."""
    sessions = []

    async def list_them(link, log_dir=None, meant=None):
        return sessions

    monkeypatch.setattr(sweep_host, "listed_sessions", list_them)

    def add(session, status=Status.RUNNING, **options):
        header = recorded_session(workload=SMALL, session_id=session)[0]
        header.options.clear()
        header.options.update(options or JOB.options)
        sessions.append(SessionEntry(header, Path(session, "session.jsonl"), status, None, None))

    return add


# ---- launching ----


async def test_a_machine_that_can_not_be_reached_says_why(box, link):
    link.lose("box is not known: no such host name")
    assert await box.open() == Refused("box is not known: no such host name", UNREACHABLE)


@pytest.mark.parametrize("permanent", [True, False])
async def test_what_the_machine_refuses_is_refused_for_good_or_for_now(box, link, permanent):
    link.answers["launch"] = HostRefusal("box: there is no GPU here", 2, permanent)
    assert await box.launch(JOB) == Refused("box: there is no GPU here", 2, permanent)
    await box.finish_run()
    await box.close()
    assert [ask for ask, _ in link.asked] == ["launch"], "there is nothing to stop"


async def test_a_run_is_launched_once_the_connection_is_back(box, link):
    link.lose()
    link.answers["launch"] = {"session": "one"}
    launching = asyncio.create_task(box.launch(JOB))
    await until(lambda: link.looks > 4)
    assert link.asked == []
    link.connect()
    assert await launching == Started("one", "")


async def test_a_run_whose_answer_was_lost_is_not_launched_twice(box, link, listed):
    listed("older", status=Status.COMPLETED)
    listed("another", batch_size=64)
    listed("ours")
    link.answers["launch"] = CUT
    assert await box.launch(JOB) == Started("ours", "")
    assert [ask for ask, _ in link.asked] == ["launch"]


async def test_a_launch_waits_for_nobody_where_a_person_is_needed(box, link):
    link.lose("box lets nobody in without a password", needs_person=True)
    assert await box.launch(JOB) == Refused("box lets nobody in without a password", UNREACHABLE)
    assert box.lost == "box lets nobody in without a password"


# ---- stopping ----


@pytest.fixture
async def running(box, link):
    """A machine on which a run is under way."""
    link.answers["launch"], link.answers["stop"] = {"session": "one"}, {"session": "one"}
    await box.launch(JOB)
    return box


async def test_a_stop_is_asked_for_once_on_each_connection(running, link):
    running.stop()
    running.poll()
    assert link.sent == [("stop", {"session": "one"})]
    link.lose()
    running.poll()
    link.connect()
    running.poll()
    assert link.sent == [("stop", {"session": "one"})] * 2


async def test_a_stop_is_for_the_run_that_goes_on_alone(running, link):
    running.stop()
    await running.finish_run()
    await running.launch(JOB)
    running.poll()
    assert len(link.sent) == 1
    running.stop()
    assert link.sent == [("stop", {"session": "one"})] * 2


async def test_a_stop_without_a_connection_waits_for_one_more_try(running, link):
    link.lose()
    running.poll()
    assert (running.lost, link.retries) == (None, 0), "it comes back by itself"
    running.stop()
    running.poll()
    assert (running.lost, link.retries) == (None, 1)
    running.poll()
    assert running.lost is None, "it is not tried yet"
    link.retry_at_ns, link.tries = None, 2
    running.poll()
    assert running.lost is None, "it is being tried"
    link.retry_at_ns = 1
    running.poll()
    assert (running.lost, link.retries) == ("box closed the connection", 1)


async def test_a_run_that_is_being_launched_is_stopped_once_it_is_known(box, link):
    asked = link.answers["launch"] = asyncio.Event()
    link.answers["launch at last"] = {"session": "one"}
    launching = asyncio.create_task(box.launch(JOB))
    await until(lambda: link.asked)
    box.stop()
    assert link.sent == []
    asked.set()
    assert await launching == Started("one", "")
    box.poll()
    assert link.sent == [("stop", {"session": "one"})]


# ---- letting go ----


@pytest.mark.parametrize(
    ("answer", "left_running"),
    [
        ({"session": "one"}, None),
        (HostRefusal("box: one is not running: completed", 2), None),
        (CUT, "one"),
    ],
    ids=["stopped", "ended meanwhile", "can't be stopped"],
)
async def test_a_run_that_is_not_over_is_stopped_once_by_who_lets_go(
    running, link, answer, left_running
):
    link.answers["stop"] = answer
    for _ in range(2):
        await running.close()
        assert link.asked[1:] == [("stop", {"session": "one"})]
    assert (running.left_running, link.is_closed) == (left_running, True)


async def test_a_run_that_is_over_is_not_stopped(running, link):
    await running.finish_run()
    await running.close()
    assert len(link.asked) == 1


async def test_a_run_that_is_still_being_launched_is_stopped_too(box, link):
    asked = link.answers["launch"] = asyncio.Event()
    link.answers["launch at last"] = link.answers["stop"] = {"session": "one"}
    launching = asyncio.create_task(box.launch(JOB))
    await until(lambda: link.asked)
    launching.cancel()
    closing = asyncio.create_task(box.close())
    await asyncio.sleep(0)
    asked.set()
    await closing
    assert link.asked[1:] == [("stop", {"session": "one"})]
    assert box.left_running is None
