"""Viewers ask a supervisor, and it asks the processes of its run."""

import asyncio
import contextlib
import gzip
import json
import os
import socket
import threading
import uuid
from pathlib import Path

import pytest

from dlmon.protocol import control
from dlmon.protocol.control import NotControlled
from dlmon.records import (
    Answer,
    Frame,
    ProcessStack,
    Profile,
    SeenAt,
    SourceLines,
    Stack,
    ThreadStack,
    encode,
)
from dlmon.supervisor import connection as connection_module
from dlmon.supervisor.connection import VERSION, NotAnswered, ProcessConnection
from dlmon.supervisor.control import Control

LINE = Frame("/home/ada/train.py", 88, "save")
STACK = (ThreadStack("MainThread", (LINE,), LINE, trains=True),)
S = 10**9


class Process:
    """The other end of a connection: a process that answers as a test says."""

    def __init__(self, pid, rank=None, says_hello=True):
        ours, self.its = socket.socketpair()
        self.records, self.notices, self.asked = [], [], []
        self.connection = ProcessConnection(
            ours, (Stack,), self.records.append, self.notices.append
        )
        self.connection.pid, self.connection.rank, self.pid = pid, rank, pid
        if says_hello:
            self.send(Answer(0, 0, 1, pid))

    def send(self, record):
        self.its.sendall(encode(record))
        self.connection.read()

    def answer_with(self, make):
        """Answer each request that comes with what `make` makes of its number."""
        loop = asyncio.get_running_loop()

        def read():
            for line in self.its.recv(4096).splitlines():
                self.asked.append(json.loads(line))
                record = make(self.asked[-1]["id"])
                if record is not None:
                    self.send(record)

        loop.add_reader(self.its, read)

    def profile_as(self, write=b"", **fields):
        """Accept a request for a profile, and then send it with a trace of such bytes."""

        def make(number):
            if write:
                Path(self.asked[-1]["path"]).write_bytes(write)
            made = {"begin": 1, "end": 2, "steps": 5, "profiler": "torch", **fields}
            asyncio.get_running_loop().call_soon(self.send, Profile(3, number, **made))
            return Answer(1, number, VERSION, self.pid)

        self.answer_with(make)

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.connection.fd)
        self.its.close()


@pytest.fixture
def processes():
    made = []
    yield lambda *arguments, **named: made.append(Process(*arguments, **named)) or made[-1]
    for process in made:
        process.close()


def stack_answer(number):
    return ProcessStack(1, number, 999, STACK)


class Viewed:
    """A control that listens, and what it wrote."""

    def __init__(self, *processes, folder=Path()):
        self.folder = folder
        self.written, self.notices, self.session = [], [], uuid.uuid4().hex
        asked = [each.connection for each in processes]
        self.control = Control(lambda: asked, self.written.append, self.notices.append)

    async def ask(self, request=None, pid=None):
        await self.control.listen(self.session, self.folder)
        assert not any("can't be asked" in text for text in self.notices)
        try:
            asked = {"ask": "stack"} if request is None else request
            return await control.ask(self.session, pid or os.getpid(), asked)
        finally:
            self.control.close()


def test_a_viewer_gets_the_stack_of_every_process_and_the_log_too(processes):
    async def run():
        ranks = [processes(100, 0), processes(101, 1)]
        for rank in ranks:
            rank.answer_with(stack_answer)
        viewed = Viewed(*ranks)
        answers = await viewed.ask()
        # What it is, says its supervisor: it calls itself process 999.
        *stacks, source = answers
        assert [(each.pid, each.rank) for each in stacks] == [(100, 0), (101, 1)]
        assert all(each.threads == STACK for each in stacks)
        # Both are at one line, so its source is read once.
        assert (source.file, source.line) == (LINE.file, LINE.line)
        assert viewed.written == answers

    asyncio.run(run())


def test_one_that_does_not_answer_in_time_is_said_to(processes, monkeypatch):
    monkeypatch.setattr(connection_module, "ANSWER_S", 0.05)

    async def run():
        silent, older, ends = processes(100), processes(101, says_hello=False), processes(102)
        silent.answer_with(lambda number: None)
        ends.answer_with(lambda number: ends.connection.close())
        # One that nobody asked for is nobody's.
        silent.send(stack_answer(12345))
        answers = await Viewed(silent, older, ends).ask()
        assert [each.threads for each in answers] == [None] * 3
        assert answers[0].why["threads"].startswith("it did not answer within")
        assert answers[1].why["threads"] == "it takes no requests: an older dlmon is in it"
        assert answers[2].why == {"threads": "it has ended"}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"ask": "stack"}, "none of its processes trains now"),
        ({"ask": "dance"}, "the dlmon that records it does not know that request"),
        ({"v": 99, "ask": "stack"}, "the dlmon that records it does not know that request"),
        ({"other": 1}, "that is not a request"),
    ],
)
def test_what_can_not_be_done_is_one_sentence(request_, sentence):
    with pytest.raises(NotControlled, match=sentence):
        asyncio.run(Viewed().ask(request_))


