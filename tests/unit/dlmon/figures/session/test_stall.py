"""Where a stalled run stands: its source, what it waits for, and what the machine does."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.states import SAVE, STATES

from dlmon.figures.session.gap_texts import gap_of_session
from dlmon.figures.session.stall import CHANGED, stall_of
from dlmon.records import (
    Frame,
    Model,
    ProcessStack,
    SeenAt,
    SourceLines,
    Stack,
    StandardInput,
    ThreadStack,
    Trainer,
)
from dlmon.render.follow import follow
from dlmon.session.follower import SessionFollower
from dlmon.session.gaps import takes_down_pipeline
from dlmon.session.loops import ProcessRate
from dlmon.session.reasons import PIPELINE_TAKEN_DOWN
from dlmon.session.session import Session

SCRIPT = Frame("/home/ada/train.py", 11, "wait_for_lock")
ON_PATH = "/venv/lib/python3.11/site-packages"


def snapshot_of(*more, without=(), standard_input=None):
    header, *rest = STATES["stalled"].records
    session = Session(replace(header, standard_input=standard_input))
    session.add_all([record for record in rest if not isinstance(record, without)])
    session.add_all(more)
    return session.snapshot()


def stalled_at(inner, source="", script=SCRIPT, more=(), standard_input=None, **fields):
    """Return where a run stands whose stack has these frames."""
    last = next(r for r in STATES["stalled"].records if isinstance(r, Stack))
    stack = replace(last, places=(SeenAt(9, inner, script),))
    lines = SourceLines(last.t, SCRIPT.file, 11, 11, (source,) if source else None, **fields)
    without = (Stack, SourceLines)
    snapshot = snapshot_of(stack, lines, *more, without=without, standard_input=standard_input)
    return stall_of(snapshot.pause, snapshot)


def test_the_source_is_shown_without_indentation_and_the_line_marked():
    snapshot = snapshot_of()
    stall = stall_of(snapshot.pause, snapshot)
    assert stall.place == "train_resnet.py:88 in save → torch/serialization.py in _save"
    assert stall.source_lines == (
        f"  86  {SAVE[0].strip()}",
        f"  87  {SAVE[1].strip()}",
        f"▶ 88  {SAVE[2].strip()}",
        f"  89  {SAVE[3].strip()}",
    )
    assert stall.meanwhile[:2] == ("CPU 4 % (this run 0.0 cores, all else 0.3)", "GPU 0 %")
    assert (stall.note, stall.waits_for) == ("", "")


@pytest.mark.parametrize(
    ("inner", "source", "waits_for"),
    [
        (SCRIPT, "lock.acquire()", "waits for a lock"),
        (SCRIPT, "answer = input('? ')", "waits for its standard input"),
        (SCRIPT, "scale = float(sys.stdin.readline())", "waits for its standard input"),
        (SCRIPT, "time.sleep(600)", ""),
        (Frame("/home/ada/queue.py", 3, "get"), "batches.get()", ""),
        (
            Frame("/usr/lib/python3.11/threading.py", 327, "wait"),
            "e.wait()",
            "waits for another thread",
        ),
        (
            Frame("/usr/lib/python3.11/cmd.py", 126, "cmdloop"),
            "breakpoint()",
            "waits for input to the debugger",
        ),
        (
            Frame(f"{ON_PATH}/torch/distributed/distributed_c10d.py", 2806, "all_reduce"),
            "dist.all_reduce(x)",
            "waits for the other ranks",
        ),
        (
            Frame("/usr/lib/python3.11/selectors.py", 415, "select"),
            "for images, labels in loader:",
            "waits for the next batch",
        ),
        (
            Frame(f"{ON_PATH}/torch/utils/data/dataloader.py", 1, "_try_get_data"),
            "batch = next(batches)",
            "waits for the next batch",
        ),
        (
            Frame("/usr/lib/python3.11/subprocess.py", 2053, "_try_wait"),
            "subprocess.run(['aws', 's3', 'cp'])",
            "waits for another process",
        ),
    ],
)
def test_it_is_said_what_a_line_waits_for(inner, source, waits_for):
    assert stalled_at(inner, source).waits_for == waits_for


@pytest.mark.parametrize(
    ("inner", "source"),
    [(SCRIPT, "input()"), (Frame("/usr/lib/python3.11/cmd.py", 126, "cmdloop"), "breakpoint()")],
)
@pytest.mark.parametrize(
    ("standard_input", "asks"),
    [
        (StandardInput.TERMINAL, True),
        (StandardInput.OTHER, False),
        (StandardInput.NONE, False),
        (None, False),
    ],
)
def test_only_a_script_with_a_terminal_waits_for_a_person(inner, source, standard_input, asks):
    stall = stalled_at(inner, source, standard_input=standard_input)
    assert stall.asks is asks
    assert not stalled_at(SCRIPT, "time.sleep(9)", standard_input=standard_input).asks


def test_without_source_the_reason_is_said():
    stall = stalled_at(SCRIPT, why={"lines": "it is not text"})
    assert (stall.source, stall.note) == ((), "its source can't be read: it is not text")


def test_a_file_that_changed_is_shown_and_so_is_that_it_changed():
    stall = stalled_at(SCRIPT, "lock.acquire()", changed=True)
    assert (stall.source, stall.note) == (((11, "lock.acquire()", True),), CHANGED)


@pytest.mark.parametrize("file", ["distributed/distributed_c10d.py", "autograd/graph.py"])
def test_of_several_ranks_the_one_is_shown_that_does_not_wait_for_others(file):
    snapshot = snapshot_of()
    [stack] = [s for s in snapshot.stacks if s.goes_on]
    waits = Frame(f"{ON_PATH}/torch/{file}", 2806, "all_reduce")
    waiting = replace(stack, places=(SeenAt(9, waits, SCRIPT),))
    trainers = tuple(
        ProcessRate(Trainer(0, number, 100 + number, "torch", rank=number), None)
        for number in range(2)
    )
    stacks = waiting, replace(stack, trainer=1)
    snapshot = replace(snapshot, stacks=stacks, trainers=trainers)
    place = "rank 1: train_resnet.py:88 in save"
    assert stall_of(snapshot.pause, snapshot).place.startswith(place)
    assert place in gap_of_session(snapshot.pause, snapshot)


def test_while_it_waits_for_a_batch_the_line_of_a_worker_is_said():
    at = Frame("/home/ada/data.py", 12, "__getitem__")
    inner = Frame("/usr/lib/python3.11/selectors.py", 415, "select")
    worker = ProcessStack(10**18, 1, 7, (ThreadStack("MainThread", (at,), at),), worker="worker 0")
    assert stalled_at(inner, "for x in loader:", more=(worker,)).waits_for == (
        "waits for the next batch: worker 0 is at data.py:12 in __getitem__"
    )


def test_before_a_process_reported_nothing_is_shown():
    snapshot = snapshot_of(without=(Stack,))
    assert stall_of(snapshot.pause, snapshot) is None


TRAINER = f"{ON_PATH}/keras/src/backend/tensorflow/trainer.py"
HANDLER = f"{ON_PATH}/keras/src/utils/traceback_utils.py"


@pytest.mark.parametrize(
    ("inner", "seen", "run_cores", "backend", "is_named"),
    [
        (Frame(TRAINER, 397, "fit"), 10, 0.01, "tensorflow", True),
        (Frame(HANDLER, 117, "error_handler"), 9, 0.01, "tensorflow", True),
        # It computes, is elsewhere, or nothing is known of its CPU time.
        (Frame(TRAINER, 397, "fit"), 10, 0.9, "tensorflow", False),
        (Frame(TRAINER, 397, "fit"), 10, None, "tensorflow", False),
        (Frame(TRAINER, 397, "fit"), 5, 0.01, "tensorflow", False),
        (Frame(TRAINER, 397, "enumerate_epoch"), 10, 0.01, "tensorflow", False),
        (Frame(HANDLER, 117, "error_handler"), 10, 0.01, "jax", False),
        (Frame(HANDLER, 117, "error_handler"), 10, 0.01, None, False),
    ],
)
def test_the_pipeline_of_an_epoch_is_taken_down_if_keras_deletes_it_and_the_run_is_idle(
    inner, seen, run_cores, backend, is_named
):
    stack = Stack(0, 0, 10, 10, (SeenAt(seen, inner, SCRIPT),))
    model = Model(None, None, None, None, None, None, backend=backend)
    meanwhile = None if run_cores is None else {"run_cores": run_cores}
    assert takes_down_pipeline(stack, meanwhile, model) is is_named


def test_a_recorded_pause_between_epochs_of_tensorflow_is_named(tmp_path, capsys):
    log = Path(__file__).parents[4] / "golden" / "sessions" / "workload" / "session.jsonl"
    follower = SessionFollower(log)
    follower.poll()
    snapshot = follower.snapshot()
    (pause,) = (gap for gap in snapshot.gaps if gap.epoch == 2)
    assert PIPELINE_TAKEN_DOWN in gap_of_session(pause, snapshot)
    assert stall_of(pause, snapshot).waits_for == PIPELINE_TAKEN_DOWN
    (tmp_path / "log").mkdir()
    shutil.copy(log, tmp_path / "log")
    follow(tmp_path / "log" / log.name, None)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if PIPELINE_TAKEN_DOWN in line)
    assert "without a batch: TensorFlow takes down" in line
