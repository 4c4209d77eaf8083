import math
import re
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise

import pytest
from fakes.recorded import BEGIN_NS, folded, recorded_session
from fakes.strategies import ANY_RECORDS, SECOND_NS, TRAINING_RECORDS, header
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmon.figures.session.phases import doing_text
from dlmon.figures.session.progress import cost_so_far, times_left, waiting_texts
from dlmon.records import (
    PHASES,
    Batches,
    BatchSummary,
    Cpu,
    Epoch,
    Evaluation,
    Facts,
    GpuFacts,
    Machine,
    MachineFacts,
    Model,
    Notice,
    Output,
    Phase,
    ProcessTree,
    Result,
    Validation,
    encode,
)
from dlmon.session.reasons import NO_BAND, NOT_IN_PROJECTION, ONE_RUN
from dlmon.session.session import (
    NOTICES,
    OUTPUT_LINES,
    STEADY_PHASES,
    Session,
    _projected_evaluation_s,
)

FIGURES = (
    *("seconds_per_epoch", "run_seconds", "samples_per_second"),
    *("step_ms", "compile_s", "stalls"),
)
# Runs that are far enough on for every figure, short enough to fuzz.
RUNS = (
    recorded_session("training", ended=0, samples=4_000),
    recorded_session("training", ended=0, samples=4_000, steps_cap=120),
    recorded_session(workload="mnist-mlp-small", samples=6_400, epochs=2)[:-1],
    recorded_session(samples=4_000, gpus=2, nan_loss=True),
    recorded_session(workload="mnist-mlp-small", samples=3_200, status="failed", gpus=0),
    recorded_session(samples=4_000, steps_cap=25, status="stopped", silent_s=1.0),
)


def session(*records, **changes):
    made = Session(header(**changes))
    for record in records:
        made.add(record)
    return made