def test_a_session_that_nobody_records_or_another_process_does_is_one_sentence():
    with pytest.raises(NotControlled, match="older dlmon"):
        asyncio.run(control.ask(uuid.uuid4().hex, 1, {"ask": "stack"}))
    with pytest.raises(NotControlled, match="another process"):
        asyncio.run(Viewed().ask(pid=1))


def test_a_viewer_that_leaves_waits_for_no_answer(processes):
    async def run():
        silent, is_asked = processes(100), asyncio.Event()
        silent.answer_with(lambda number: is_asked.set())
        asking = asyncio.ensure_future(Viewed(silent).ask(PROFILE))
        await is_asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        # The loop would wait for a thread as it ends.
        assert not [each.name for each in threading.enumerate() if each.name.startswith("asyncio")]

    asyncio.run(run())


@pytest.mark.parametrize("sent", [b"x" * 10_000, b"{" * 4000 + b"\n", b"\xff\n", b""], ids=range(4))
def test_what_is_no_request_is_refused_or_not_answered(sent):
    async def run():
        viewed = Viewed()
        await viewed.control.listen(viewed.session, viewed.folder)

        def send():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(10)
                connection.connect(control.address_of(viewed.session))
                with contextlib.suppress(ConnectionError):
                    connection.sendall(sent)
                    connection.shutdown(socket.SHUT_WR)
                    return connection.recv(4096)
            return b""

        try:
            assert b"end" not in await asyncio.to_thread(send)
        finally:
            viewed.control.close()

    asyncio.run(run())


def test_a_long_stall_asks_every_process_once_and_the_next_one_again(processes):
    async def run():
        process = processes(100, 0)
        process.answer_with(stack_answer)
        viewed = Viewed(process)
        seen = (SeenAt(1, LINE, LINE),)

        def stalled(begin, t, goes_on=True):
            viewed.control.take(Stack(t * S, begin * S, 1, 1, seen, goes_on))

        stalled(0, 16)
        stalled(0, 40, goes_on=None)
        stalled(0, 32)
        # Another rank of the same stall.
        stalled(1, 33)
        stalled(0, 64)
        stalled(100, 132)
        await asyncio.gather(*viewed.control._tasks)
        assert [each["ask"] for each in process.asked] == ["stack", "stack"]
        assert len([each for each in viewed.written if isinstance(each, ProcessStack)]) == 2

    asyncio.run(run())


async def written_of(viewed, kind):
    """Return the records of a kind, once there is one."""
    async with asyncio.timeout(10):
        while not any(isinstance(each, kind) for each in viewed.written):  # noqa: ASYNC110 - a list
            await asyncio.sleep(0.01)
    return [each for each in viewed.written if isinstance(each, kind)]


def test_the_source_where_a_run_stands_is_read_once_for_each_line(processes, tmp_path):
    async def run():
        (tmp_path / "train.py").write_text("a\nb\nc\n")
        viewed = Viewed(processes(100, 0))

        def stands_at(line, t, file=str(tmp_path / "train.py")):
            seen = (SeenAt(9, Frame("/usr/lib/python3.11/threading.py", 1, "wait"), None),)
            if line:
                frame = Frame(file, line, "f")
                seen = (SeenAt(9, seen[0].inner, frame),)
            viewed.control.take(Stack(t * S, 0, 9, 9, seen, goes_on=True))

        # Not in a short pause, not of code that is in no file.
        stands_at(1, 4)
        stands_at(1, 8, "<string>")
        stands_at(2, 8)
        stands_at(2, 16)
        assert [each.lines for each in await written_of(viewed, SourceLines)] == [("a", "b", "c")]
        viewed.written.clear()
        stands_at(3, 17)
        assert [each.line for each in await written_of(viewed, SourceLines)] == [3]

    asyncio.run(run())


