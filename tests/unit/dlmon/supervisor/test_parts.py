"""What other machines of a run recorded becomes one session: times, processes, machines."""

import asyncio
import threading
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session

from dlmon.log.log_follower import LogFollower
from dlmon.records import (
    Batches,
    CodeSamples,
    Cpu,
    Epoch,
    Frame,
    FrameworkMemory,
    Machine,
    MachineFacts,
    Memory,
    Model,
    Node,
    Notice,
    Result,
    SeenAt,
    StepParts,
    Trainer,
    encode,
)
from dlmon.session.limits.ranks import straggler_of
from dlmon.session.loops import ProcessRate
from dlmon.session.session import Session
from dlmon.supervisor import parts
from dlmon.supervisor.parts import Parts

S = 1_000_000_000
HEADER = replace(recorded_session("training")[0], host="first", node="n0", t=1000 * S, wall=5e8)
MODEL = Model(None, None, 32, 320, 10, 2)
TRAINER = Trainer(0, 0, 41, "torch", rank=1, world_size=2)


class Run:
    """A session whose other parts are written as a test says."""

    def __init__(self, folder):
        self.folder, self.written, self.here = folder, [], []
        self.parts = Parts(folder, HEADER, self.written.append, self.here.append)

    def part(self, *records, number=1, node="n1", t=7 * S, wall=5e8, **header):
        """Add to the log of a part, whose machine booted at another time."""
        path = self.folder / f"part-{number}.jsonl"
        if not path.exists():
            own = {"boot_id": "another", **header}
            first = replace(HEADER, host=f"host-{node}", node=node, t=t, wall=wall, **own)
            path.write_bytes(encode(first))
        with path.open("ab") as log:
            log.writelines(map(encode, records))

    def read(self, kind=object):
        asyncio.run(self.parts.read())
        return [record for record in self.written if isinstance(record, kind)]


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path)
    yield run
    run.parts.close()


def epoch(number, end_s, **more):
    begin = int((end_s - 1) * S)
    return Epoch(number, begin, int(end_s * S), int(end_s * S), True, 320, {}, **more)


def test_the_processes_of_another_machine_train_beside_those_of_this_one(run):
    run.part(
        replace(TRAINER, t=8 * S),
        MODEL,
        Batches(0, 0, 32, 9 * S, (100_000, 200_000)),
        replace(TRAINER, t=8 * S, number=1, rank=2),
        replace(MODEL, trainer=1),
        epoch(0, 10),
    )
    run.part(TRAINER, number=2, node="n2")
    first, second, third = run.read(Trainer)
    names = [ProcessRate(one, None).name for one in (second, replace(second, rank=None))]
    assert names == ["rank 2", "process 1"]
    assert (first.number, first.host, first.rank, first.t) == (1000, "n1", 1, 1001 * S)
    assert (second.number, second.rank) == (1001, 2)
    assert (third.number, third.host) == (2000, "n2")
    assert [model.trainer for model in run.read(Model)] == [1000, 1001]
    (batches,) = run.read(Batches)
    assert (batches.trainer, batches.t, batches.dt_us) == (1000, 1002 * S, (100_000, 200_000))
    (ended,) = run.read(Epoch)
    assert (ended.trainer, ended.begin, ended.end) == (1000, 1002 * S, 1003 * S)


def test_what_is_being_read_when_the_session_ends_is_taken_too(run, monkeypatch):
    run.part(TRAINER, Batches(0, 0, 32, 9 * S, (100_000, 200_000)))
    new_records, is_cancelled = LogFollower.new_records, threading.Event()

    async def end_while_a_thread_reads():
        loop, began = asyncio.get_running_loop(), asyncio.Event()

        def read_slowly(*arguments):
            loop.call_soon_threadsafe(began.set)
            is_cancelled.wait(10)
            return new_records(*arguments)

        monkeypatch.setattr(LogFollower, "new_records", read_slowly)
        reading = asyncio.create_task(run.parts.read())
        await began.wait()
        reading.cancel()
        await asyncio.wait({reading})
        is_cancelled.set()
        run.part(Batches(0, 2, 32, 10 * S, (300_000,)))
        await run.parts.read()

    asyncio.run(end_while_a_thread_reads())
    run.parts.close()
    batches = [one.dt_us for one in run.written if isinstance(one, Batches)]
    assert batches == [(100_000, 200_000), (300_000,)]


