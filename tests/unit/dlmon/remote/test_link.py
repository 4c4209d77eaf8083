"""A connection that comes back: when it is tried again, what is asked again, whose clock it is."""

import asyncio

import pytest
from fakes.screens import Clock
from fakes.sessions import until

from dlmon.remote import connection as links
from dlmon.remote.connection import SILENCE_S, Connection, StandingRequest
from dlmon.remote.host_names import HostError
from dlmon.remote.ssh import JobEnded, SshError

SECOND = 1_000_000_000


@pytest.fixture
def clock():
    return Clock(100 * SECOND)


class FakeProcess:
    """Takes requests; a test answers them."""

    def __init__(self, boot_id="boot-1"):
        self.boot_id = boot_id
        self.asked = []
        self.cancelled = []
        self.is_closed = False
        self._said = asyncio.Queue()

    def write(self, request):
        if request["ask"] == "cancel":
            self.cancelled.append(request["id"])
        else:
            self.asked.append(request)

    @property
    def asks(self):
        return [request["ask"] for request in self.asked]

    async def answers(self):
        while True:
            said = await self._said.get()
            if isinstance(said, Exception):
                raise said
            yield said

    def answer(self, ask, **fields):
        """Answer the newest request of a kind."""
        number = next(each["id"] for each in reversed(self.asked) if each["ask"] == ask)
        self._said.put_nowait({"id": number, **fields})

    def lose(self, why="box: cut"):
        self._said.put_nowait(SshError(why))

    def is_heard(self):
        return self._said.empty()

    async def close(self):
        self.is_closed = True


class Host:
    """What `connect` reaches: a connection, or an error, each time as it stands then."""

    def __init__(self):
        self.outcome = None
        self.connections = []
        self.tries = 0

    async def connect(self, name):
        self.tries += 1
        if self.outcome is not None:
            raise self.outcome
        self.connections.append(FakeProcess())
        return self.connections[-1]


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def quick_pings(monkeypatch):
    """Let no test wait for the next ping; set before the link is started."""
    monkeypatch.setattr(links, "PING_S", 0.001)


@pytest.fixture
async def unstarted(host, clock):
    made = Connection("box", connect=host.connect, clock=clock)
    yield made
    await made.close()


@pytest.fixture
async def link(unstarted):
    unstarted.start()
    return unstarted


async def test_a_host_that_can_not_be_reached_is_tried_less_and_less_often(
    unstarted, host, monkeypatch
):
    waited = []

    async def wait(waiting, timeout_s):
        waiting.close()
        waited.append(timeout_s)
        if len(waited) == 7:
            await asyncio.Event().wait()
        raise TimeoutError

    monkeypatch.setattr(links.asyncio, "wait_for", wait)
    host.outcome = SshError("box refuses connections by ssh")
    unstarted.start()
    await until(lambda: len(waited) == 7)
    assert waited == [1, 3, 15, 60, 300, 300, 300]
    assert unstarted.problem == "box refuses connections by ssh"
    assert not unstarted.needs_person


async def test_a_node_whose_job_is_over_is_tried_no_more(unstarted, host):
    host.outcome = JobEnded("12/n1: job 12 has ended")
    unstarted.start()
    await until(lambda: unstarted.has_ended)
    unstarted.retry_now()
    await unstarted.close()
    assert unstarted.tries == 1


@pytest.mark.parametrize(
    "error", [SshError("box lets nobody in", may_pass=False), HostError("that is not a host")]
)
async def test_a_person_is_wanted_where_a_later_try_does_no_better(unstarted, host, error):
    host.outcome = error
    unstarted.start()
    await until(lambda: unstarted.problem == str(error))
    assert unstarted.needs_person


async def test_who_waits_for_the_first_connection_hears_of_a_failure_and_may_try_again(
    unstarted, host
):
    host.outcome = SshError("box refuses connections by ssh")
    unstarted.start()
    with pytest.raises(SshError, match="refuses connections"):
        await unstarted.wait_until_up()
    host.outcome = None
    unstarted.retry_now()
    await until(lambda: unstarted.is_up)
    await unstarted.wait_until_up()
    assert (unstarted.problem, unstarted.lost_at_ns, unstarted.retry_at_ns) == (None, None, None)
    assert unstarted.boot_id == "boot-1"


async def test_one_that_is_lost_at_once_again_and_again_is_tried_later(host, clock, monkeypatch):
    monkeypatch.setattr(links, "BACK_OFF_S", (0.0, 0.001, 1.0))
    link = Connection("box", connect=host.connect, clock=clock)
    link.start()
    for held_s, later_s in ((0, 0), (0, 0.001), (SILENCE_S + 1, 0), (0, 0.001), (0, 1.0)):
        await until(lambda: link.is_up)
        clock.advance(held_s)
        due = []
        host.connections[-1].lose()
        await until(lambda due=due: due.append(link.retry_at_ns) or due[-1] is not None)
        assert (due[-1] - clock()) / 1e9 == later_s
    await link.close()


