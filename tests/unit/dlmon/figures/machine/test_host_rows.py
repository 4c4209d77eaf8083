"""What is said of watched hosts, and in which order they stand."""

from dataclasses import replace

import pytest
from fakes.hosts import FakeHost, facts, live, sample, session
from fakes.screens import Clock

from dlmon.figures.machine import host_rows as words
from dlmon.records import Gpu, Process, RateNow
from dlmon.remote.host import HostSnapshot, HostState, RunningSession
from dlmon.remote.ssh import JobEnded


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    words.units.time.tzset()
    return Clock(1_000_000_000_000)


@pytest.fixture
def host(clock):
    host = FakeHost("gpu1", clock)
    host.start()
    return host


@pytest.fixture
def status(host):
    """Return what is said of the host now: its status, its level, and the sentence."""

    def read():
        snapshot = host.snapshot()
        return (*words.status_of(snapshot), words.sentence_of(snapshot))

    return read


def test_what_is_said_of_a_host_follows_its_connection(host, clock, status):
    assert status() == ("connecting", "", "")
    host.connection.fail("gpu1 refuses connections by ssh", retry_s=3)
    assert status() == ("not reached", "high", "gpu1 refuses connections by ssh; next try in 3 s")
    clock.advance(0.4)
    assert status()[2] == "gpu1 refuses connections by ssh; next try in 3 s"
    host.connection.retry_at_ns = None
    assert status()[2] == "gpu1 refuses connections by ssh; trying again"
    host.connect()
    assert status() == ("waiting for the sensors", "", "waiting for the sensors")
    live(host, clock, seconds=1)
    assert status() == ("connected", "", "")
    clock.advance(5)
    host.connection.fail("gpu1: closed by remote host.", retry_s=300)
    assert status() == (
        "lost since 21:04:10",
        "high",
        "gpu1: closed by remote host; its figures are from 21:04:05; next try in 05:00",
    )
    host.connection.fail("12/gpu1: job 12 has ended", kind=JobEnded)
    assert status() == (
        "ended at 21:04:10",
        "",
        "12/gpu1: job 12 has ended; its figures are from 21:04:05",
    )
    # One that needs a person says what to do.
    host.connection.fail(
        "gpu1 has a host key that is not known yet: run ssh gpu1 once", may_pass=False
    )
    assert status()[:2] == ("needs you", "bad")
    assert status()[2].startswith("gpu1 has a host key that is not known yet: run ssh gpu1 once")


def test_missing_samples_are_said_with_their_time_and_are_a_warning_after_half_a_minute(
    host, clock, status
):
    live(host, clock)
    clock.advance(4)
    assert status() == ("no sample since 21:04:05", "", "no sample since 21:04:05")
    clock.advance(30)
    assert status()[:2] == ("no sample since 21:04:05", "high")
    host.status = "the sensors ended (killed)"
    assert status()[2] == "no sample since 21:04:05; the sensors ended (killed)"


@pytest.mark.parametrize(
    ("ahead_s", "said"),
    [
        (None, ""),
        (2.4, "clock 2 s ahead"),
        (-75.0, "clock 75 s behind"),
        (3_700.0, "clock 1:01:40 ahead"),
    ],
)
def test_a_clock_that_differs_is_said(ahead_s, said):
    host = HostSnapshot("gpu1", HostState.CONNECTED, clock_ahead_s=ahead_s)
    assert words.clock_away(host) == said
    assert said in words.sentence_of(host)


@pytest.mark.parametrize(
    ("users", "text"),
    [
        ([], ""),
        ([("ada", "python3 -m train.resnet --lr 1")], "ada train.resnet"),
        ([("ada", "/usr/bin/python3 /home/ada/fit.py")], "ada fit.py"),
        ([("ada", "julia run.jl"), ("ada", "julia run.jl")], "ada"),
        ([("ada", "a"), ("lin", "b")], "ada, lin"),
        ([(None, None)], "1 process"),
    ],
)
def test_who_is_on_a_gpu_is_said_with_what_a_single_process_runs(users, text):
    rows = tuple(Process(n, user, command, gpus=(0,)) for n, (user, command) in enumerate(users))
    machine = sample(1, processes=(*rows, Process(99, "eve", "x.py", gpus=(1,))))
    assert words.users_of(machine, Gpu(0)) == text


def test_a_host_is_identified_by_its_gpus_which_are_said_as_one_else_by_its_processor(host, clock):
    def identity(found):
        return words.identity(HostSnapshot("gpu1", facts=found.machine))

    assert identity(facts(gpus=4)) == "4 × NVIDIA H100 80GB HBM3"
    assert identity(facts(gpus=1)) == "NVIDIA H100 80GB HBM3"
    assert identity(facts(gpus=0)) == "AMD EPYC 9354"
    assert words.identity(HostSnapshot("gpu1")) == ""
    live(host, clock, gpus=2, busy=(0, 1))
    shown = host.snapshot()
    assert words.users_of(shown.machine) == "ada"
    assert words.gpu_memory_mib(shown) == (142 * 1024, 160 * 1024)
    assert words.gpu_power_text(shown) == "1024 W"
    # Where one does not report, a sum is unknown, or is at least that of the others.
    gpus = (Gpu(0, memory_used_mib=1024, power_w=70.0), Gpu(1, why={"power_w": "lost"}))
    other = FakeHost("gpu2", clock)
    other.start()
    other.connect()
    other.connection.report(facts(gpus=2))
    other.connection.report(replace(sample(clock()), gpus=gpus))
    shown = other.snapshot()
    assert words.gpu_power_text(shown) == "≥70 W"
    assert words.gpu_memory_mib(shown)[0] is None


