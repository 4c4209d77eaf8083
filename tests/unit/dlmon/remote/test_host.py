"""A watched host: how it stands, how old its figures are, what runs there, which GPUs are free."""

from dataclasses import replace

import pytest
from fakes.hosts import BEGIN_WALL, GIB, FakeHost, facts, live, sample, session
from fakes.screens import Clock

from dlmon.figures.machine.readings import no_gpu_text
from dlmon.records import Gpu, GpuFacts, Notice, Process, RateNow
from dlmon.records.machine import MAX_ON_GPUS
from dlmon.remote.connection import ClockDifference
from dlmon.remote.host import Age, HostState, RunningSession, is_free

SECOND = 1_000_000_000


@pytest.fixture
def clock():
    return Clock(1_000 * SECOND)


@pytest.fixture
def host(clock):
    host = FakeHost("gpu1", clock)
    host.start()
    return host


# ---- how it stands ----


def test_one_that_never_answered_is_not_called_lost(host, clock):
    first = host.snapshot()
    assert (first.state, first.problem, first.age) == (HostState.CONNECTING, None, None)
    assert (first.lost_wall, first.retry_in_s) == (None, None)
    host.connection.fail("gpu1 refuses connections by ssh", retry_s=3)
    clock.advance(1)
    snapshot = host.snapshot()
    assert snapshot.state == HostState.UNREACHED
    assert snapshot.problem == "gpu1 refuses connections by ssh"
    assert snapshot.retry_in_s == 2.0


def test_one_that_answered_is_lost_since_it_was_found_missing(host, clock):
    live(host, clock)
    clock.advance(10)
    host.connection.fail("gpu1: the connection was closed", retry_s=1)
    clock.advance(5)
    snapshot = host.snapshot()
    assert snapshot.state == HostState.LOST
    assert snapshot.lost_wall == BEGIN_WALL + 10
    assert snapshot.retry_in_s == 0.0


def test_one_that_needs_a_person_says_so_whether_or_not_it_was_there(host, clock):
    host.connection.fail("gpu1 has a host key that is not known yet", may_pass=False)
    assert host.state == HostState.NEEDS_PERSON
    host.connect()
    assert host.state == HostState.CONNECTED
    assert host.snapshot().problem is None
    host.connection.fail("gpu1 shows another host key", may_pass=False)
    assert host.state == HostState.NEEDS_PERSON


def test_trying_now_leaves_a_connection_alone(host):
    host.connect()
    host.retry_now()
    assert host.connection.retries == 0
    host.connection.fail("gone")
    host.retry_now()
    assert host.connection.retries == 1


# ---- how old its figures are ----


@pytest.mark.parametrize(
    ("later_s", "age"),
    [(0, Age.FRESH), (2.4, Age.FRESH), (2.6, Age.LATE), (30, Age.LATE), (30.1, Age.OLD)],
)
def test_figures_are_late_after_two_missed_samples_and_old_after_half_a_minute(
    host, clock, later_s, age
):
    live(host, clock)
    clock.advance(later_s)
    assert host.snapshot().age == age
    assert host.snapshot().is_current == (age == Age.FRESH)
    assert host.snapshot().sample_wall == pytest.approx(BEGIN_WALL)


def test_samples_that_come_seldom_are_not_called_late_for_that(clock):
    host = FakeHost("gpu1", clock, interval_s=20.0)
    host.start()
    live(host, clock, seconds=0)
    clock.advance(45)
    assert host.snapshot().age == Age.FRESH
    clock.advance(6)
    assert host.snapshot().age == Age.OLD


@pytest.mark.parametrize(
    ("wall_s", "said"), [(0.4, None), (2.0, None), (-2.0, None), (2.1, 2.1), (-40.0, -40.0)]
)
def test_a_clock_that_differs_is_reported_from_two_seconds_on(host, wall_s, said):
    host.connect()
    host.connection.differ(wall_s)
    assert host.snapshot().clock_ahead_s == said


# ---- its readings ----


def test_gpus_that_its_sensors_leave_out_keep_their_names_until_it_reboots(host, clock):
    host.connect()
    both = facts(gpus=2)
    host.connection.report(both)
    host.connection.report(replace(both, machine=replace(both.machine, gpus=both.machine.gpus[1:])))
    assert [gpu.index for gpu in host.facts.gpus] == [0, 1]
    host.connection.boot_id = "another"
    host.connection.standing[0].fields()
    assert host.facts.gpus is None


def sample_at(seconds):
    return sample(int(seconds * SECOND))


def test_it_asks_for_samples_and_sessions_once_until_it_is_closed(clock):
    host = FakeHost("gpu1", clock, interval_s=0.5, pcie=True)
    for _ in range(2):
        host.start()
    watch, running = host.connection.standing
    assert (watch.ask, running.ask) == ("watch", "running")
    assert watch.fields() == {"interval_s": 0.5, "pcie": True}
    # A screen of it is left.
    host.stop()
    assert host.is_on
    assert host.connection.standing == [watch, running]


