import select
import socket
import sys
import tempfile
from types import SimpleNamespace

import pytest
from fakes.listener import Listener
from fakes.loops import KeptReporter
from fakes.sessions import eventually

from dlmon.instrument import emitter as emitter_module
from dlmon.instrument.reporter import Reporter, guarded
from dlmon.records import Model, Notice, Phase, decode


@pytest.fixture
def listener():
    with Listener() as listening:
        yield listening


def test_the_first_that_takes_it_counts_until_it_lets_go():
    reporter = Reporter("/nowhere/socket")
    assert reporter.take("keras")
    assert reporter.take("keras")
    assert not reporter.may_take("torch")
    assert not reporter.take("torch")
    reporter.let_go("torch")
    assert not reporter.take("torch")
    reporter.let_go("keras")
    assert reporter.take("torch")


def test_what_holds_the_reporter_ends_when_another_asks():
    reporter = Reporter("/nowhere/socket")
    ended = []

    def end():
        ended.append("keras")
        reporter.let_go("keras")

    reporter.take("keras", end)
    assert reporter.take("torch")
    assert ended == ["keras"]
    # Nothing holds it now that it is taken in earnest.
    assert not reporter.take("keras")


def test_a_loop_is_described_again_without_becoming_another():
    reporter = KeptReporter()
    reporter.begin_loop(batch_size=32, epochs=2, why={"parameters": "not built yet"})
    reporter.describe_loop(parameters=19)
    first, second = reporter.queue
    assert isinstance(second, Model)
    assert (first.loop, second.loop) == (0, 0)
    assert (second.batch_size, second.epochs, second.parameters) == (32, 2, 19)
    assert "parameters" in first.why
    assert "parameters" not in second.why
    reporter.begin_loop()
    assert reporter.queue[-1].loop == 1


@pytest.mark.parametrize(
    ("launcher", "is_initialized", "said"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4"}, True, (3, 4)),
        ({}, True, (1, 2)),
        ({}, False, (None, None)),
    ],
)
def test_a_rank_is_what_the_launcher_says_else_pytorch(
    listener, monkeypatch, launcher, is_initialized, said
):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: is_initialized,
        get_rank=lambda: 1,
        get_world_size=lambda: 2,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    reporter = Reporter(listener.path)
    reporter.start("torch", "2.13")
    reporter.close()
    [process] = listener.reported()
    assert (process.trainer.rank, process.trainer.world_size) == said


def test_an_error_in_a_hook_turns_it_off_and_the_log_says_why(listener):
    reporter = Reporter(listener.path)
    reporter.start("torch", "2.13")

    @guarded(reporter)
    def hook():
        raise ValueError("not this one")

    assert hook() is None
    assert not reporter.is_on
    [process] = listener.reported()
    [notice] = process.of(Notice)
    assert "ValueError: not this one" in notice.text


@pytest.fixture
def server():
    """A monitor that takes a connection, and reads only when it is asked to."""
    with (
        tempfile.TemporaryDirectory(prefix="dlmon") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening,
    ):
        listening.bind(f"{folder}/socket")
        listening.listen()
        yield listening


def test_a_monitor_that_does_not_read_for_a_while_gets_everything_later(server, monkeypatch):
    waits = []

    class Poll:
        def __init__(self):
            self.register = (real := select.poll()).register
            self.real = real

        def poll(self, timeout_ms):
            waits.append(timeout_ms)
            return self.real.poll(timeout_ms)

    monkeypatch.setattr(emitter_module, "select", SimpleNamespace(poll=Poll, POLLOUT=4))
    reporter = Reporter(server.getsockname())
    assert reporter.start("torch", "2.13")
    connection, _ = server.accept()
    for number in range(20_000):
        reporter.enter(f"phase {number}", number)
    # Twice it has waited as long as it does, for a monitor that reads nothing.
    eventually(lambda: len(waits) >= 2, "two waits for room")
    received = bytearray()
    connection.settimeout(10)
    with connection:
        while received.count(b"\n") < 20_002:
            received += connection.recv(1 << 16)
    # Before them it said what trains, and that it takes requests.
    records = [decode(line) for line in received.splitlines()]
    assert [each.t for each in records if isinstance(each, Phase)] == list(range(20_000))
    assert reporter.is_on
    reporter.close()


def test_a_monitor_that_goes_away_is_reported_to_no_more(server):
    reporter = Reporter(server.getsockname())
    assert reporter.start("torch", "2.13")
    emitter = reporter._emitter
    connection, _ = server.accept()
    connection.close()

    def is_noticed():
        reporter.enter("training")
        return emitter.reads.stop_requested

    eventually(is_noticed, "the end of the connection to be noticed")
    assert reporter.is_on
    reporter.close()