async def test_what_stands_is_asked_on_each_connection_as_things_stand_then(link, host):
    answers, fields = [], {"n": 1}
    standing = StandingRequest("watch", lambda: dict(fields), answers.append)
    await until(lambda: link.is_up)
    link.add(standing)
    assert host.connections[0].asked[-1] | {"id": 0} == {"id": 0, "ask": "watch", "n": 1}
    host.connections[0].answer("watch", a=1)
    host.connections[0].lose("box: cut")
    await until(lambda: not link.is_up and link.retry_at_ns is not None)
    assert link.problem == "box: cut"
    fields["n"] = 2
    link.retry_now()
    await until(lambda: link.is_up)
    await until(lambda: "watch" in host.connections[1].asks)
    assert host.connections[1].asked[0]["n"] == 2
    host.connections[1].answer("watch", a=2)
    await until(lambda: len(answers) == 2)
    # That a connection was lost is the link's to report.
    assert answers == [{"a": 1}, {"a": 2}]
    link.remove(standing)
    assert host.connections[1].cancelled == [standing.number]
    host.connections[1].lose()
    await until(lambda: link.retry_at_ns is not None)
    link.retry_now()
    await until(lambda: link.is_up)
    await until(lambda: host.connections[2].asks)
    assert host.connections[2].asks == ["ping"]


@pytest.mark.usefixtures("quick_pings")
async def test_a_host_that_answers_nothing_for_long_is_lost(link, host, clock):
    await until(lambda: link.is_up)
    first = host.connections[0]
    answers = []
    link.add(StandingRequest("watch", dict, answers.append))
    clock.advance(SILENCE_S - 1)
    # Any answer shows that it is there.
    first.answer("watch", a=1)
    await until(lambda: answers)
    clock.advance(SILENCE_S - 1)
    pings = len(first.asked)
    await until(lambda: len(first.asked) > pings)
    assert link.is_up
    clock.advance(2)
    await until(lambda: link.retry_at_ns is not None)
    assert link.problem == "box stopped answering"
    assert first.is_closed
    assert link.lost_at_ns == clock()


@pytest.fixture
def pinged(link, host, clock, monkeypatch):
    """Return a function that lets a ping take so long, and be answered so."""
    monkeypatch.setattr(links.time, "time", lambda: clock.now_ns / 1e9)

    async def ping(trip_s, ahead_s, **changed):
        await until(lambda: link.is_up)
        connection = host.connections[-1]
        asked = len(connection.asked)
        await until(lambda: len(connection.asked) > asked)
        sent_ns = clock.now_ns
        clock.advance(trip_s)
        there_ns = sent_ns + int(trip_s * SECOND) // 2 + int(ahead_s * SECOND)
        connection.answer("ping", **{"t": there_ns, "wall": there_ns / 1e9, **changed})
        await until(connection.is_heard)

    return ping


@pytest.mark.usefixtures("quick_pings")
async def test_the_quickest_round_trip_tells_the_clocks_apart(link, pinged):
    await pinged(0.5, 7.2)
    assert link.clock_difference.round_trip_s == pytest.approx(0.5)
    await pinged(0.1, 7.0)
    await pinged(1.0, 7.4)
    assert link.clock_difference.round_trip_s == pytest.approx(0.1)
    assert link.clock_difference.monotonic_ns == pytest.approx(7.0 * SECOND)
    assert link.clock_difference.wall_s == pytest.approx(7.0)


@pytest.mark.usefixtures("quick_pings")
async def test_a_clock_that_began_anew_is_not_measured_by_the_old_one(link, host, pinged):
    await pinged(0.1, 7.0)
    boots = iter(["boot-1", "boot-2"])

    async def connect(name):
        host.connections.append(FakeProcess(next(boots)))
        return host.connections[-1]

    link._connect = connect
    for expected_s in (7.0, -50.0):
        host.connections[-1].lose()
        await until(lambda: link.retry_at_ns is not None)
        link.retry_now()
        await until(lambda: link.is_up)
        await pinged(0.3, expected_s)
        assert link.clock_difference.monotonic_ns == pytest.approx(expected_s * SECOND)


@pytest.mark.parametrize("wrong", ["now", None, 10**400, -1, 1.5, float("nan"), float("inf")])
@pytest.mark.usefixtures("quick_pings")
async def test_a_time_that_no_clock_shows_is_passed_over(link, pinged, wrong):
    await pinged(0.2, 7.0)
    await pinged(0.1, 9.0, t=wrong)
    await pinged(0.1, 9.0, wall="now" if wrong in (None, 1.5) else wrong)
    assert link.clock_difference.monotonic_ns == pytest.approx(7.0 * SECOND)


@pytest.mark.parametrize("steps", range(5))
async def test_it_is_closed_in_whichever_step_the_connection_is_lost(
    link, host, steps, monkeypatch
):
    monkeypatch.setattr(links, "_CANCELLED_S", 0.01)
    await until(lambda: link.is_up)
    host.connections[0].lose()
    for _ in range(steps):
        await asyncio.sleep(0)
    closing = asyncio.create_task(link.close())
    done, _ = await asyncio.wait({closing}, timeout=5)
    assert done
    assert host.connections[0].is_closed
    assert not link.is_up


async def test_closing_ends_a_try_that_is_under_way():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def connect(name):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    link = Connection("box", connect=connect)
    link.send("stop", lambda answer: pytest.fail("nothing was asked"))
    with pytest.raises(SshError, match="box is not connected"):
        await link.ask_one("ping")
    link.start()
    await begun.wait()
    await link.close()
    assert ended.is_set()
