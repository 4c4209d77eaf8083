"""What a session knows of where its processes are and were."""

from dataclasses import replace

import pytest
from fakes.recorded import folded as folded_session
from fakes.recorded import recorded_session
from fakes.strategies import header

from dlmon.records import (
    Batches,
    Epoch,
    Frame,
    Machine,
    Phase,
    ProcessStack,
    Profile,
    SeenAt,
    Stack,
    TimePart,
    Trainer,
    decode,
    encode,
)
from dlmon.session.gaps import GapKind, Stacks, stacks_in
from dlmon.session.session import Session

LINE = Frame("train.py", 88, "save")
S = 10**9


def stack(begin_s, end_s, goes_on=None, trainer=None):
    places = (SeenAt(1, LINE, LINE),)
    return Stack(end_s * S, begin_s * S, 1, 1, places, goes_on, trainer)


def folded(*records):
    stacks = Stacks()
    for record in records:
        stacks.add(record)
    return stacks


def test_a_pause_goes_on_until_its_last_record_or_the_next_batch():
    stacks = folded(stack(1, 2, goes_on=True), stack(1, 4, goes_on=True))
    assert stacks.current_pause.t == 4 * S
    stacks.add(stack(1, 5))
    assert stacks.current_pause is None
    assert stacks.of_pauses == (stack(1, 5),)
    stacks.add(stack(8, 9, goes_on=True))
    stacks.end_batch(0, 10 * S)
    assert stacks.current_pause is None


def test_a_run_that_is_at_one_line_for_long_hangs_there_wherever_that_is():
    at_one_line = folded(stack(1, 40, goes_on=True))
    assert at_one_line.stands_still_since(30 * S) is None
    assert at_one_line.stands_still_since(40 * S) == 1 * S
    at_work = replace(stack(1, 40, goes_on=True), looks=4)
    assert folded(at_work).stands_still_since(40 * S) is None
    assert folded(stack(1, 40)).stands_still_since(90 * S) is None


@pytest.mark.parametrize(
    ("file", "since"),
    [
        ("/usr/lib/python3.11/selectors.py", 1 * S),
        ("/venv/lib/python3.11/site-packages/jax/_src/compiler.py", None),
    ],
)
def test_while_a_framework_may_compile_only_a_wait_for_data_is_a_stall(file, since):
    waits = replace(stack(1, 40, goes_on=True), places=(SeenAt(1, Frame(file, 5, "f"), LINE),))
    assert folded(waits).stands_still_since(40 * S, compiling=True) == since


def test_a_run_that_stands_still_before_its_first_step_is_overdue_until_it_steps():
    session = Session(header())
    session.add(Phase(0, "outside training"))
    session.add(stack(1, 40, goes_on=True))
    snapshot = session.snapshot(45 * S)
    assert (snapshot.overdue_s, snapshot.pause.kind) == (44.0, GapKind.OPENING)
    assert snapshot.pause.epoch is None
    session.add(stack(1, 46))
    assert session.snapshot(50 * S).overdue_s is None


def test_a_pause_whose_last_record_never_comes_is_kept_as_it_was_seen_last():
    stacks = folded(stack(1, 4, goes_on=True))
    # The batches of before the pause are sent as it ends.
    stacks.end_batch(0, 1 * S)
    assert stacks.current_pause is not None
    stacks.end_batch(0, 5 * S)
    assert stacks.current_pause is None
    assert stacks.of_pauses == (stack(1, 4, goes_on=True),)
    stacks.add(stack(1, 5))
    assert stacks.of_pauses == (stack(1, 5),)
    # As where the process ended in it.
    stacks = folded(stack(1, 2, goes_on=True), stack(1, 4, goes_on=True))
    stacks.end_process(0)
    assert stacks.current_pause is None
    assert stacks.of_pauses == (stack(1, 4, goes_on=True),)
    # That of another rank is not that of the run.
    assert folded(stack(1, 2, goes_on=True, trainer=1)).current_pause is None


