"""Runs of scripts that have no epochs are compared by their throughput, wherever runs are."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.scripts import script_session

from dlmon.comparison.compare import beside
from dlmon.figures.comparison import (
    comparison_rows,
    earlier_sessions,
    factor_of_run_before,
    metric_of,
    nothing_to_compare,
    run_names,
)
from dlmon.figures.comparison_row import row_details
from dlmon.figures.sessions import outcome
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import Status
from tui.live.comparison.bars import bar_rows
from tui.sessions.arrangement import in_order

SAMPLES, STEPS = {"steps": None}, {"steps": None, "samples": None}
DAY_S = 86_400


def snapshot_of(**options):
    return folded(script_session(**options)).snapshot()


def earlier(session, days_before=1, **options):
    """Return the run of a script as the list of a log directory holds it."""
    snapshot = snapshot_of(**options)
    wall = snapshot.header.wall - days_before * DAY_S
    result = replace(
        recorded_session()[-1],
        session=session,
        workload="train.py",
        seconds_per_epoch=snapshot.seconds_per_epoch,
        samples_per_second=snapshot.samples_per_second,
        step_ms=snapshot.step_ms,
        counts_steps=snapshot.counts_steps or None,
        samples_per_epoch=None,
    )
    header = replace(snapshot.header, id=session, wall=wall)
    return SessionEntry(header, None, Status.COMPLETED, result, None, Label(session))


def rows_of(snapshot, entries):
    found = earlier_sessions(entries, snapshot.header, metric=metric_of(snapshot))
    return found, comparison_rows(snapshot, found)


@pytest.mark.parametrize(
    ("options", "metric", "shown"),
    [
        (SAMPLES, "samples_per_second", ["3,200 samples/s", "1,600 samples/s"]),
        (STEPS, "steps_per_second", ["50.0 steps/s", "25.0 steps/s"]),
    ],
)
def test_a_run_without_epochs_stands_among_earlier_ones_by_its_throughput(options, metric, shown):
    snapshot = snapshot_of(**options)
    found, rows = rows_of(snapshot, [earlier("slow", step_ms=40, **options)])
    assert [(row.kind, row.metric, row.comparable) for row in rows] == [
        ("this", metric, True),
        ("earlier", metric, True),
    ]
    bars = bar_rows(rows, run_names(snapshot, found))
    assert [bar.value for bar in bars] == shown
    # More is faster, and has the longer bar.
    assert [bar.fraction for bar in bars] == [1.0, 0.5]
    sentence = factor_of_run_before(rows, found, run_names(snapshot, found), True, snapshot.header)
    assert sentence.startswith("2.00× as fast as the run before")


def test_the_faster_run_stands_first_and_this_one_is_slower():
    snapshot = snapshot_of(step_ms=40, **SAMPLES)
    found, rows = rows_of(snapshot, [earlier("fast", **SAMPLES)])
    assert [row.kind for row in rows] == ["earlier", "this"]
    names = run_names(snapshot, found)
    sentence = factor_of_run_before(rows, found, names, True, snapshot.header)
    assert sentence.startswith("2.00× as slow as the run before")


def test_how_earlier_runs_differed_says_how_sure_a_factor_of_throughputs_is():
    snapshot = snapshot_of(**SAMPLES)
    entries = [earlier(f"run-{ms}", ms, step_ms=ms, **SAMPLES) for ms in (39, 40, 41)]
    _, rows = rows_of(snapshot, entries)
    this, other = (next(row for row in rows if row.kind == kind) for kind in ("this", "earlier"))
    ratio = beside(this, other, rows, steady=True)
    assert ratio.low < ratio.value < ratio.high
    assert ratio.is_significant


def test_a_run_that_counts_steps_is_beside_those_that_count_samples_by_their_steps():
    snapshot = snapshot_of(**STEPS)
    _, rows = rows_of(snapshot, [earlier("counted", step_ms=40, **SAMPLES)])
    assert [f"{row.value:.0f} {row.unit}" for row in rows] == ["50 steps/s", "25 steps/s"]
    # Of the steps nobody knows how many samples they were.
    _, rows = rows_of(snapshot_of(**SAMPLES), [earlier("steps", **STEPS)])
    assert [row.kind for row in rows] == ["this"]


def test_a_run_with_epochs_is_compared_by_them_and_has_its_throughput_for_others():
    epochs = earlier("epochs")
    snapshot = snapshot_of()
    assert metric_of(snapshot) == "seconds_per_epoch"
    assert outcome(epochs).endswith("per epoch")
    _, rows = rows_of(snapshot_of(**SAMPLES), [epochs])
    assert [row.value for row in rows] == [pytest.approx(3_200)] * 2


def test_what_is_not_known_of_either_run_of_a_script_is_taken_to_be_alike():
    """As of batches that differ in size: else no such run would compare with its own repeat."""
    snapshot = snapshot_of()
    model = replace(snapshot.model, batch_size=None, samples_per_epoch=None)
    _, rows = rows_of(replace(snapshot, model=model), [earlier("before")])
    assert [row.comparable for row in rows] == [True, True]


def test_the_list_of_sessions_shows_the_throughput_and_sorts_by_it():
    slow, fast = earlier("slow", step_ms=40, **SAMPLES), earlier("fast", 2, **SAMPLES)
    assert [outcome(each).partition(",")[0] for each in (earlier("steps", **STEPS),)] == [
        "50.0 steps/s"
    ]
    assert outcome(slow).startswith("1,600 samples/s")
    assert in_order([slow, fast], {}, "time") == [fast, slow]


def test_the_details_of_a_row_call_it_a_throughput():
    _, rows = rows_of(snapshot_of(**SAMPLES), [earlier("before", **SAMPLES)])
    name, text = row_details(rows[0])[0]
    assert (name, text.partition(" (")[0]) == ("throughput", "3,200 samples/s")


def test_an_earlier_run_without_epochs_is_not_denied():
    snapshot = snapshot_of(**SAMPLES)
    _, rows = rows_of(snapshot, [earlier("before", **SAMPLES)])
    assert nothing_to_compare(rows, snapshot, Status.RUNNING) == ""


def test_a_loop_that_is_known_to_have_no_epochs_waits_for_its_throughput():
    snapshot = snapshot_of(seconds=1, **SAMPLES)
    model = replace(snapshot.model, has_epochs=False)
    none = dict.fromkeys(("samples_per_second", "seconds_per_epoch"))
    assert metric_of(replace(snapshot, model=model, **none)) == "samples_per_second"
