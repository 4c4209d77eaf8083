"""A process tree read from a /proc made of files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import ProcessTree
from dlmon.sensors.processes.tree import FIELDS, ProcessProvider, Stat, descendants, parse_stat

SECOND = 1_000_000_000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGES_IN_MIB = 2**20 // os.sysconf("SC_PAGE_SIZE")


class Proc:
    """A /proc whose processes the test starts, ends and gives CPU time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "self").mkdir()
        (folder / "self" / "schedstat").write_text("1 0 9\n")

    def stat(
        self,
        pid: int,
        parent: int = 1,
        ticks: int = 0,
        started: int = 100,
        state: str = "S",
        threads: dict[int, int] | None = None,
        session: int = 1,
        faults: int = 0,
        waited_ms: int = 0,
        read_bytes: int = 0,
    ) -> None:
        task_ticks = threads if threads is not None else {pid: ticks}
        process = self.folder / str(pid)
        (process / "task").mkdir(parents=True, exist_ok=True)
        process.joinpath("stat").write_text(
            line(pid, parent, ticks, started, state, len(task_ticks), session, faults)
        )
        counted = f"rchar: 9\nwchar: 9\nread_bytes: {read_bytes}\nwrite_bytes: 9\n"
        process.joinpath("io").write_text(counted)
        for thread, spent in task_ticks.items():
            (process / "task" / str(thread)).mkdir(exist_ok=True)
            (process / "task" / str(thread) / "stat").write_text(
                line(thread, parent, spent, started, state, len(task_ticks))
            )
            schedstat = f"{1 + spent} {waited_ms * 1_000_000} 9\n"
            (process / "task" / str(thread) / "schedstat").write_text(schedstat)

    def end(self, pid: int) -> None:
        shutil.rmtree(self.folder / str(pid))


def line(pid, parent, ticks, started, state="S", threads=1, session=1, faults=0):
    return (
        f"{pid} (py) S (x) {state} {parent} 1 {session} 0 -1 4194304 1 0 {faults} 0 {ticks} 0 7 7 "
        f"20 0 {threads} 0 {started} 1000000 {3 * PAGES_IN_MIB} 184467440737 0 0 0\n"
    )


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def watching(proc: Proc, pid: int) -> ProcessProvider:
    provider = ProcessProvider(proc.folder)
    provider.watch(pid, 0)
    return provider


def tree(provider: ProcessProvider, t: int) -> ProcessTree:
    reported = provider.fast(t).process
    assert reported is not None
    return reported


def test_a_stat_line_with_brackets_in_its_name_is_read():
    assert parse_stat(line(7, 3, 42, 100, threads=5, session=2, faults=9)) == Stat(
        name="py) S (x",
        running=True,
        blocked=False,
        parent=3,
        session=2,
        major_faults=9,
        ticks=42,
        threads=5,
        started=100,
        rss_pages=3 * PAGES_IN_MIB,
    )


@pytest.mark.parametrize("text", ["", "1 (x) S 1 2", "1 (x) " + "a " * 30])
def test_a_line_that_is_no_stat_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the words are int()'s
        parse_stat(text)


@given(st.dictionaries(st.integers(2, 40), st.integers(1, 40)))
def test_descendants_end_for_any_parents_and_hold_all_children(parents):
    found = descendants([1], parents)
    assert found == {pid for pid in parents if parents[pid] == 1 or parents[pid] in found}


