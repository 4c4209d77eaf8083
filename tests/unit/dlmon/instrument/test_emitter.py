"""The emitter on real sockets: it never blocks, and whatever it was given arrives."""

import os
import select
import socket
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from dlmon.instrument import emitter as emitter_module
from dlmon.instrument.emitter import Emitter
from dlmon.instrument.keras_data import BatchSizes
from dlmon.instrument.queued import EpochStart
from dlmon.records import FrameworkMemory, Notice, Output, Trainer, decode

MS = 1_000_000
DEADLINE_S = 20.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workloads run on Linux")


class Pipe:
    """A socket with an emitter at one end, and a reader that reads when it is asked to."""

    def __init__(self):
        ours, self.its = socket.socketpair()
        self.its.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        ours.setblocking(False)
        self.read_fd = ours.detach()
        # As a supervisor hands it over.
        self.its.set_inheritable(True)
        self.emitter = Emitter(self.its)

    def read_to_end(self):
        """Return the records that come until the emitter closes its end."""
        data, ended = b"", False
        while not ended:
            assert select.select([self.read_fd], [], [], DEADLINE_S)[0], "nothing came any more"
            data += (more := os.read(self.read_fd, 777))
            ended = not more
        return [decode(line) for line in data.splitlines()]

    def full(self):
        return not select.select([], [self.its], [], 0)[1]

    def close_reader(self):
        if self.read_fd >= 0:
            os.close(self.read_fd)
            self.read_fd = -1


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never came"
        time.sleep(0.001)


@pytest.fixture
def pipe(monkeypatch):
    monkeypatch.setattr(emitter_module, "FLUSH_S", 0.005)
    made = Pipe()
    yield made
    made.close_reader()
    made.emitter.close()


def lines_of(count, since=0):
    return [Output(number, "stdout", f"line {number}") for number in range(since, since + count)]


def send_all(emitter, items):
    for item in items:
        emitter.send(item)


def test_it_is_known_how_much_longer_the_steady_state_must_last(pipe):
    assert pipe.emitter.steady_left_us(3_000_000) == 4_000_000
    pipe.emitter.send(EpochStart(0, 0, BatchSizes.of_samples(200, 10)))
    for index in range(20):
        pipe.emitter.batch_ended((index + 1) * 200 * MS)
    # The first compiles, and ten are warm-up.
    wait_for(lambda: pipe.emitter.steady_left_us(3_000_000) == 3_000_000 - 9 * 200_000)
    assert pipe.emitter.steady_left_us(1_000_000) == 0


def test_the_side_thread_says_what_frameworks_hold_of_gpus(pipe, monkeypatch):
    threads = []

    def is_initialized():
        threads.append(threading.current_thread().name)
        return True

    of = {"all": {"current": 2 << 30, "peak": 3 << 30}}
    stats = {"allocated_bytes": of, "reserved_bytes": of, "num_alloc_retries": 1, "num_ooms": 0}
    cuda = SimpleNamespace(
        is_initialized=is_initialized,
        device_count=lambda: 1,
        memory_stats_as_nested_dict=lambda device: stats,
        get_device_properties=lambda device: SimpleNamespace(total_memory=8 << 30),
    )
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(emitter_module, "READ_NS", 0)
    wait_for(lambda: len(threads) > 2)
    pipe.emitter.close()
    [said] = [one for one in pipe.read_to_end() if isinstance(one, FrameworkMemory)]
    assert (said.allocated_mib, said.peak_mib, said.limit_mib) == (2048, 3072, 8192)
    assert set(threads) == {"dlmon-emit"}


def test_nobody_who_sends_waits_for_a_reader_and_all_of_it_arrives(pipe):
    first, then = lines_of(2_000), lines_of(2_000, 2_000)
    send_all(pipe.emitter, first)
    wait_for(pipe.full)
    # Nobody reads, and this thread is the only one that could: a send that waited would hang.
    send_all(pipe.emitter, [*then, Output(0, "stdout", "x" * 30_000)])
    closing = threading.Thread(target=pipe.emitter.close)
    closing.start()
    assert pipe.read_to_end() == [*first, *then, Output(0, "stdout", "x" * 30_000)]
    closing.join(DEADLINE_S)
    assert not closing.is_alive()


class Interrupted(socket.socket):
    """A socket that calls `meanwhile` in another thread once it has sent something first."""

    meanwhile = None

    def send(self, *arguments):
        written = super().send(*arguments)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            other = threading.Thread(target=meanwhile)
            other.start()
            other.join()
        return written


def test_what_another_thread_sends_last_leaves_what_is_being_sent_whole_and_stops_nothing(
    monkeypatch,
):
    monkeypatch.setattr(emitter_module, "FLUSH_S", 0.005)
    ours, its = socket.socketpair()
    connection = Interrupted(fileno=its.detach())
    emitter = Emitter(connection)
    records, last = lines_of(3), Notice(4, "it stopped watching")
    connection.meanwhile = lambda: emitter.abandon(last)
    send_all(emitter, records)
    with ours:
        ours.settimeout(DEADLINE_S)
        data = b"".join(iter(lambda: ours.recv(777), b""))
    assert [decode(line) for line in data.splitlines()] == [*records, last]
    assert not emitter.reads.stop_requested


def test_a_reader_that_is_gone_asks_for_a_stop(pipe):
    assert not pipe.emitter.reads.stop_requested
    pipe.close_reader()
    pipe.emitter.send(Notice(0, "nobody hears this"))
    wait_for(lambda: pipe.emitter.reads.stop_requested)
    send_all(pipe.emitter, lines_of(100))
    pipe.emitter.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_does_not_hold_the_pipe_open(pipe):
    hold_read, hold_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hold_write)
        os.read(hold_read, 1)
        os._exit(0)
    os.close(hold_read)
    try:
        pipe.emitter.send(Notice(0, "from the parent"))
        pipe.emitter.close()
        assert pipe.read_to_end() == [Notice(0, "from the parent")]
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.close(hold_write)
        os.waitpid(child, 0)


def read_all(connection):
    return b"".join(iter(lambda: connection.recv(777), b""))


def test_a_script_that_closes_the_connection_and_takes_its_number_loses_nothing(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(emitter_module, "FLUSH_S", 0.005)
    ours, its = socket.socketpair()
    its.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    again, connects = socket.socketpair()
    fd = its.fileno()
    trainer = Trainer(1, 0, os.getpid(), "torch")
    emitter = Emitter(its, connect=lambda: connects)
    # More than the connection holds, so that a line is sent in part when it is closed.
    records = [trainer, *lines_of(2_000)]
    send_all(emitter, records)
    wait_for(lambda: not select.select([], [fd], [], 0)[1])
    with (tmp_path / "own").open("wb") as own:
        os.dup2(own.fileno(), fd)
        more = lines_of(10, 2_000)
        send_all(emitter, more)
        closing = threading.Thread(target=emitter.close)
        closing.start()
        with ours, again:
            first, second = map(read_all, (ours, again))
        closing.join()
        # It is still open, and nothing was written to it.
        assert os.fstat(fd).st_size == 0
        os.close(fd)
    first = first[: first.rfind(b"\n") + 1]
    before, after = ([decode(line) for line in part.splitlines()] for part in (first, second))
    assert before
    assert after[0] == trainer
    assert after[-1].ended
    assert [*before, *after[1:-1]] == [*records, *more]
    assert not emitter.reads.stop_requested