def test_the_age_of_a_sample_counts_from_when_it_came_and_older_ones_are_passed_over(host, clock):
    assert host.age_s is None
    # Whatever its own clock says.
    host.connection.report(*map(sample_at, (9_998, 9_998.5, 9_999)))
    assert (host.age_s, host.start_ns) == (0, 9_998 * SECOND)
    assert host.history.cpu_pct.mean is not None
    clock.advance(1)
    host.connection.report(*map(sample_at, (9_999, 5, 0)))
    assert host.history.latest.t == 9_999 * SECOND
    assert host.age_s == 1


def test_the_time_there_is_known_by_its_clock_or_its_last_sample(host, clock):
    assert host.now() == 0
    host.connection.report(sample_at(7))
    assert host.now() == 7 * SECOND
    host.connection.clock_difference = ClockDifference(
        monotonic_ns=-400 * SECOND, wall_s=0.0, round_trip_s=0.1
    )
    assert host.now() == 600 * SECOND
    clock.advance(1)
    assert host.now() == 601 * SECOND


def test_a_boot_begins_its_history_anew(host):
    host.connection.report(sample_at(5_000))
    host.connection.connect("boot-2")
    snapshot = host.snapshot()
    assert host.history.latest is None
    assert (snapshot.machine, snapshot.age, snapshot.free_gpus) == (None, None, None)
    host.connection.report(sample_at(3))
    assert (host.history.latest.t, host.start_ns) == (3 * SECOND, 3 * SECOND)


def test_what_it_has_to_say_is_read_once(host):
    host.connection.report(Notice(t=1, text="a GPU was lost"))
    host.connection.say("watch", error="this can't be watched")
    assert host.status == "this can't be watched"
    assert host.poll() == ["a GPU was lost", "this can't be watched"]
    assert host.poll() == []


@pytest.mark.parametrize("t", [0, 1, 2**62, 2**63 - 1])
def test_any_time_can_be_that_of_a_sample(host, t):
    host.connection.report(sample_at(1e-9), sample(t))
    assert host.history.latest.t == max(1, t)
    assert host.history.use() is not None


# ---- what runs there ----


def test_the_sessions_are_as_the_host_tells_them(host):
    assert host.snapshot().sessions is None
    host.run(session(1), session(2, gpus=[], epochs=None, rates=[]))
    first, second = host.snapshot().sessions
    rates = (RateNow(5_540.0, "samples/s"),)
    assert first == RunningSession(
        "20261122-210401-cifar10-cnn-001", "cifar10-cnn", None, "training", 3, 10, rates, (0,)
    )
    assert (second.epoch, second.epochs, second.rates) == (3, None, ())
    host.run()
    assert host.snapshot().sessions == ()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"epoch": "3"}, {"epochs": True}, {"rates": "fast"}, {"gpus": 3}),
        *(
            {"epoch": 10**40},
            {"rates": [{"per_second": float("nan"), "unit": "samples/s"}]},
            {"session": None},
            {"mode": 7},
        ),
    ],
)
def test_a_session_of_which_a_host_says_what_can_not_be_is_left_out(host, wrong):
    host.run(session(1, **wrong), session(2))
    assert len(host.snapshot().sessions) == 1


def test_what_can_be_no_session_is_left_out(host):
    host.run("text", None, {}, {"session": 7}, {"session": ""}, session(1))
    assert len(host.snapshot().sessions) == 1
    host.connection.say("running", sessions="none")
    assert len(host.snapshot().sessions) == 1
    host.connection.say("running", sessions=[session(1)] * 1_000)
    assert len(host.snapshot().sessions) == 64


def test_a_host_that_cannot_list_its_sessions_says_why(host):
    host.run(session(1))
    host.connection.say("running", error='this version of dlmon knows no "running"')
    snapshot = host.snapshot()
    assert snapshot.sessions is None
    assert snapshot.sessions_problem == 'this version of dlmon knows no "running"'
    host.run()
    assert (host.snapshot().sessions, host.snapshot().sessions_problem) == ((), None)


# ---- which GPUs are free ----


def one_gpu(utilization_pct=0, memory_mib=3, mig=None, processes=()):
    """Return a sample of a machine with one GPU of 80 GiB."""
    gpu = Gpu(0, utilization_pct=utilization_pct, memory_used_mib=memory_mib, mig=mig)
    return replace(sample(1, processes=processes), gpus=(gpu,))


def on_gpu(*gpus, pid=1, **more):
    return Process(pid, "ada", "python3 train.py", gpus=gpus, **more)


OTHERS = tuple(on_gpu(1, pid=number) for number in range(MAX_ON_GPUS))
OF_ANOTHER_NAMESPACE = Process(2, "ada", "python3", why={"gpus": "the driver reports the host's"})