def test_a_session_is_called_by_its_name_and_says_how_far_and_how_fast_it_is():
    rates = (RateNow(5_540.0, "samples/s"), RateNow(1e6, "tokens/s"))
    run = RunningSession("id", "cifar10-cnn", None, "training", 3, 10, rates[:1], (1,))
    assert words.session_title(run) == "cifar10-cnn"
    assert words.session_title(replace(run, name="base")) == "base"
    assert words.session_progress(run) == "epoch 3 of 10"
    assert words.session_progress(replace(run, epochs=None)) == "epoch 3"
    assert words.session_progress(replace(run, mode="train")) == "epoch 3 of 10"
    assert words.session_progress(replace(run, mode="inference")) == "pass 3 of 10"
    assert words.session_rate(run) == "5,540 samples/s"
    assert words.session_rate(replace(run, rates=rates)) == "1,000,000 tokens/s"
    assert words.session_device(run) == "GPU 1"
    early = replace(run, phase="compiling", epoch=None, rates=(), gpus=())
    assert words.session_progress(early) == "compiling"
    assert (words.session_rate(early), words.session_device(early)) == ("", "")
    paused = replace(run, phase="validating", rates=())
    assert words.session_rate(paused) == "validating"
    hung = replace(run, rates=(), overdue_s=20)
    assert words.session_rate(hung) == "no step for 20 s"
    without_epochs = replace(hung, epoch=None, epochs=None)
    assert words.session_progress(without_epochs) == ""
    assert words.session_rate(without_epochs) == "no step for 20 s"


def test_the_summary_counts_only_what_is_known_now(clock):
    hosts = [FakeHost(name, clock) for name in ("a", "b", "c", "d")]
    for host in hosts:
        host.start()
    live(hosts[0], clock, gpus=4)
    live(hosts[1], clock, gpus=2)
    hosts[0].run(session(1))
    hosts[1].run(session(2))
    hosts[1].connection.fail("gone")
    hosts[2].connection.fail("c has a host key that is not known yet", may_pass=False)
    said = words.summary([host.snapshot() for host in hosts])
    assert said == [
        *("4 hosts", "3 of 4 live GPUs free", "1 lost", "1 needs you", "1 connecting"),
        "1 session",
    ]
    clock.advance(4)
    assert words.summary([hosts[0].snapshot()]) == ["1 host", "1 silent"]


def test_of_a_machine_whose_processes_are_unknown_no_gpu_is_counted_as_taken(clock):
    known, recorded = FakeHost("a", clock), FakeHost("b", clock)
    for host in (known, recorded):
        host.start()
    live(known, clock, gpus=4)
    live(recorded, clock, gpus=2)
    unknown = recorded.snapshot()
    unknown = replace(unknown, machine=replace(unknown.machine, processes=None))
    assert words.summary([unknown]) == ["1 host", "2 GPUs"]
    assert words.summary([known.snapshot(), unknown]) == ["2 hosts", "3 of 4 GPUs free"]


def test_of_a_gpu_that_idles_the_session_that_trains_on_it_is_named(host, clock):
    live(host, clock)
    host.run(session(1, name="base", gpus=[1]))
    snapshot = host.snapshot()
    assert words.gpu_users(snapshot, snapshot.gpus[1]) == "base"
    assert words.gpu_users(snapshot, snapshot.gpus[0]).startswith("ada")
    host.run()
    snapshot = host.snapshot()
    assert words.gpu_users(snapshot, snapshot.gpus[1]) == "free"


def test_most_free_gpus_and_most_load_come_first_and_the_unknown_last(clock):
    made = {name: FakeHost(name, clock) for name in ("lost", "busy", "idle", "half")}
    for name, host in made.items():
        host.start()
        if name != "lost":
            busy = {"busy": (0, 1), "half": (0,), "idle": ()}[name]
            live(host, clock, gpus=2, busy=busy)
    hosts = [host.snapshot() for host in made.values()]

    def names(by, hosts=hosts):
        return [host.name for host in words.in_order(hosts, by)]

    assert names("free GPUs") == ["idle", "half", "busy", "lost"]
    assert names("load") == ["busy", "half", "idle", "lost"]
    # Names are sorted as people count.
    named = [HostSnapshot(name) for name in ("gpu10", "gpu2", "Ada", "gpu2b", "10.0.0.2")]
    assert names("name", named) == ["10.0.0.2", "Ada", "gpu2", "gpu2b", "gpu10"]
    assert words.in_order(named, "as named") == named


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("", ["gpu1", "cpu"]),
        ("GPU1", ["gpu1"]),
        ("free", ["gpu1"]),
        ("h100 ada", ["gpu1"]),
        ("cifar10", ["gpu1"]),
        ("connecting", ["cpu"]),
        ("gpu1 connecting", []),
    ],
)
def test_the_filter_finds_names_states_devices_users_and_sessions(host, clock, typed, names):
    live(host, clock)
    host.run(session(1))
    hosts = [host.snapshot(), HostSnapshot("cpu")]
    assert [each.name for each in words.matching(hosts, typed)] == names


def test_figures_that_are_not_current_have_a_time(host, clock):
    live(host, clock)
    assert words.time_of_figures(host.snapshot()) == ""
    clock.advance(45)
    assert words.time_of_figures(host.snapshot()) == "21:04:05"
