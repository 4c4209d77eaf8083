"""The file of a sweep: what it keeps, who may write it, and what a broken one costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.sweeps import completed, plan_of
from hypothesis import given
from hypothesis import strategies as st

import dlmon.log.directory
import dlmon.sweep.log
from dlmon.log.directory import NoSuchLog, find_log, list_sessions
from dlmon.log.folder import LOG_NAME, LogError
from dlmon.log.label import Label, read_label, write_label
from dlmon.records import Began, Closed, Ended, Outcome, Resumed, RunStatus, Slot, SweepHeader
from dlmon.sweep.log import (
    SWEEP_NAME,
    SweepWriter,
    list_sweeps,
    new_header,
    read_sweep,
    refuse_another_sweep,
    relabel,
    session_under_way,
)
from dlmon.sweep.machine_lock import refuse_another_experiment
from dlmon.sweep.plan import SweepError
from dlmon.sweep.progress import Sweep

PLAN = plan_of({"batch_size": [32, 64], "device": ["cpu", "gpu:0"]}, repeats=2)


@pytest.fixture
def log_dir(tmp_path):
    return tmp_path / "sessions"


@pytest.fixture
def begin(log_dir):
    """Return a function that begins a sweep; its file is closed at the end."""
    writers = []

    def make(plan=PLAN, wall=1_795_186_560.0):
        writers.append(SweepWriter.create(log_dir, new_header(plan, 7, wall)))
        return writers[-1]

    yield make
    for writer in writers:
        try:
            writer.close()
        except OSError:  # closed by its test
            continue


def listed(log_dir):
    return [(entry.header.id, entry.status, entry.pid) for entry in list_sweeps(log_dir)]


EVENTS = (
    Began(Slot(0, 0), "20261120-145600-mnist-mlp-small-7f3a", 2.0),
    Ended(Slot(0, 0), completed(0.41, cost_usd=0.02), 12.0),
    Ended(Slot(1, 0), Outcome(RunStatus.FAILED, "ValueError: on purpose", "s", None, 1.5), 13.0),
    Resumed(20.0),
    Began(Slot(2, 1), "20261120-145700-mnist-mlp-small-7f3b", 21.0),
)


def test_what_was_reported_is_read_as_it_was(begin):
    writer = begin()
    for event in EVENTS:
        writer.write(event)
    header, sweep = read_sweep(writer.path)
    assert header == writer.header
    assert sweep == writer.sweep
    assert sweep.running == {Slot(2, 1): EVENTS[-1]}
    assert sweep.outcomes[Slot(0, 0)] == completed(0.41, cost_usd=0.02)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return where a sweep was written that is over, and its content."""
    writer = SweepWriter.create(tmp_path_factory.mktemp("torn"), new_header(PLAN, 7, 1.0))
    for event in EVENTS:
        writer.write(event)
    writer.close()
    return writer.path, writer.path.read_bytes()


@given(st.integers(0, 4000))
def test_a_line_that_was_torn_costs_no_other(written, cut):
    path, content = written
    header_bytes = content.index(b"\n") + 1
    kept = content[: header_bytes + cut]
    path.write_bytes(kept)
    whole = Sweep(PLAN)
    for event in EVENTS[: max(0, kept.count(b"\n") - 1)]:
        whole.add(event)
    # The last line may be whole but for its newline.
    more = Sweep(PLAN)
    for event in EVENTS[: kept.count(b"\n")]:
        more.add(event)
    assert read_sweep(path)[1] in (whole, more)
    resumed = SweepWriter.resume(path, 50.0)
    resumed.write(Ended(Slot(3, 1), completed(0.3), 60.0))
    resumed.close()
    assert read_sweep(path)[1].outcomes[Slot(3, 1)] == completed(0.3)


def test_a_sweep_of_another_machine_is_not_resumed_and_a_disk_that_takes_nothing_is_said(
    begin, monkeypatch
):
    writer = begin()
    before = writer.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, line: len(line) - 1)
        with pytest.raises(LogError, match="can't be recorded any more: the disk is full"):
            writer.write(EVENTS[0])
    assert writer.sweep.running == {}
    writer.close()
    monkeypatch.setattr(dlmon.sweep.log, "host_name", lambda: "other-box")
    with pytest.raises(SweepError, match="resume it there"):
        SweepWriter.resume(writer.path, 1.0)
    assert writer.path.read_bytes() == before


# ---- which one is meant ----


def test_a_sweep_is_found_by_its_id_a_prefix_a_path_or_as_the_last(begin, log_dir):
    older, newer = begin(wall=1_795_186_560.0), None
    older.close()
    newer = begin(wall=1_795_286_560.0)
    newer.close()
    for text in (older.header.id, older.header.id[:9], str(older.path.parent)):
        assert find_log(SweepHeader, text, log_dir) == older.path
    assert find_log(SweepHeader, "last", log_dir) == newer.path
    with pytest.raises(NoSuchLog, match='no sweep "nothing"'):
        find_log(SweepHeader, "nothing", log_dir)


def test_the_runs_of_a_sweep_follow_its_name_and_nothing_outside_does(begin, log_dir):
    writer = begin(plan_of({"batch_size": [32, 64]}))
    outside = log_dir.parent / "outside"
    names = {"followed": "grid", "of-its-own": "mine", "../outside": "grid"}
    for run, name in names.items():
        log = write_log(log_dir, recorded_session(samples=2_000), run)
        write_label(log, Label(name, "a note"))
    for run in (*names, str(outside)):
        writer.write(Began(Slot(0, 0), run, 1.0))
    write_label(writer.path, Label("grid"))
    # This process holds its lock, and has still to hold it afterwards.
    relabel(writer.path, Label("new"))
    assert find_log(SweepHeader, "new", log_dir) == writer.path
    labels = {entry.path.parent.name: entry.label for entry in list_sessions(log_dir)}
    assert labels == {"followed": Label("new", "a note"), "of-its-own": Label("mine", "a note")}
    assert read_label(outside / LOG_NAME) == Label("grid", "a note")
    assert [entry.status for entry in list_sweeps(log_dir)] == ["running"]


