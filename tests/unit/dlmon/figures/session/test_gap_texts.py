"""A pause is told by its place, its causes, and what the machine did meanwhile."""

import pytest

from dlmon.figures.session.gap_texts import gap_text, guard_text, pauses_texts
from dlmon.records import NamedPause
from dlmon.session.gaps import Gap, GapKind

SECOND_NS = 1_000_000_000


def did(**values):
    """Return what a machine did meanwhile."""
    return values


def gap(seconds=2.1, kind=GapKind.OPENING, epoch=3, **more):
    return Gap(0, round(seconds * SECOND_NS), kind, epoch, **more)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (gap(kind=GapKind.STALL, epoch=0, step=42), "at step 43 of epoch 1"),
        (gap(kind=GapKind.STALL, epoch=None, step=42), "at step 43"),
        (gap(kind=GapKind.BETWEEN), "after epoch 4"),
        (gap(kind=GapKind.BETWEEN, before="evaluating"), "before the evaluation"),
        (gap(kind=GapKind.BETWEEN, epoch=None), "between two phases"),
    ],
)
def test_it_says_where_it_is(where, text):
    unread = "; the machine was not read meanwhile"
    assert gap_text(where) == f"2.10 s without a batch {text}{unread}"


ASLEEP = did(cpu_pct=100.0, busy_cores=2.0, run_cores=0.0, cpu_wait_pct=97.0)


@pytest.mark.parametrize(
    ("did", "text"),
    [
        (
            did(cpu_pct=0.2, busy_cores=0.03, run_cores=0.01, disk_mib_s=0.0, memory_wait_pct=0.0),
            "CPU 0 % (this run 0.0 cores, all else 0.0), disk 0 MiB/s, nothing waited for memory",
        ),
        (did(cpu_pct=97.0), "CPU 97 %"),
        (did(disk_mib_s=230.4), "disk 230 MiB/s"),
        (did(swap_mib_s=12.3), "swap 12.3 MiB/s"),
        (did(stopped_pct=40.0), "stopped by the CPU limit in 40 % of periods"),
        (did(steal_pct=12.0), "CPU steal 12 %"),
        (did(memory_wait_pct=20.0), "programs waited for memory 20 % of the time"),
        (did(io_wait_pct=60.0), "programs waited for a disk 60 % of the time"),
        (did(cpu_wait_pct=30.0), "programs waited for a CPU 30 % of the time"),
        (did(run_cores=0.4, cpu_wait_pct=97.0), "programs waited for a CPU 97 % of the time"),
        (
            did(cpu_wait_pct=97.0, run_cpu_wait_pct=60.0),
            "this run waited for a CPU 60 % of the time",
        ),
        # One that slept, or waited for none, is not told that others did.
        (ASLEEP, "CPU 100 % (this run 0.0 cores, all else 2.0)"),
        (
            ASLEEP | did(run_cores=0.3, run_cpu_wait_pct=2.0),
            "CPU 100 % (this run 0.3 cores, all else 1.7)",
        ),
    ],
)
def test_what_the_machine_did_is_said_where_it_was_measured(did, text):
    assert gap_text(gap(meanwhile=did)) == (
        f"2.10 s without a batch at the start of epoch 4: {text}"
    )


TAKEN_DOWN = "TensorFlow takes down the last epoch's input pipeline"


def test_what_a_notice_says_of_a_gap_comes_before_what_the_machine_did():
    notice = f"2.1 s at the start of epoch 4: {TAKEN_DOWN}"
    at_start = "2.10 s without a batch at the start of epoch 4"
    assert gap_text(gap(meanwhile=ASLEEP), notices=(notice,)) == (
        f"{at_start}: {TAKEN_DOWN}; CPU 100 % (this run 0.0 cores, all else 2.0)"
    )
    assert gap_text(gap(meanwhile=did()), notices=("GPU 0 is lost.",)) == (
        f"{at_start}: notice in it: GPU 0 is lost"
    )
    # Of another place it is not the cause.
    other = f"2.1 s at the start of epoch 3: {TAKEN_DOWN}"
    assert f": notice in it: {other}" in gap_text(gap(), notices=(other,))
    # All that was done in it is named.
    both = [pause("garbage", 0.6), pause("checkpoint", 9.0, beside=True)]
    assert caused(gap(), *both, notices=["GPU 0 is lost."]) == (
        f"{at_start}: garbage collection, 0.60 s of it; checkpoint in another thread; "
        "notice in it: GPU 0 is lost; the machine was not read meanwhile"
    )


def caused(gap, *pauses, **more):
    return gap_text(gap, causes=pauses_texts(pauses, gap.seconds), **more)


def pause(name, seconds=2.1, **more):
    return NamedPause(0, round(seconds * SECOND_NS), name, **more)


SAVED = pause("checkpoint", 2.8, written_bytes=1_904_000_000, folder="/data")


def test_a_pause_says_what_was_saved_where_and_how_fast():
    named = gap(2.8, GapKind.NAMED, None, meanwhile=did())
    assert caused(named, SAVED) == (
        "2.80 s without a batch: checkpoint, 1.9 GB written to /data at 680 MB/s"
    )
    assert caused(named, SAVED, brief=True) == (
        "2.80 s: checkpoint, 1.9 GB written to /data at 680 MB/s"
    )
    in_step = gap(5.6, GapKind.STALL, step=99, meanwhile=did(cpu_pct=3))
    assert caused(in_step, pause("checkpoint", 2.8)) == (
        "5.60 s without a batch at step 100 of epoch 4: checkpoint, 2.80 s of it; CPU 3 %"
    )


def test_a_pause_says_which_guard_failed_and_how_often_the_graph_breaks():
    reason = "tensor 'x' size mismatch at index 0. expected 20, actual 10"
    parts = [
        pause("compile", 1.0, graph_breaks=2),
        pause("compile", 1.1, reason=reason, graph_breaks=0),
    ]
    assert caused(gap(meanwhile=did(), kind=GapKind.NAMED), *parts) == (
        "2.10 s without a batch: recompiled: the shape of x changed (2 graph breaks)"
    )
    assert "compiled (1 graph break)" in caused(gap(), pause("compile", graph_breaks=1))
    assert guard_text("tensor 'y' dtype mismatch. expected Float") == "the type of y changed"
    assert guard_text("n == 1.0") == "n == 1.0"