def test_each_machine_is_shown_once_with_its_facts(run):
    sample = Machine(9 * S, 5e8, cpu=Cpu(pct=50.0))
    # Another process of the same machine, without sensors, and one of the machine whose log it is.
    run.part(number=1, node="n1")
    run.part(sample, number=2, node="n1", machine=MachineFacts(cores=64))
    run.part(sample, number=3, node="n1")
    run.part(sample, number=4, node="n0")
    facts, reading = run.read(Node)
    assert (facts.host, facts.facts.cores, facts.machine) == ("n1", 64, None)
    assert (reading.host, reading.t, reading.machine.t) == ("n1", 1002 * S, 1002 * S)
    assert reading.machine.cpu.pct == 50.0


def test_a_process_of_the_same_machine_is_told_from_other_programs(run):
    run.part(replace(TRAINER, pid=4711), node="n0")
    run.part(replace(TRAINER, pid=4712), node="n1", number=2)
    here, elsewhere = run.read(Trainer)
    assert (here.number, here.host, elsewhere.host) == (1000, None, "n1")
    assert run.here == [4711]


def test_a_clock_that_is_wrong_is_set_by_the_end_of_an_epoch_that_both_have(run):
    run.parts.take_epoch(epoch(0, 1010))
    run.part(epoch(0, 17), epoch(1, 19), wall=5e8 - 180)
    (notice,) = run.read(Notice)
    assert (
        notice.text == "the clock of n1 is 180 s behind: its times are moved by the end of epoch 1"
    )
    assert [one.end for one in run.read(Epoch)] == [1010 * S, 1012 * S]


def test_clocks_that_agree_are_left_as_they_are(run):
    run.parts.take_epoch(epoch(0, 1011))
    run.part(epoch(0, 17))
    assert run.read(Notice) == []
    assert [one.end for one in run.read(Epoch)] == [1010 * S]


def test_what_failed_there_and_what_its_supervisor_said_is_said_here(run):
    result = next(one for one in recorded_session() if isinstance(one, Result))
    run.part(Notice(8 * S, "the disk is full"), replace(result, status="failed", error="no memory"))
    assert [notice.text for notice in run.read(Notice)] == [
        "n1: the disk is full",
        "n1: the script failed: no memory",
    ]


def test_a_part_that_is_torn_or_still_without_a_whole_header_is_read_on_later(run):
    (run.folder / "part-1.jsonl").write_bytes(encode(HEADER)[:100])
    assert run.read() == []
    (run.folder / "part-1.jsonl").unlink()
    run.part(TRAINER)
    with (run.folder / "part-1.jsonl").open("ab") as log:
        log.write(b'{"type":"bat')
    assert len(run.read(Trainer)) == 1


def test_the_last_records_of_all_parts_are_waited_for(run):
    run.part(TRAINER)
    result = next(one for one in recorded_session() if isinstance(one, Result))

    async def end():
        ending = asyncio.create_task(run.parts.finish())
        await asyncio.sleep(0)
        run.part(epoch(0, 10), result)
        await asyncio.wait_for(ending, 5)

    asyncio.run(end())
    assert [type(one) for one in run.written] == [Trainer, Epoch]


def test_of_very_many_processes_batches_are_written_seldom_and_none_is_lost(run, monkeypatch):
    monkeypatch.setattr(parts, "FEW_RANKS", 1)
    monkeypatch.setattr(parts, "RANKS_A_SECOND", 1)

    def batches(first, trainer):
        times = (250_000,) * 4
        return Batches(0, first, 32, int((9.25 + first / 4) * S), times, trainer=trainer)

    for number in (1, 2):
        run.part(replace(TRAINER, number=number))
    run.part(*(batches(first, number) for first in range(0, 12, 4) for number in (1, 2)))
    written = run.read(Batches)
    # As many seconds as there are ranks.
    assert [(one.trainer, one.first, one.count) for one in written] == [(1001, 0, 8), (1002, 0, 8)]
    run.part(replace(epoch(0, 12), trainer=2))
    kinds = [type(one) for one in run.read()]
    assert kinds[-3:] == [Batches, Epoch, Batches]
    run.parts.close()
    assert sum(one.count for one in run.read(Batches)) == 24