# ---- what is not a sweep ----


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json\n",
        b'{"type":"session","schema":1}\n',
        b'{"type":"sweep","schema":1}\n',
        b"\x00" * 100,
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_sweep_is_refused(tmp_path, content):
    path = tmp_path / SWEEP_NAME
    path.write_bytes(content)
    with pytest.raises(LogError, match="is not a sweep" if content else "is empty"):
        read_sweep(path)


@pytest.mark.parametrize(
    "change",
    [
        {"repeat": 10**12},
        {"repeat": -1},
        {"order": []},
        {"order": [[0, 0], [0, 0], *([index, 0] for index in range(4)), [0, 1], [1, 1]]},
        {"order": [[0, 0], [0]]},
        {"vary": [{"key": "x", "values": list(range(1000))}] * 6},
        {"vary": [{"key": "x", "values": []}]},
        {"vary": [{"key": "x", "values": [None]}]},
        {"workloads": [{"name": "x", "metric": "beauty"}]},
        {"workloads": []},
        {"options": {"x": [1]}},
        {"wall": "now"},
        {"seed": 1e400},
    ],
)
def test_a_forged_plan_is_refused_and_costs_no_memory(begin, change):
    writer = begin()
    writer.close()
    first, *rest = writer.path.read_text().splitlines()
    reported = {**json.loads(first), **change}
    writer.path.write_text("\n".join([json.dumps(reported), *rest]) + "\n")
    with pytest.raises(LogError, match="is not a sweep"):
        read_sweep(writer.path)


# ---- which sweeps there are ----


def test_sweeps_are_listed_oldest_first_with_how_far_they_came(begin, log_dir):
    later = begin(plan_of({"batch_size": [32, 64]}), wall=2_000.0)
    first = begin(plan_of({"batch_size": [32, 64, 128]}), wall=1_000.0)
    first.write(Began(Slot(1, 0), "a-session", 3.0))
    first.write(Ended(Slot(1, 0), completed(0.5), 4.0))
    first.write(Closed("stopped", 5.0))
    first.close()
    reported = list_sweeps(log_dir)
    assert [entry.header.id for entry in reported] == [first.header.id, later.header.id]
    assert (reported[0].status, reported[0].sweep.combinations_over) == ("stopped", 1)
    assert reported[0].sweep.sessions == {"a-session": Slot(1, 0)}
    assert reported[0].path == first.path


def test_a_sweep_runs_while_its_file_is_locked_and_is_interrupted_after(begin, hold, log_dir):
    writer = begin()
    writer.close()
    assert listed(log_dir) == [(writer.header.id, "interrupted", None)]
    holder = hold(writer.path)
    assert listed(log_dir) == [(writer.header.id, "running", holder.pid)]


def test_who_runs_a_sweep_can_list_it_and_keeps_its_lock(begin, log_dir):
    writer = begin()
    assert listed(log_dir) == [(writer.header.id, "running", os.getpid())]
    refuse_another_sweep(log_dir)
    asked = "import sys; from pathlib import Path; from dlmon.log.log_follower import writer_pid; "
    asked += "print(writer_pid(Path(sys.argv[1])))"
    reported = subprocess.run(
        [sys.executable, "-c", asked, str(writer.path)], capture_output=True, text=True, check=True
    )
    assert reported.stdout == f"{os.getpid()}\n"


BEGIN = """
import sys
from pathlib import Path
from fakes.sweeps import plan_of
from dlmon.sweep.log import SweepWriter, new_header
plan = plan_of({"host": ["gpu1"]} if sys.argv[2] == "elsewhere" else {"batch_size": [32, 64]})
writer = SweepWriter.create(Path(sys.argv[1]), new_header(plan, 1, 1.0))
print(writer.header.id, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def begin_in_a_process():
    """Return a function that begins a sweep in a process of its own; return process and id."""
    begun = []

    def begin(log_dir, where):
        command = [sys.executable, "-c", BEGIN, str(log_dir), where]
        root = Path(__file__).parents[4]
        environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'tests'}"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        begun.append(subprocess.Popen(command, env=environment, **pipes))
        return begun[-1], begun[-1].stdout.readline().strip()

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def test_one_experiment_runs_on_a_machine_wherever_it_is_recorded(
    begin, begin_in_a_process, tmp_path
):
    other, running = begin_in_a_process(tmp_path / "elsewhere", "here")
    with pytest.raises(
        SweepError, match=f"{running} is running already .process {other.pid}.: two"
    ):
        begin()
    with pytest.raises(SweepError, match=running):
        refuse_another_experiment()
    other.kill()
    other.wait()
    begin()


def test_a_sweep_on_other_hosts_takes_no_lock_on_this_one(begin, begin_in_a_process, tmp_path):
    _, running = begin_in_a_process(tmp_path / "other", "elsewhere")
    assert running
    begin()


def test_the_run_of_a_sweep_that_is_under_way_is_the_last_that_began(begin, log_dir):
    writer = begin()
    with pytest.raises(LogError, match=f"no run of {writer.header.id} is under way here"):
        session_under_way(writer.path)
    writer.write(Began(Slot(0, 0), "a-session", 1.0))
    assert session_under_way(writer.path) == log_dir / "a-session" / "session.jsonl"
    writer.close()
    with pytest.raises(LogError, match="dlmon report"):
        session_under_way(writer.path)