def test_a_tree_adds_up_its_processes(proc: Proc):
    proc.stat(10, threads={10: 0, 17: 0})
    proc.stat(11, parent=10)
    proc.stat(12, parent=11)
    proc.stat(99)
    provider = watching(proc, 10)
    proc.stat(10, ticks=TICKS_PER_S, threads={10: 0, 17: TICKS_PER_S})
    proc.stat(12, parent=11, ticks=TICKS_PER_S // 2)
    proc.stat(99, ticks=5000)
    assert tree(provider, SECOND) == ProcessTree(
        cpu_pct=150.0, rss_mib=9, processes=3, threads=4, major_faults_s=0.0, blocked=0
    )


def test_a_new_child_joins_in_the_slow_tier_without_its_past(proc: Proc):
    proc.stat(10)
    provider = watching(proc, 10)
    proc.stat(11, parent=10, ticks=700)
    assert tree(provider, SECOND).processes == 1
    provider.slow(SECOND)
    reported = tree(provider, 2 * SECOND)
    assert (reported.processes, reported.cpu_pct) == (2, 0.0)


def test_a_child_that_vanishes_takes_nothing_down(proc: Proc):
    proc.stat(10)
    proc.stat(11, parent=10)
    provider = watching(proc, 10)
    proc.end(11)
    assert tree(provider, SECOND).processes == 1
    assert provider.slow(SECOND).process == ProcessTree(
        busiest_thread_pct=0.0, busiest_process_pct=0.0, cpu_wait_pct=0.0, read_mib_s=0.0
    )


def test_a_child_stays_when_its_parent_ends(proc: Proc):
    proc.stat(10)
    proc.stat(11, parent=10)
    provider = watching(proc, 10)
    proc.end(10)
    proc.stat(11, parent=1)
    assert tree(provider, SECOND).processes == 1
    proc.stat(12, parent=11)
    provider.slow(SECOND)
    assert tree(provider, 2 * SECOND).processes == 2


def test_the_end_of_the_last_process_is_said(proc: Proc):
    proc.stat(10)
    proc.stat(20, started=100)
    ended, again, never = (watching(proc, pid) for pid in (10, 20, 4711))
    proc.end(10)
    # A pid that is used again is another process.
    proc.stat(20, started=999, ticks=5000)
    for t in (SECOND, 2 * SECOND):
        for provider in (ended, again):
            assert tree(provider, t).why == dict.fromkeys(FIELDS, "the process has ended")
            assert provider.slow(t).process is None
        assert tree(never, t).why == dict.fromkeys(FIELDS, "no such process")


def test_other_processes_of_the_same_run_join_it_with_their_descendants(proc: Proc):
    for pid, parent, session in ((10, 1, 10), (20, 1, 20), (21, 20, 20), (22, 1, 20), (30, 1, 30)):
        proc.stat(pid, parent=parent, session=session)
    provider = watching(proc, 10)
    provider.watch_too(20)
    provider.watch_too(4711)
    provider.slow(SECOND)
    assert sorted(provider.members) == [10, 20, 21, 22]
    # The session of one of them goes on without those of the others.
    proc.end(20)
    proc.stat(23, session=20)
    tree(provider, 2 * SECOND)
    provider.slow(3 * SECOND)
    assert sorted(provider.members) == [10, 21, 22, 23]


def test_the_busiest_process_has_the_time_of_all_its_threads(proc: Proc):
    proc.stat(10, threads={10: 50, 17: 900})
    proc.stat(11, parent=10, threads={11: 70})
    provider = watching(proc, 10)
    proc.stat(10, threads={10: 50 + 3 * TICKS_PER_S, 17: 900 + 2 * TICKS_PER_S})
    proc.stat(11, parent=10, threads={11: 70 + 4 * TICKS_PER_S})
    reported = provider.slow(5 * SECOND).process
    assert (reported.busiest_thread_pct, reported.busiest_process_pct) == (80.0, 100.0)
    # They are of the time since the slow reading before.
    assert provider.slow(10 * SECOND).process.busiest_thread_pct == 0.0


def test_the_wait_for_a_cpu_is_that_of_the_thread_that_waited_most_since_it_was_read(proc: Proc):
    proc.stat(10, ticks=50, waited_ms=700)
    proc.stat(11, parent=10, ticks=50, waited_ms=9_000)
    provider = watching(proc, 10)
    proc.stat(10, ticks=51, waited_ms=2_450)
    proc.stat(11, parent=10, ticks=60, waited_ms=9_100)
    assert provider.slow(5 * SECOND).process.cpu_wait_pct == 35.0
    assert provider.slow(10 * SECOND).process.cpu_wait_pct == 0.0
    # What one waited while it was not read counts for no later time.
    proc.stat(10, ticks=52, waited_ms=6_450)
    assert provider.slow(15 * SECOND).process.cpu_wait_pct == 0.0
    proc.stat(10, ticks=53, waited_ms=7_450)
    assert provider.slow(20 * SECOND).process.cpu_wait_pct == 20.0


def test_what_the_run_reads_from_disks_is_that_of_all_its_processes(proc: Proc):
    proc.stat(10, read_bytes=700 * 2**20)
    provider = watching(proc, 10)
    provider.slow(5 * SECOND)
    proc.stat(10, read_bytes=705 * 2**20)
    proc.stat(11, parent=10, read_bytes=5 * 2**20)
    assert provider.slow(10 * SECOND).process.read_mib_s == 2.0
    proc.end(11)
    assert provider.slow(15 * SECOND).process.read_mib_s == 0.0


@pytest.mark.parametrize("io", [None, "", "rchar: 9\n", "\nread_bytes: many\n"])
def test_where_the_kernel_does_not_count_reads_that_is_the_reason(proc: Proc, io):
    proc.stat(10)
    provider = watching(proc, 10)
    counted = proc.folder / "10" / "io"
    counted.unlink() if io is None else counted.write_text(io)
    reported = provider.slow(5 * SECOND).process
    assert (reported.read_mib_s, list(reported.why)) == (None, ["read_mib_s"])


@pytest.mark.parametrize("schedstat", ["", "0 0 0\n", "what is this\n"])
def test_where_the_kernel_does_not_count_waits_that_is_the_reason(proc: Proc, schedstat):
    (proc.folder / "self" / "schedstat").write_text(schedstat)
    proc.stat(10, ticks=50)
    provider = watching(proc, 10)
    proc.stat(10, ticks=60)
    reported = provider.slow(5 * SECOND).process
    assert (reported.cpu_wait_pct, list(reported.why)) == (None, ["cpu_wait_pct"])
    assert reported.busiest_thread_pct == 100 * 10 / TICKS_PER_S / 5


def test_a_child_whose_pid_was_a_strangers_before_is_found(proc: Proc):
    proc.stat(10)
    proc.stat(99)
    provider = watching(proc, 10)
    proc.stat(99, parent=10, started=200)
    provider.slow(SECOND)
    assert tree(provider, 2 * SECOND).processes == 2


def test_major_faults_are_those_of_the_tree_since_the_reading_before(proc: Proc):
    proc.stat(10, faults=50)
    proc.stat(11, parent=10, faults=8)
    proc.stat(99, faults=1)
    provider = watching(proc, 10)
    proc.stat(10, faults=70)
    proc.stat(11, parent=10, faults=13)
    proc.stat(99, faults=900)
    assert tree(provider, 2 * SECOND).major_faults_s == 12.5
    assert tree(provider, 3 * SECOND).major_faults_s == 0.0


@pytest.mark.parametrize(("leader", "members"), [(10, {10, 12, 13}), (7, {10})])
def test_an_orphan_belongs_to_a_run_that_leads_its_session(proc: Proc, leader, members):
    proc.stat(10, session=leader)
    provider = watching(proc, 10)
    proc.stat(12, parent=1, session=leader)
    proc.stat(13, parent=12, session=13)
    proc.stat(99, parent=1, session=1)
    provider.slow(SECOND)
    assert set(provider.members) == members


def test_a_new_session_under_the_pid_of_the_root_that_ended_is_foreign(proc: Proc):
    proc.stat(10, session=10)
    proc.stat(11, parent=10, session=11)
    provider = watching(proc, 10)
    proc.stat(10, session=10, started=999)
    proc.stat(12, parent=10, session=10)
    provider.fast(SECOND)
    provider.slow(SECOND)
    assert set(provider.members) == {11}