@pytest.mark.parametrize(
    ("machine", "is_it"),
    [
        (one_gpu(), True),
        (one_gpu(utilization_pct=4, memory_mib=4 * GIB - 1), True),
        (one_gpu(processes=(OF_ANOTHER_NAMESPACE, on_gpu(1))), True),
        # Somebody may use it.
        (one_gpu(utilization_pct=5), False),
        (one_gpu(memory_mib=4 * GIB), False),
        (one_gpu(processes=(on_gpu(0),)), False),
        (one_gpu(processes=(on_gpu(1), on_gpu(1, 0))), False),
        (one_gpu(mig=True), False),
        # What is not known makes it no more free.
        (one_gpu(utilization_pct=None), False),
        (one_gpu(memory_mib=None), False),
        (replace(one_gpu(), processes=None), False),
        (replace(one_gpu(), why={"processes": "not permitted"}), False),
        # A full table may lack who is on it.
        (one_gpu(processes=OTHERS[1:]), True),
        (one_gpu(processes=OTHERS), False),
    ],
)
def test_a_gpu_is_free_that_nobody_uses_as_far_as_is_known(machine, is_it):
    assert is_free(machine.gpus[0], machine, facts(gpus=1).machine) is is_it


@pytest.mark.parametrize(
    ("machine", "is_it"),
    [
        # Its memory alone says whether somebody computes on it: the least that does holds more.
        (one_gpu(), True),
        (one_gpu(memory_mib=100), False),
        (one_gpu(utilization_pct=5), False),
        # The driver lists only this container's processes.
        (one_gpu(memory_mib=100, processes=(on_gpu(1),)), False),
        (one_gpu(processes=(on_gpu(0),)), False),
    ],
)
def test_a_gpu_with_memory_in_use_by_nobody_who_is_seen_is_not_free(machine, is_it):
    known = replace(
        facts(gpus=1).machine, sees_every_process=False, why={"sees_every_process": "hidden"}
    )
    assert is_free(machine.gpus[0], machine, known) is is_it
    row = Process(1, "ada", "sh", why={"gpus": "not supported"})
    machine = replace(machine, processes=(*machine.processes, row))
    assert is_free(machine.gpus[0], machine, facts(gpus=1).machine) is is_it


@pytest.mark.parametrize(
    ("machine", "is_it"),
    [
        (one_gpu(memory_mib=39 * GIB), True),
        (one_gpu(memory_mib=40 * GIB), False),
        (one_gpu(memory_mib=9 * GIB, processes=(on_gpu(0),)), False),
        (one_gpu(memory_mib=9 * GIB, processes=(OF_ANOTHER_NAMESPACE,)), True),
    ],
)
def test_a_gpu_that_uses_the_systems_memory_can_be_free(machine, is_it):
    gpu = GpuFacts(0, "NVIDIA GB10", memory_mib=80 * GIB, memory_kind="system")
    known = replace(facts(gpus=1).machine, gpus=(gpu,))
    assert is_free(machine.gpus[0], machine, known) is is_it


def test_a_gpu_is_free_once_it_has_been_idle_for_ten_seconds(host, clock):
    live(host, clock)
    clock.advance(1)
    host.connection.report(sample(clock(), busy=(0, 1), processes=()))
    for second in range(12):
        clock.advance(1)
        host.connection.report(sample(clock(), busy=(), processes=()))
        assert host.snapshot().free_gpus == ({0, 1} if second >= 9 else set()), second


def test_only_figures_of_now_make_a_gpu_free(host, clock):
    live(host, clock)
    assert host.snapshot().free_gpus == {1}
    clock.advance(3)
    assert host.snapshot().free_gpus is None
    live(host, clock)
    host.connection.fail("gone")
    assert host.snapshot().free_gpus is None


def test_a_gpu_that_a_session_trains_on_is_not_free_while_it_idles(host, clock):
    live(host, clock)
    assert host.snapshot().free_gpus == {1}
    host.run(session(1, gpus=[1]))
    assert host.snapshot().free_gpus == set()
    host.run()
    assert host.snapshot().free_gpus == {1}


# ---- its GPUs and its load ----


def test_gpus_that_are_no_longer_reported_stay_with_the_reason_and_where_are_none_it_is_said(
    host, clock
):
    live(host, clock)
    clock.advance(1)
    host.connection.report(replace(sample(clock()), gpus=None, why={"gpus": "lost"}))
    snapshot = host.snapshot()
    assert [(gpu.index, gpu.why["power_w"]) for gpu in snapshot.gpus] == [(0, "lost"), (1, "lost")]
    assert no_gpu_text(snapshot.machine, snapshot.facts) == ""
    other = FakeHost("gpu2", clock)
    other.start()
    live(other, clock, gpus=0)
    without = other.snapshot()
    why = "no GPU: no NVIDIA driver: libnvidia-ml.so.1 was not found"
    assert no_gpu_text(without.machine, without.facts) == why


def test_the_load_is_that_of_the_gpus_over_a_minute_else_of_the_cpu(clock):
    with_gpus, without = FakeHost("a", clock), FakeHost("b", clock)
    for host, gpus in ((with_gpus, 2), (without, 0)):
        host.start()
        assert host.snapshot().load_pct is None
        live(host, clock, gpus=gpus, seconds=60)
    assert with_gpus.snapshot().load_pct == pytest.approx(97 / 2, abs=0.5)
    assert without.snapshot().load_pct == pytest.approx(12.0, abs=0.5)