def test_a_pause_in_which_a_process_is_killed_is_a_stall_and_no_shutdown():
    begin = recorded_session("training", ended=0, cut_after=12)
    last = max(r.t + 1000 * sum(r.dt_us[1:]) for r in begin if isinstance(r, Batches))
    started = Trainer(begin[0].t, 0, 7, "torch", "2.9.1")
    records = [each for each in begin if not hasattr(each, "t") or each.t <= last]
    waits = Stack(last + 60 * S, last, 1, 1, (SeenAt(1, LINE, LINE),), True)
    ended = replace(started, t=last + 61 * S, ended=True)
    snapshot = folded_session([*records, started, waits, ended]).snapshot(is_over=True)
    assert snapshot.time_breakdown[TimePart.STALLS] == pytest.approx(60)
    gap = max(snapshot.gaps, key=lambda gap: gap.seconds)
    assert (gap.kind, gap.seconds, gap.step) == (GapKind.STALL, 60, 12)
    assert stacks_in(gap.start, gap.end, snapshot.stacks) == [waits]


@pytest.mark.parametrize(("last_s", "step"), [(0.02, 4), (0.0, 5)])
def test_a_pause_is_at_the_step_that_ended_within_it_or_else_at_the_next_one(last_s, step):
    """The loop is left in a pause, and its last step ends as what was known of it by then."""
    begin_ns = 10 * S
    end_ns = begin_ns + round(last_s * S)
    records = (
        Phase(8 * S, "training"),
        Batches(0, 0, 1, begin_ns - 3 * S // 10, (100_000,) * 4),
        stack(10, 40, goes_on=True),
        Batches(0, 4, 1, end_ns, (round(last_s * 1e6),)),
        Machine(50 * S, 0.0),
        Epoch(0, 9 * S, end_ns, end_ns, whole=False, samples=5, metrics={}, steps=5),
    )
    session = Session(header(command=("python", "train.py")))
    for record in records:
        session.add(record)
    [gap] = session.snapshot().gaps
    assert (gap.kind, gap.step) == (GapKind.STALL, step)


def test_the_stack_of_a_time_lies_within_it_and_the_first_process_comes_first():
    first, other, later = stack(1, 4), stack(1, 4, trainer=1), stack(4, 9)
    assert stacks_in(1 * S, 4 * S, (other, first, later)) == [first, other]
    assert stacks_in(10 * S, 12 * S, (other, first, later)) == []
    # Processes that were asked again take the place of the answers before.
    asked = ((1, 7, 0), (1, 3, 1), (2, 3, 1), (2, 7, 0))
    stacks = folded(*(ProcessStack(n * S, n, pid, (), rank) for n, pid, rank in asked))
    assert [(each.request, each.rank) for each in stacks.of_processes] == [(2, 0), (2, 1)]


def test_profiled_steps_are_steps_of_the_run_and_count_in_no_figure():
    records = list(recorded_session("training"))
    plain = folded_session(records).snapshot()
    place = max(i for i, each in enumerate(records) if isinstance(each, Batches))
    last = records[place]
    end = last.t + sum(last.dt_us[1:]) * 1000
    first = last.first + len(last.dt_us)
    slow = replace(last, first=first, t=end + 9 * S, dt_us=(9_000_000,), wait_us=None)
    made = Profile(end + 9 * S, 1, end, end + 9 * S, 1, "torch")
    profiled = [*records, replace(slow, profiled=True), made]
    found = folded_session([decode(encode(each)) for each in profiled])
    snapshot = found.snapshot()
    assert snapshot.progress.step == plain.progress.step + 1
    same = ("batches", "step_ms", "stalls", "samples_per_second", "gaps")
    assert [getattr(snapshot, name) for name in same] == [getattr(plain, name) for name in same]
    assert sum(snapshot.time_breakdown.values()) == pytest.approx(snapshot.elapsed_s)
    assert list(found.profiles) == [made]
    # The same step counts where no profiler watched it.
    assert folded_session([*records, slow]).snapshot().batches == plain.batches + 1