def numbers_in(value):
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from numbers_in(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from numbers_in(item)
    elif is_dataclass(value):
        for spec in fields(value):
            yield from numbers_in(getattr(value, spec.name))


def check(made, now_ns=None):
    """Check what holds for any session: figures are finite, or None with a reason."""
    snapshot = made.snapshot(now_ns)
    assert all(math.isfinite(number) for number in numbers_in(snapshot))
    for name in FIGURES:
        assert getattr(snapshot, name) is not None or snapshot.why[name]
    for name in ("seconds_per_epoch", "run_seconds"):
        timing = getattr(snapshot, name)
        if timing is not None and timing.low is None:
            assert snapshot.why[f"{name}.band"]
        assert timing is None or timing.low is None or 0 <= timing.low <= timing.value
        assert timing is None or timing.high is None or timing.value <= timing.high
    ages = (snapshot.elapsed_s, snapshot.machine_age_s, snapshot.compile_s)
    progress = snapshot.progress
    if progress is not None:
        assert 0 <= progress.epoch_fraction <= 1
        assert progress.steps is None or progress.step <= progress.steps
        assert progress.epochs is None or progress.epoch <= max(0, progress.epochs - 1)
        ages += (progress.step, progress.epoch, progress.epoch_left_s, progress.run_left_s)
    assert all(each is None or each >= 0 for each in ages)
    for series in (made.throughput, made.machine.cpu_pct):
        width = max(1, (made.last_t - made.header.t) // 60)
        assert len(series.columns(made.header.t, width, 60)) == 60
    figures = {name: getattr(snapshot, name) for name in FIGURES}
    encode(Result("completed", "s", "l", "w", None, {}, snapshot.elapsed_s, **figures))


MODEL = Model(10, 20, batch_size=100, samples_per_epoch=10_000, steps_per_epoch=100, epochs=3)


def batches(first, dt_us, end_ns=None, epoch=0, samples=100):
    """Return batches back to back, of which the first began at `first` × its duration."""
    t = (first + 1) * dt_us[0] * 1000 if end_ns is None else end_ns
    return Batches(epoch=epoch, first=first, samples=samples, t=t, dt_us=tuple(dt_us))


def steady_run(steps=400):
    return [MODEL, Phase(0, "training"), batches(0, [20_000] * steps)]


@pytest.mark.slow
@settings(max_examples=250)
@given(
    ANY_RECORDS | TRAINING_RECORDS,
    st.sampled_from([(), *RUNS]),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_no_record_that_decodes_can_break_a_session(hostile, run, random, in_any_order):
    records = list(run[1 : random.randrange(len(run) + 1)])
    for record in hostile:
        records.insert(random.randrange(len(records) + 1), record)
    if in_any_order:
        random.shuffle(records)
    made = session(*records)
    check(made)
    check(made, made.last_t + SECOND_NS)


@pytest.mark.parametrize("run", RUNS)
def test_every_figure_of_a_run_that_is_cut_anywhere_is_finite_or_has_a_reason(run):
    made = Session(run[0])
    for record in run[1:]:
        made.add(record)
        check(made, made.last_t + 300_000_000)


@pytest.mark.parametrize(
    ("mode", "phase", "more"),
    [
        ("inference", "predicting", ""),
        ("gradients", "computing gradients", ": no weight is updated"),
    ],
)
def test_a_mode_that_learns_nothing_has_steps_and_throughput_but_no_epochs(mode, phase, more):
    trained = recorded_session("training", workload="mnist-mlp-small", ended=1)
    changes = {Model: {"mode": mode, "validation_steps": None}}
    records = [
        replace(r, name=phase)
        if isinstance(r, Phase) and r.name == "training"
        else replace(r, **changes.get(type(r), {}))
        for r in trained
    ]
    snapshot, trained = folded(records).snapshot(), folded(trained).snapshot()
    assert snapshot.phase == phase
    for figure in ("seconds_per_epoch", "run_seconds"):
        assert getattr(snapshot, figure) is None
        said = {"inference": "inference"}.get(mode, phase)
        assert snapshot.why[figure] == f"{said} has no epochs{more}"
    for figure in ("samples_per_second", "samples_per_second_now", "step_ms", "progress", "limit"):
        assert getattr(snapshot, figure) == getattr(trained, figure)
        assert getattr(snapshot, figure) is not None
    assert [epoch.epoch for epoch in snapshot.epochs] == [0]


def test_a_workload_without_epochs_has_progress_and_no_seconds_per_epoch():
    model = replace(MODEL, samples_per_epoch=0, steps_per_epoch=100, epochs=1, steps_cap=100)
    snapshot = session(model, *steady_run(steps=40)[1:]).snapshot()
    assert snapshot.seconds_per_epoch is None
    assert snapshot.why["seconds_per_epoch"] == "this workload has no epochs"
    assert (snapshot.progress.step, snapshot.progress.steps) == (40, 100)


def test_how_sure_a_run_is_that_was_measured_once_is_not_known():
    options = {"workload": "mnist-mlp-small", "samples": 6_400}
    measured = folded(recorded_session(**options)).snapshot()
    assert (measured.run_seconds.low, measured.run_seconds.high) == (None, None)
    assert measured.why["run_seconds.band"] == ONE_RUN
    # Epochs beyond those that were asked for are no part of a published run.
    asked = folded(recorded_session(epochs=4, **options)).snapshot().run_seconds
    more = recorded_session(epochs=6, **options)
    more = [replace(r, epochs=4, extra_epochs=2) if isinstance(r, Model) else r for r in more]
    beyond = folded(more).snapshot()
    assert beyond.run_seconds.projected
    assert beyond.run_seconds.value == pytest.approx(asked.value, rel=0.02)
    assert (beyond.run_seconds.low, beyond.why["run_seconds.band"]) == (None, ONE_RUN)


def test_a_lone_epoch_has_a_band_from_within_it_and_one_that_was_never_steady_has_none():
    lone = folded(recorded_session("training", ended=1)).snapshot()
    epoch = lone.seconds_per_epoch
    assert (epoch.epochs, epoch.first_left_out) == (1, False)
    assert epoch.low < epoch.value < epoch.high
    short = folded(recorded_session("training", ended=1, samples=1_000)).snapshot()
    assert (short.seconds_per_epoch.low, short.seconds_per_epoch.high) == (None, None)
    assert short.why["seconds_per_epoch.band"] == NO_BAND
    # A projection says that validation is not in it, and a run that is over promises nothing.
    projected = folded(recorded_session("training", ended=0)).snapshot()
    assert projected.seconds_per_epoch.projected
    assert projected.why["validation"] == NOT_IN_PROJECTION
    assert "validation" not in lone.why
    early = folded(recorded_session("training", ended=0, cut_after=5)).snapshot()
    assert "not steady yet" in early.why["seconds_per_epoch"]
    over = recorded_session(epochs=1, ended=0, samples=500, status="stopped")
    why = folded(over).snapshot().why["seconds_per_epoch"]
    assert why.startswith("too short to measure: 10 batches")


def test_the_projected_time_of_a_run_closes_in_on_the_measured_one():
    records = recorded_session(workload="mnist-mlp-small", epochs=6, step_us=2_000)
    measured = folded(records).snapshot().run_seconds.value
    made = Session(records[0])
    off_by = []
    for record in records[1:-1]:
        made.add(record)
        if isinstance(record, Epoch):
            run_seconds = made.snapshot().run_seconds
            assert run_seconds.projected
            off_by.append(abs(run_seconds.value - measured) / measured)
    evaluation_s = next((r.end - r.begin) / 1e9 for r in records if isinstance(r, Evaluation))
    # It leaves out the evaluation until that is measured, and says so.
    assert max(off_by) < 0.03 + evaluation_s / measured
    assert off_by[-1] == pytest.approx(evaluation_s / measured, abs=0.01)


def test_the_projections_of_a_capped_run_hold_the_whole_set_its_validation_and_evaluation():
    capped = folded(recorded_session(steps_cap=200, epochs=1)).snapshot().seconds_per_epoch
    whole = folded(recorded_session(epochs=5)).snapshot().seconds_per_epoch
    assert capped.projected
    assert capped.value == pytest.approx(whole.value, rel=0.01)
    options = {"workload": "mnist-mlp-small", "step_us": 2_000, "epochs": 4}
    capped = folded(recorded_session(steps_cap=1_200, **options)).snapshot()
    whole = folded(recorded_session(**options)).snapshot()
    assert capped.run_seconds.projected
    assert capped.run_seconds.low < capped.run_seconds.value < capped.run_seconds.high
    assert capped.run_seconds.value == pytest.approx(whole.run_seconds.value, rel=0.02)
    assert "evaluation" not in capped.why


def cut_short(epochs, opening_us, extra_epochs=None):
    """Return the records of epochs of 30 batches of 20 ms, whose first takes longer."""
    model = replace(MODEL, steps_cap=30)
    records = [model, Phase(0, "training")]
    t = 0
    for epoch in range(epochs):
        dt_us = [20_000 + opening_us] + [20_000] * 29
        records.append(batches(0, dt_us, t + dt_us[0] * 1000, epoch))
        begin, t = t, t + sum(dt_us) * 1000
        records.append(Epoch(epoch, begin, t, t, False, 3_000, {}, 30))
    if extra_epochs is not None:
        records.append(replace(model, extra_epochs=extra_epochs))
    return records


def test_the_last_word_on_how_many_epochs_there_are_counts():
    records = cut_short(epochs=8, opening_us=90_000, extra_epochs=9)
    progress = session(*records).snapshot().progress
    assert (progress.epoch, progress.epochs) == (8, 12)
    assert progress.run_left_s == pytest.approx(4 * 0.6 + 3 * 0.09, rel=0.01)
    progress = session(*records, replace(MODEL, steps_cap=30, extra_epochs=5)).snapshot().progress
    assert (progress.epoch, progress.epochs) == (7, 8)
    assert progress.run_left_s == 0


def test_progress_counts_the_batches_of_the_epoch_and_the_time_that_is_left():
    made = session(*steady_run(steps=100), batches(0, [20_000] * 40, 2_020_000_000, epoch=1))
    progress = made.snapshot().progress
    assert (progress.epoch, progress.step, progress.steps) == (1, 40, 100)
    assert progress.epoch_fraction == 0.4
    assert progress.epoch_left_s == pytest.approx(60 * 0.020)
    assert progress.run_left_s == pytest.approx((60 + 100) * 0.020)
    # After the last epoch it is whole.
    over = session(*steady_run(), Epoch(2, 0, 1, 2, True, 10_000, {})).snapshot().progress
    assert (over.epoch, over.step, over.run_left_s) == (2, 100, 0.0)


def paused_run(pause_s=0.0, epochs=3, options=None, **model):
    """Return a run of which two epochs ended, with a pause after each, and 40 batches more."""
    records, t = [replace(MODEL, epochs=epochs, **model), Phase(0, "training")], 0
    for epoch in range(2):
        begin, t = t, t + 2_000_000_000
        records.append(batches(0, [20_000] * 100, begin + 20_000_000, epoch))
        records.append(Epoch(epoch, begin, t, t, True, 10_000, {}))
        t += int(pause_s * 1e9)
    records.append(batches(0, [20_000] * 40, t + 20_000_000, 2))
    return session(*records, options=options or {}).snapshot().progress


def test_the_pauses_between_epochs_are_reckoned_into_what_is_left():
    assert paused_run(pause_s=1.0).end_left_s == pytest.approx(60 * 0.020)
    left_s = paused_run(pause_s=1.0, epochs=5).end_left_s
    assert left_s == pytest.approx(60 * 0.020 + 2 * (2.0 + 1.0))
    # It is not known while more epochs may follow.
    assert paused_run(options={"seconds": 60}).end_left_s is None
    known = paused_run(options={"seconds": 60}, extra_epochs=1)
    assert known.end_left_s == pytest.approx(60 * 0.020 + 2.0)
    # It is that of the training where the evaluation after it was never timed.
    assert paused_run(evaluation_steps=20).end_of_training
    assert not paused_run().end_of_training


def validated_after_epochs(measured, validating_s):
    """Return the progress while an epoch is validated that was written before, as of PyTorch.

    Args:
        measured: how many epochs were validated before, each in 3 s.
        validating_s: how long this validation has taken.
    """
    records, t = [replace(MODEL, epochs=3, validation_steps=None), Phase(0, "training")], 0
    for epoch in range(measured + 1):
        begin, t = t, t + 2_000_000_000
        records.append(batches(0, [20_000] * 100, begin + 20_000_000, epoch))
        ended = Epoch(epoch, begin, t, t, True, 10_000, {})
        records += [ended, Phase(t, "validating")]
        if epoch < measured:
            begin, t = t, t + 3_000_000_000
            steps = Validation(begin, begin + 30_000_000, t, t, 100)
            records += [replace(ended, end=t, validation=steps), Phase(t, "training")]
    return session(*records).snapshot(t + int(validating_s * 1e9)).progress


def test_what_is_left_counts_the_validations_of_a_loop_once_one_was_timed():
    first = validated_after_epochs(measured=0, validating_s=1.0)
    assert (first.epoch, first.epoch_left_s, first.run_left_s) == (0, None, None)
    second = validated_after_epochs(measured=1, validating_s=1.0)
    # It is still that epoch, and whole.
    assert (second.epoch, second.step, second.steps) == (1, 100, 100)
    assert second.epoch_left_s == pytest.approx(2.0, rel=0.02)
    assert second.run_left_s == pytest.approx(2.0 + 2.0 + 3.0, rel=0.02)
    last = validated_after_epochs(measured=2, validating_s=1.0)
    assert (last.epoch, last.run_left_s) == (2, pytest.approx(2.0, rel=0.02))


def validated_in_two_passes(until):
    """Return what is known of a loop with 3 s of two passes after each of its epochs of 2 s.

    Args:
        until: which record of the last epoch's validation is the last one.
    """
    records, t = [replace(MODEL, epochs=3, validation_steps=None), Phase(0, "training")], 0
    for epoch in range(2):
        begin, t = t, t + 2 * SECOND_NS
        records.append(batches(0, [20_000] * 100, begin + 20_000_000, epoch))
        ended = Epoch(epoch, begin, t, t, True, 10_000, {})
        first = Validation(t, t + SECOND_NS // 10, t + SECOND_NS, t + SECOND_NS, 10)
        begin = t + 2 * SECOND_NS
        second = Validation(begin, begin + SECOND_NS // 10, t := t + 4 * SECOND_NS, t, 20)
        of_last = [
            *(ended, Phase(first.begin, "validating")),
            *(replace(ended, end=first.end, validation=first), Phase(begin, "validating")),
            replace(ended, end=t, validation=first.followed_by(second)),
        ]
        records += of_last if not epoch else of_last[:until]
    made = session(*records, workload="", command=("python", "train.py"))
    last = records[-1]
    return made, last.t if isinstance(last, Phase) else last.end


def test_all_passes_of_a_validation_count_in_the_time_of_its_epoch():
    made, _ = validated_in_two_passes(until=5)
    assert [(e.end - e.begin) / SECOND_NS for e in made.snapshot().epochs] == [6.0, 6.0]
    validation = made.snapshot().epochs[0].validation
    assert (validation.steps, validation.passes, validation.took_s) == (30, (10, 20), 3.0)
    # The first epoch compiled.
    assert made.snapshot().seconds_per_epoch.value == pytest.approx(6.0)


@pytest.mark.parametrize(("until", "left_s"), [(2, 3.0), (3, 2.0), (4, 2.0), (5, 0.0)])
def test_an_epoch_counts_when_it_has_as_many_passes_of_validation_as_the_others(until, left_s):
    made, now = validated_in_two_passes(until)
    snapshot = made.snapshot(now)
    assert snapshot.seconds_per_epoch.epochs == 1
    assert snapshot.seconds_per_epoch.first_left_out == (until == 5)
    assert snapshot.epochs[-1].whole == (until == 5)
    assert snapshot.progress.epoch_left_s == pytest.approx(left_s, abs=0.01)


def test_what_a_trainer_says_of_a_validation_that_is_over_belongs_to_its_epoch():
    """Its record is written again with the same end; the last of several evaluations counts."""
    end, validated = 2_000_000_000, 3_000_000_000
    ended = Epoch(0, 0, end, end, True, 10_000, {"loss": 1.5})
    steps = Validation(end, end + 30_000_000, validated, validated, 100)
    known = replace(ended, end=validated, validation=steps)
    evaluated = [replace(known, metrics=known.metrics | {"eval_loss": n}) for n in (2.0, 1.25)]
    folded_once = session(MODEL, batches(0, [20_000] * 100, 20_000_000), ended, known)
    folded_again = session(
        MODEL, batches(0, [20_000] * 100, 20_000_000), ended, known, *evaluated, known
    )
    [epoch] = folded_again.snapshot().epochs
    assert epoch.metrics == {"loss": 1.5, "eval_loss": 1.25}
    # No time is counted a second time.
    once, again = folded_once.snapshot(), folded_again.snapshot()
    assert again.time_breakdown == once.time_breakdown
    assert again.seconds_per_epoch == once.seconds_per_epoch


def test_the_loss_of_an_epoch_may_come_when_the_next_one_has_ended():
    epochs = [Epoch(n, n * 10, n * 10 + 9, n * 10 + 9, True, 100, {}) for n in range(3)]
    late = [replace(one, metrics={"loss": 0.5}) for one in epochs[:2]]
    known = session(MODEL, *epochs, *late, replace(epochs[2], end=5, metrics={"loss": 9.0}))
    assert [one.metrics for one in known.snapshot().epochs] == [{"loss": 0.5}, {"loss": 0.5}, {}]


def test_the_rate_of_now_is_that_of_the_last_two_seconds_of_training():
    made = session(MODEL, Phase(0, "training"), batches(0, [20_000] * 200))
    made.add(batches(200, [40_000] * 100, 4_040_000_000))
    assert made.snapshot(8 * SECOND_NS).samples_per_second_now.per_second == pytest.approx(2_500)
    # Between the ends of slow steps it is that of these, and outside training there is none.
    made = session(MODEL, Phase(0, "training"), *(batches(n, [5_000_000]) for n in range(4)))
    for second, expected in ((20, pytest.approx(20)), (24, pytest.approx(20)), (31, None)):
        now = made.snapshot(second * SECOND_NS).samples_per_second_now
        assert (now and now.per_second) == expected
    for name in (phase for phase in PHASES if phase not in STEADY_PHASES):
        made = session(*steady_run(), Phase(8 * SECOND_NS, name))
        assert made.snapshot(8 * SECOND_NS).samples_per_second_now is None


def test_compilation_is_no_throughput_and_each_batch_behind_it_has_its_own():
    times = [4_000_000] + [20_000] * 100
    made = session(MODEL, Phase(0, "compiling"), batches(0, times, 4 * SECOND_NS))
    columns = made.throughput.columns(0, SECOND_NS, 6)
    assert columns[:5] == [*[None] * 4, pytest.approx(5_000)]
    assert made.snapshot().compile_s == pytest.approx(4, abs=0.03)
    times, samples = (3_000_000, 1_000_000, 1_000_000, 2_000_000), (10, 100, 200, 50)
    made = session(MODEL, batches(0, times, 3 * SECOND_NS, samples=samples))
    assert made.throughput.columns(0, SECOND_NS, 8) == [None] * 3 + [100, 200, 25, 25, None]
    assert made.last_t == 7 * SECOND_NS
    # Of several batches an execution, none of the first is throughput.
    reported = replace(batches(0, [500_000] * 4 + [20_000] * 196), per_execution=4)
    made = session(MODEL, reported)
    assert made.throughput.columns(0, SECOND_NS, 5) == [None] * 2 + [5_000] * 3
    assert made.snapshot().compile_s == pytest.approx(4 * 0.5 - 4 * 0.02)


def test_summaries_count_like_batches():
    quantiles = (19_000, 19_500, 19_900, 20_000, 20_100, 20_500, 21_000)
    single = session(*steady_run(steps=150))
    summed = session(*steady_run(steps=150))
    for second in range(3, 33):
        end = second * SECOND_NS + SECOND_NS
        first = second * 50
        single.add(batches(first, [20_000] * 50, end - SECOND_NS + 20_000_000))
        summed.add(BatchSummary(0, first, 50, 5_000, end - 980_000_000, end, 1_000_000, quantiles))
    ours, theirs = single.snapshot(), summed.snapshot()
    assert ours.batches == theirs.batches == 1_650
    assert ours.progress == theirs.progress
    assert theirs.samples_per_second.mean == pytest.approx(ours.samples_per_second.mean)
    assert theirs.step_ms.median == pytest.approx(ours.step_ms.median)
    assert summed.throughput.columns(3 * SECOND_NS, SECOND_NS, 30) == pytest.approx([5_000] * 30)
    # These don't count stalls, as those of older logs.
    assert (ours.stalls, theirs.stalls) == (0, None)
    assert "summaries" in theirs.why["stalls"]


def test_the_first_validation_compiles_and_the_next_ones_do_not():
    def epoch(number, first_ms):
        begin = number * 10 * SECOND_NS
        validation = Validation(
            begin + 8 * SECOND_NS,
            begin + 8 * SECOND_NS + first_ms * 1_000_000,
            begin + 8 * SECOND_NS + (first_ms + 90) * 1_000_000,
            begin + 8 * SECOND_NS + (first_ms + 95) * 1_000_000,
            10,
        )
        end = begin + 9 * SECOND_NS
        return Epoch(number, begin, begin + 8 * SECOND_NS, end, True, 1, {}, 100, validation)

    made = session(replace(MODEL, validation_steps=10), *steady_run()[1:], epoch(0, 510))
    assert made.snapshot().compile_s == pytest.approx(0.5, abs=1e-3)
    made.add(epoch(1, 12))
    assert made.snapshot().compile_s == pytest.approx(0.5, abs=1e-3)
    # Ten batches of 10 ms, 2 ms to open and 5 ms to close.
    left_s = made.snapshot().progress.epoch_left_s
    assert left_s == pytest.approx(100 * 0.020 + 0.107)


def test_phases_become_stretches_that_the_result_closes_and_each_epoch_begins_once():
    records = recorded_session()
    made = folded(records)
    phase_spans = list(made.phase_spans)
    assert [stretch.phase for stretch in phase_spans[:6]] == [
        *("importing", "loading", "building", "compiling", "training", "compiling")
    ]
    assert all(a.end == b.start for a, b in pairwise(phase_spans))
    assert phase_spans[-1].end == records[-1].t
    assert [*made.epoch_starts] == [(e.epoch, e.begin) for e in made.snapshot().epochs]


def test_the_opening_of_an_epoch_is_a_gap_and_no_low_throughput():
    made = session(
        MODEL,
        *(Phase(0, "training"), batches(0, [20_000] * 100)),
        Epoch(0, 0, 2 * SECOND_NS, 2 * SECOND_NS, True, 10_000, {}, 100),
        *(Phase(2 * SECOND_NS, "opening", 1), Phase(5 * SECOND_NS, "training")),
        replace(batches(0, [20_000] * 100, 5_020_000_000, epoch=1), opening_us=3_000_000),
    )
    assert made.throughput.columns(0, SECOND_NS, 7) == [5_000] * 2 + [None] * 3 + [5_000] * 2
    assert made.snapshot().samples_per_second.mean == pytest.approx(5_000)
    assert [begin for _, begin in made.epoch_starts] == [0, 2 * SECOND_NS]


def test_a_projection_says_why_it_holds_no_opening():
    model = replace(MODEL, steps_cap=60)
    for openings, mean_s in ((0, 0), (2, 0), (3, 0.4), (4, 0.4)):
        records = [model, Phase(0, "training"), batches(0, [20_000] * 300)]
        for epoch in range(1, openings + 1):
            reported = batches(0, [20_000] * 60, epoch * 10 * SECOND_NS, epoch)
            records.append(replace(reported, opening_us=400_000))
        snapshot = session(*records).snapshot()
        assert snapshot.seconds_per_epoch.value == pytest.approx(100 * 0.02 + mean_s)
        assert ("openings" in snapshot.why) == (mean_s == 0)


def test_all_epochs_are_reported_and_only_the_last_lines():
    made = session()
    for number in range(2 * OUTPUT_LINES):
        made.add(Epoch(number, number, number, number + 1, True, 1, {}))
        made.add(Output(number, "stdout", str(number)))
        made.add(Notice(number, str(number)))
    snapshot = made.snapshot()
    assert len(snapshot.epochs) == 2 * OUTPUT_LINES
    last = [str(number) for number in range(OUTPUT_LINES, 2 * OUTPUT_LINES)]
    assert [line.text for line in snapshot.output] == last
    assert len(snapshot.notices) == NOTICES


def test_a_session_that_goes_on_ages_and_a_finished_one_stands_still():
    snapshot = session().snapshot(3 * SECOND_NS)
    assert snapshot.elapsed_s == 3
    assert (snapshot.phase, snapshot.progress, snapshot.machine) == (None, None, None)
    assert {name for name in FIGURES if snapshot.why.get(name)} == set(FIGURES)
    made = session(Machine(5 * SECOND_NS, 5.0, cpu=Cpu(pct=1.0)))
    assert made.snapshot(9 * SECOND_NS).machine_age_s == 4
    over = folded(recorded_session(samples=2_000))
    assert over.snapshot(over.last_t + 3_600 * SECOND_NS) == over.snapshot()


@pytest.mark.parametrize(
    ("reported", "kept"), [(0.5, 0.5), (None, 1.0), ("2", 1.0), (0, 1.0), (1e9, 1.0), (60, 60)]
)
def test_the_interval_comes_from_the_options_if_it_can_be_one(reported, kept):
    assert session(options={"interval": reported}).machine.interval_s == kept


def test_the_facts_are_the_headers_until_newer_ones_are_reported():
    def report(*gpus, **changes):
        made.add(Facts(2 * SECOND_NS, 0.0, "box", MachineFacts(gpus=gpus or None, **changes)))

    made = session(machine=MachineFacts(cores=2, why={"gpus": "asleep"}))
    assert made.facts == made.header.machine == MachineFacts(cores=2, why={"gpus": "asleep"})
    first, second = GpuFacts(0, "One", uuid="GPU-a"), GpuFacts(1, "Two", uuid="GPU-b")
    report(first, cores=2)
    assert made.facts == MachineFacts(cores=2, gpus=(first,))
    # What is known of a GPU stands while it can't be asked.
    report(GpuFacts(0, "NVIDIA GPU", why={"uuid": "lost"}), second)
    assert made.facts.gpus == (first, second)
    report(why={"gpus": "lost: the sensors ended"}, cores=4)
    assert made.facts.gpus == (first, second)
    assert made.facts.cores == 4
    # So does what is known of one that is left out, unless it has another number now.
    report(second)
    assert made.facts.gpus == (first, second)
    report(replace(second, index=0))
    assert made.facts.gpus == (replace(second, index=0),)


def test_a_run_that_starts_says_what_is_taken_from_it_until_it_trains():
    header, *rest = recorded_session(gpus=0)
    taken = {
        "cpu": Cpu(pct=100.0, cores=(100,) * 8, steal_pct=0.0),
        "process": ProcessTree(cpu_pct=80.0),
    }
    kept = {"cpu": Cpu(pct=12.0, cores=(12,) * 8, steal_pct=0.0), "process": taken["process"]}
    first = next(one for one in rest if isinstance(one, Machine))
    starting = [replace(first, **taken, t=BEGIN_NS + t * SECOND_NS) for t in range(-6, 0)]
    session = folded([header, *starting])
    limit = session.snapshot().limit
    assert limit.text.startswith("CPU SHARED: other programs take 7.2 of 8 cores")
    # Then it has the machine to itself, and what held it up before is of the past; it is said
    # until training has readings enough of its own.
    said = []
    for one in rest:
        session.add(replace(one, **kept) if isinstance(one, Machine) else one)
        limit = session.snapshot().limit
        said.append(limit is not None and limit.rule == "other-programs")
    assert said == sorted(said, reverse=True)
    assert not said[-1]
    # One that ends before it trains has been limited by nothing that is known.
    result = replace(rest[-1], status="failed")
    assert folded([header, *starting, result]).snapshot().limit is None


def test_what_limits_a_run_is_held_against_the_options_that_it_was_started_with():
    header, *rest = recorded_session(gpus=0)
    header = replace(header, options={**header.options, "threads": 3, "cpus": 6})
    text = folded([header, *rest]).snapshot().limit.text
    assert text.startswith("FEW THREADS: 2.9 cores of CPU time with --threads 3")
    one_cpu = replace(header, options={"cpus": 3})
    text = folded([one_cpu, *rest]).snapshot().limit.text
    assert text.startswith("CPU-BOUND 96 %: this run 2.9 of the 3 cores that it may use")


@pytest.mark.parametrize(
    ("first_end", "batches", "seconds"),
    [
        # One second for the first batch, a tenth for each of the other ten.
        (SECOND_NS, 101, 1 + 10),
        (SECOND_NS, 11, 2),
        # Where its end is not known, all is scaled.
        (None, 110, 20),
    ],
)
def test_the_first_batch_of_an_evaluation_compiles_and_counts_once(first_end, batches, seconds):
    evaluated = Evaluation(0, 2 * SECOND_NS, 11, 110, False, {}, first_end=first_end)
    assert _projected_evaluation_s(evaluated, batches) == pytest.approx(seconds)


def test_what_a_run_costs_is_said_so_far_and_in_all_where_its_end_is_known():
    snapshot = folded(recorded_session("training")).snapshot()
    assert "$" not in times_left(snapshot, is_wide=True)
    priced = replace(
        snapshot, header=replace(snapshot.header, options={"price": "36"}), elapsed_s=42.0
    )
    assert cost_so_far(priced, 138.0) == "$0.42 so far, about $1.80 in all"
    assert cost_so_far(priced, None) == "$0.42 so far"
    assert times_left(priced, is_wide=True).endswith(" in all")
    assert times_left(priced, is_wide=False).endswith("$0.42")


def test_the_time_left_of_the_epoch_and_of_the_run_are_told_apart():
    text = times_left(folded(recorded_session("training")).snapshot(), is_wide=True)
    assert re.match(r"epoch \d\d:\d\d left   run \d\d:\d\d left, ends ", text)


def test_a_run_that_is_over_or_ends_in_the_middle_of_an_epoch_has_no_time_left():
    made = folded(recorded_session("training"))
    running = made.snapshot()
    assert times_left(running, is_wide=True)
    interrupted = made.snapshot(is_over=True)
    made.add(Phase(made.last_t, "closing"))
    for ending in (interrupted, made.snapshot()):
        assert ending.progress.epoch == running.progress.epoch
        assert times_left(ending, is_wide=True) == ""


def test_what_was_measured_before_a_step_is_overdue_is_not_said_of_now():
    records = recorded_session("training")
    made = folded(records)
    now = made.snapshot()
    assert now.overdue_s is None
    assert now.limit.evidence
    assert now.samples_per_second_now is not None
    assert doing_text(now) == "training"
    assert times_left(now, is_wide=True)
    last = made.machine.latest
    for second in range(1, 21):
        made.add(replace(last, t=made.last_t + second * SECOND_NS))
    hung = made.snapshot()
    assert hung.overdue_s > 20
    assert hung.limit is None
    assert hung.samples_per_second_now is None
    assert hung.samples_per_second == now.samples_per_second
    assert doing_text(hung) == f"no step for {hung.overdue_s:,.0f} s"
    assert waiting_texts(hung, over=False)[0] == doing_text(hung)
    assert times_left(hung, is_wide=True) == ""
    # It goes on, or is over.
    (*_, step) = (record for record in records if isinstance(record, Batches))
    begin = step.first + step.count
    late = replace(step, first=begin, t=made.last_t + SECOND_NS)
    made.add(late)
    assert made.snapshot().overdue_s is None
    assert made.snapshot(is_over=True).limit.evidence