def test_a_rank_of_another_machine_that_works_longer_is_named_with_its_line(run):
    """Each steps in 50 ms; one has 10 ms more in its own code, the other in collectives."""
    session = Session(HEADER)
    session.add_all([replace(TRAINER, rank=0), MODEL])
    line = CodeSamples(8 * S, 40, (SeenAt(40, Frame("train.py", 12, "<module>")),))
    run.part(replace(TRAINER, t=7 * S), MODEL, line)
    for number in range(12):
        ended = Batches(0, 20 * number, 32, 0, (50_000,) * 20)
        parts = StepParts(0, 4, 200_000, 4_000, None, 30_000, 46_000, 20_000, 72_000)
        slow = replace(parts, collective_us=32_000)
        run.part(replace(ended, t=(8 + number) * S), replace(slow, t=(8 + number) * S))
        session.add_all(
            [replace(ended, t=(1001 + number) * S), replace(parts, t=(1001 + number) * S)]
        )
    session.add_all(run.read())
    straggler = straggler_of(session.snapshot().trainers)
    assert straggler is not None
    assert straggler.compared(was=False) == "rank 1 on n1 works 50.0 ms a step, the other 40.0 ms"
    assert straggler.where == "10.0 ms more in your code"
    assert straggler.advice.startswith("take train.py:12 out of the loop of rank 1 on n1")
    limit = session.snapshot().limit
    assert limit is not None
    assert limit.lead.name == "WAITING FOR RANK 1"


def test_of_very_many_processes_the_parts_of_steps_are_summed_and_written_seldom(run, monkeypatch):
    monkeypatch.setattr(parts, "FEW_RANKS", 1)
    monkeypatch.setattr(parts, "RANKS_A_SECOND", 1)
    run.part(TRAINER, *(StepParts(t * S, 4, 100, forward_us=10 * t) for t in range(9, 14)))
    written = [(one.steps, one.step_us, one.forward_us) for one in run.read(StepParts)]
    assert written == [(4, 100, 90), (8, 200, 210), (8, 200, 250)]
    run.part(StepParts(14 * S, 4, 100), epoch(0, 14))
    assert [type(one) for one in run.read()][-2:] == [StepParts, Epoch]


def test_of_very_many_machines_every_other_sample_is_written_with_what_changed(run, monkeypatch):
    monkeypatch.setattr(parts, "FEW_MACHINES", 0)
    samples = [
        Machine(t * S, 5e8, cpu=Cpu(pct=float(t)), memory=Memory(used_mib=t, swap_used_mib=swap))
        for t, swap in ((9, 1), (10, 2), (11, None), (12, None))
    ]
    run.part(*samples)
    shown = [one.machine for one in run.read(Node) if one.machine is not None]
    assert [(one.cpu.pct, one.memory.used_mib) for one in shown] == [(10.0, 10), (12.0, 12)]
    assert [one.memory.swap_used_mib for one in shown] == [2, None]


def test_of_very_many_processes_memory_is_written_seldom_and_as_it_stood_last(run, monkeypatch):
    monkeypatch.setattr(parts, "FEW_RANKS", 1)
    monkeypatch.setattr(parts, "RANKS_A_SECOND", 1)
    run.part(TRAINER, *(FrameworkMemory(t * S, "torch", 0, t, t) for t in range(9, 14)))
    assert [one.allocated_mib for one in run.read(FrameworkMemory)] == [9, 11, 13]
    run.part(FrameworkMemory(14 * S, "torch", 0, 14, 14), epoch(0, 14))
    assert [type(one) for one in run.read()][-2:] == [FrameworkMemory, Epoch]
    run.part(
        FrameworkMemory(15 * S, "torch", 0, 15, 15), FrameworkMemory(16 * S, "torch", 0, 1, 15)
    )
    run.read()
    run.parts.close()
    assert [one.allocated_mib for one in run.read(FrameworkMemory)][-1] == 1