def test_a_process_whose_lock_is_held_gets_its_stall_reported(processes, tmp_path, monkeypatch):
    monkeypatch.setattr(connection_module, "ANSWER_S", 0.05)
    held = 'Thread 0x00007f (most recent call first):\n  File "/home/ada/train.py", line 8 in go\n'

    async def run():
        process = processes(100, 0)
        process.connection.stacks_at = tmp_path / "held 100"
        process.connection.stacks_at.write_text(held)
        viewed = Viewed(process)
        viewed.control.take_silence(100 * S, 114 * S)
        assert not viewed.control._tasks
        for now in (115, 116):
            viewed.control.take_silence(100 * S, now * S)
        [stack] = await written_of(viewed, Stack)
        assert (stack.begin, stack.goes_on, stack.held) == (100 * S, True, 1)
        assert stack.places == (SeenAt(1, *[Frame("/home/ada/train.py", 8, "go")] * 2),)
        assert len([each for each in viewed.written if isinstance(each, ProcessStack)]) == 1

    asyncio.run(run())


def test_a_process_that_reports_its_stall_is_not_taken_as_silent(processes):
    async def run():
        viewed = Viewed(processes(100, 0))
        viewed.control.take(Stack(103 * S, 100 * S, 1, 1, (SeenAt(1, LINE, LINE),), goes_on=True))
        viewed.control.take_silence(100 * S, 120 * S)
        assert not viewed.control._tasks

    asyncio.run(run())


OPERATION = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 9}
TRACE = gzip.compress(json.dumps({"traceEvents": [OPERATION]}).encode())
PROFILE = {"ask": "profile", "steps": 5}


def test_a_profile_has_its_trace_beside_the_log_and_its_operations_in_it(processes, tmp_path):
    async def run():
        process = processes(100, 0)
        viewed = Viewed(process, folder=tmp_path)
        process.profile_as(TRACE)
        [profile] = await viewed.ask(PROFILE)
        assert viewed.written == [profile]
        assert (profile.file, profile.steps) == ("profile-1.json.gz", 5)
        assert profile.bytes == len(TRACE)
        assert [each.name for each in profile.operations] == ["aten::mm"]
        assert profile.why == {"idle": "nothing ran on a device"}
        assert [path.name for path in tmp_path.iterdir()] == ["profile-1.json.gz"]
        assert viewed.notices == ["5 steps profiled, which count in no figure: profile-1.json.gz"]
        again = await viewed.ask(PROFILE)
        assert again[0].file == "profile-2.json.gz"

    asyncio.run(run())


def test_a_trace_that_can_not_be_read_is_not_kept_and_one_that_was_not_made_is_one_sentence(
    processes, tmp_path
):
    async def run():
        process = processes(100, 0)
        viewed = Viewed(process, folder=tmp_path)
        process.profile_as(b"no trace")
        [profile] = await viewed.ask(PROFILE)
        assert profile.operations is None
        assert profile.why == {"operations": "it is not a known kind of trace"}
        assert list(tmp_path.iterdir()) == []
        process.profile_as(why={"file": "the trace can't be written: No space left on device"})
        with pytest.raises(NotControlled, match="No space left on device"):
            await viewed.ask(PROFILE)
        assert viewed.written == [profile]

    asyncio.run(run())


def test_a_second_profile_meanwhile_and_a_process_that_ends_in_it_are_one_sentence_each(
    processes, tmp_path
):
    async def run():
        process = processes(100, 0)
        process.answer_with(lambda number: Answer(1, number, VERSION, 100))
        viewed = Viewed(process, folder=tmp_path)
        first = asyncio.ensure_future(viewed.control.ask_profile(5))
        # Up to its process's answer.
        await asyncio.sleep(0)
        with pytest.raises(NotControlled, match="being made already"):
            await viewed.ask(PROFILE)
        # One that nobody asked for changes nothing.
        process.send(Profile(1, 99, 1, 2, 5, "torch"))
        process.connection.close()
        with pytest.raises(NotAnswered, match="the process ended before"):
            await first

    asyncio.run(run())


def test_the_source_at_the_callers_in_the_script_is_read_after_the_line_of_each(processes):
    library = Frame("/usr/lib/python3/dist-packages/torch/x.py", 1, "f")
    frames = (library, LINE, library, Frame(LINE.file, 141, "main"))
    stack = ThreadStack("MainThread", frames, LINE, trains=True)

    async def run():
        rank = processes(100, 0)
        rank.answer_with(lambda number: ProcessStack(1, number, 999, (stack,)))
        answers = await Viewed(rank).ask()
        assert sorted(each.line for each in answers if isinstance(each, SourceLines)) == [88, 141]

    asyncio.run(run())
