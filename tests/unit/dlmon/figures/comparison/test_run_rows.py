"""A session among published numbers and earlier ones: like with like, through real headers."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.compared import compared
from fakes.recorded import BEGIN_WALL, folded, recorded_session
from fakes.scripts import script_session

from dlmon.comparison.conditions import Conditions
from dlmon.comparison.published import Published
from dlmon.comparison.references import ComparisonRow, beside
from dlmon.comparison.sides import THROUGHPUT
from dlmon.figures.comparison import side_rows
from dlmon.figures.comparison.earlier_runs import EARLIER_SESSIONS, earlier_sessions
from dlmon.figures.comparison.run_rows import (
    NO_FIGURE,
    Comparison,
    SessionComparison,
    comparison_bars,
    comparison_of,
    given_otherwise,
    row_details,
)
from dlmon.figures.lists.session_list import outcome
from dlmon.figures.session.compared_figure import metric_of
from dlmon.log.directory import SessionEntry, list_sessions
from dlmon.log.label import Label
from dlmon.records import Model, Result, SessionHeader, Status
from dlmon.session.follower import SessionFollower
from dlmon.session.run_figures import compare_logs, figures_of_snapshot, runs_that_ended
from dlmon.statistics.ratios import Ratio

DAY_S = 86_400


def session(**options):
    """Return the snapshot of a recorded session."""
    return folded(recorded_session(**options)).snapshot()


def entry(session_id="earlier", begin_wall=BEGIN_WALL - DAY_S, **options):
    """Return a recorded session as the list of a log directory holds it."""
    records = recorded_session(session_id=session_id, begin_wall=begin_wall, **options)
    header, result = records[0], records[-1]
    return SessionEntry(header, None, result.status, result, None)


def with_header(entry, **changes):
    return replace(entry, header=replace(entry.header, **changes))


def change(records, kind, **changes):
    return [replace(r, **changes) if isinstance(r, kind) else r for r in records]


def rows_of_kind(comparison, kind):
    return [row for row in comparison.rows if row.kind == kind]


def before(earlier, **options):
    repeats = runs_that_ended(earlier)
    return comparison_of(session(**options), earlier, repeats=repeats).against_before()


# ---- which earlier sessions there are, and what they are called ----


def test_earlier_sessions_are_those_of_the_same_workload_and_machine_that_ended_before():
    mine = entry("mine")
    other = entry("other", workload="mnist-mlp-small", step_us=700)
    elsewhere = with_header(entry("elsewhere"), host="another")
    later = entry("later", begin_wall=BEGIN_WALL + DAY_S)
    running = replace(entry("running"), result=None, status="running")
    header = recorded_session()[0]
    assert earlier_sessions([mine, other, elsewhere, later, running], header) == [mine]


def test_runs_of_a_sweep_or_of_pairs_are_no_earlier_runs_but_of_each_other():
    header, mine = recorded_session()[0], entry("mine")
    of_pairs = with_header(entry("base"), sweep="pairs-1")
    assert earlier_sessions([mine, of_pairs], header) == [mine]
    assert earlier_sessions([of_pairs], replace(header, sweep="pairs-1")) == [of_pairs]
    assert earlier_sessions([of_pairs], replace(header, sweep="pairs-2")) == []


def test_a_run_that_is_over_leads_with_its_figure_and_how_it_compares():
    earlier = [entry("before", step_us=20_000)]
    verdict = comparison_of(session(), earlier, repeats=runs_that_ended(earlier)).verdict()
    assert verdict[0] == "9.16 s ± 0.01 per epoch"
    assert verdict[1].endswith("× as fast as the run before")
    assert verdict[2].startswith("(")
    assert comparison_of(session(), earlier, is_running=True).verdict() == ()


def test_only_the_newest_earlier_sessions_that_have_a_figure_count():
    header, mine = recorded_session()[0], entry()
    entries = [with_header(mine, id=str(n), wall=BEGIN_WALL - (20 - n) * 3600) for n in range(9)]
    failed = replace(entries[8], result=replace(mine.result, status="failed"))
    nothing = replace(entries[7], result=replace(mine.result, seconds_per_epoch=None))
    expected = earlier_sessions([*reversed(entries[:7]), nothing, failed], header)
    assert [entry.header.id for entry in expected] == ["2", "3", "4", "5", "6"]
    assert len(expected) == EARLIER_SESSIONS


def test_an_earlier_session_is_called_by_when_it_began_and_its_device_where_that_differs(utc):
    same, cpu = entry("same"), entry("cpu", BEGIN_WALL - 3600, gpus=0)
    named_cpu = replace(cpu, result=replace(cpu.result, device_name="Intel(R) Core(TM) i7-9700K"))
    assert comparison_of(session(), [same, named_cpu]).names == {
        "same": "run of 19 Nov 14:56",
        "cpu": "run of 13:56, Intel i7-9700K",
    }


def computed(entry, cores=None, **options):
    """Return an earlier session that was computed in another way."""
    machine = entry.header.machine
    machine = machine if cores is None else replace(machine, cores=cores)
    return with_header(entry, options={**entry.header.options, **options}, machine=machine)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ""),
        ({"backend": "tensorflow", "jit": "auto", "threads": None}, ""),
        ({"backend": "jax"}, ", JAX"),
        ({"cpus": 2, "threads": 4, "jit": "on"}, ", 2 CPUs, threads 4, JIT on"),
        ({"cores": 3}, ", 3 CPUs"),
        ({"python": "/opt/tf/bin/python"}, ", /opt/tf/bin/python"),
        ({"backend": {}, "threads": "x", "jit": 1, "python": 3, "cpus": "many"}, ""),
    ],
)
def test_an_earlier_session_shows_what_computed_otherwise(utc, options, expected):
    found = comparison_of(session(), [computed(entry(step_us=80_000), **options)])
    (row,) = rows_of_kind(found, "earlier")
    assert (row.comparable, row.badges) == (True, ())
    assert found.names == {"earlier": f"run of 19 Nov 14:56{expected}"}
    faster = f"4.44× as fast as the run before{expected} (4.44× to 4.45×, 1 run each)"
    assert found.against_before() == faster


SCRIPT = ("python3", "/home/ada/experiments/train.py")


def earlier_script(session_id, arguments=(), sha256=None, git_commit=None, **options):
    earlier = with_header(
        entry(session_id, **options),
        workload="train.py",
        command=(*SCRIPT, *arguments),
        script_sha256=sha256,
        git_commit=git_commit,
    )
    return replace(earlier, result=replace(earlier.result, workload="train.py"))


def script(**changes):
    changes = {"workload": "train.py", "command": SCRIPT} | changes
    return change(recorded_session(), SessionHeader, **changes)


@pytest.mark.parametrize(
    ("other", "badge"),
    [
        ({"arguments": ("--sleep", "0.005")}, "--sleep 0.005"),
        ({"git_commit": "d" * 40}, "other git commit"),
        ({"sha256": "b" * 64}, "other contents of train.py"),
    ],
)
def test_what_an_earlier_run_of_a_script_was_given_otherwise_and_its_version_are_noted(
    other, badge
):
    same = {"arguments": ("--sleep", "0.05"), "sha256": "a" * 64, "git_commit": "c" * 40}
    earlier = [
        earlier_script("old", begin_wall=BEGIN_WALL - 4 * DAY_S, arguments=same["arguments"]),
        earlier_script("like", begin_wall=BEGIN_WALL - 2 * DAY_S, **same),
        earlier_script("other", step_us=60_000, **same | other),
    ]
    command = (*SCRIPT, *same["arguments"])
    records = script(command=command, script_sha256="a" * 64, git_commit="c" * 40)
    found = comparison_of(folded(records).snapshot(), earlier)
    notes = {row.session: row.badges for row in rows_of_kind(found, "earlier")}
    assert notes == {"like": (), "other": (badge,), "old": ()}
    # Repeats say how runs differ, and a run with other arguments is none of them.
    settings = {session: run.settings for session, run in found.runs.items()}
    assert "arguments" not in other or settings["like"] != settings["other"]
    assert found.against_before().startswith(f"3.33× as fast as the run before, {badge} (3.33×")


MORE = "and 1 more"
THIS_RUN = replace(figures_of_snapshot(session()), workload="train.py")
OURS = ("python3", "/home/ada/experiments/train.py", "--sleep", "0.05", "--epochs", "5")


@pytest.mark.parametrize(
    ("theirs", "ours", "texts"),
    [
        ((), (), ()),
        (OURS, OURS, ()),
        (OURS[:4], OURS, ("without --epochs",)),
        ((*OURS, "--amp"), OURS, ("--amp",)),
        ((*OURS, "b.csv", "lr=0.1"), OURS, ("lr=0.1", 'argument 1 "b.csv"')),
        (OURS, (*OURS[:2], "b.csv", *OURS[2:]), ('without argument 1 "b.csv"',)),
        ((*OURS[:2], "0"), (*OURS[:2], "1"), ('argument 1 "0", not "1"',)),
        ((*OURS, "--api-key", "xyz"), OURS, ("--api-key (another)",)),
        ((*OURS[:4], "--epochs", "\x1b[31m" + "5" * 100), OURS, (f"--epochs {'5' * 23}…",)),
        (
            (*OURS[:2], "--sleep", "1", "a", "b"),
            OURS,
            ("--sleep 1", 'argument 1 "a"', 'argument 2 "b"', MORE),
        ),
    ],
)
def test_what_an_earlier_run_was_given_otherwise(theirs, ours, texts):
    runs = [
        replace(THIS_RUN, session=f"{number}", command=command or None)
        for number, command in enumerate((theirs, ours))
    ]
    assert given_otherwise(*runs) == texts


# ---- how many times as fast ----


def test_a_run_is_compared_with_the_nearest_published_number():
    slow = comparison_of(session(reached="training", ended=2, step_us=20_000), [])
    assert slow.against_nearest() == ("1.130× as slow as published GTX 1060 (one published figure)")
    assert slow.nearest.label == "NVIDIA GeForce GTX 1060"
    assert slow.far_slower() == ""
    building = comparison_of(session(reached="building"), [], is_running=True)
    assert (building.against_nearest(), building.nearest) == ("", None)


def test_there_is_no_factor_and_no_rank_while_validation_is_not_in_the_projection():
    found = comparison_of(session(reached="training", ended=0, step_us=17_000), [entry()])
    assert found.against_nearest() == "not compared: no validation measured"
    assert found.against_before() == ""
    # It stands before what is compared with no such run, and not last as the slowest would.
    kinds = [(row.kind, row.comparable) for row in found.rows]
    this = kinds.index(("this", False))
    assert all(comparable for _, comparable in kinds[:this])
    assert kinds[this + 1 :]
    assert not any(comparable for _, comparable in kinds[this:])
    assert (found.this.missing, found.this.badges[0]) == ("validation", "without validation")
    validated = comparison_of(session(reached="training", ended=1), [])
    assert all(row.missing is None for row in validated.rows)


def test_a_run_that_is_slower_already_without_its_validation_says_than_its_own_device():
    options = {"reached": "training", "ended": 0, "gpus": 0}
    slow = comparison_of(session(step_us=700_000, cut_after=40, **options), [])
    # Others are nearer to its 351 s.
    assert slow.nearest is None
    assert slow.far_slower() == "at least 9.6× as slow as published"
    assert slow.against_nearest() == "at least 9.6× as slow as published i7-9700K"
    fast = comparison_of(session(step_us=60_000, **options), [])
    assert fast.against_nearest() == "not compared: no validation measured"


def test_an_earlier_projection_without_validation_is_passed_over():
    records = recorded_session(ended=0, status="stopped", cut_after=400)
    header = replace(records[0], id="cut", wall=BEGIN_WALL - 3600)
    cut = SessionEntry(header, None, "stopped", replace(records[-1], session="cut"), None)
    found = comparison_of(session(), [cut])
    (row,) = rows_of_kind(found, "earlier")
    assert (row.missing, row.comparable) == ("validation", False)
    assert found.against_before() == ""


def test_a_lone_epoch_says_beside_others_that_it_holds_the_compilation():
    found = comparison_of(session(epochs=1), [entry(epochs=1), entry("longer", epochs=2)])
    badge = "1 epoch, compile included"
    badges = {row.session: row.badges for row in found.rows if row.kind != "published"}
    assert badges == {session(epochs=1).header.id: (badge,), "earlier": (badge,), "longer": ()}


def test_an_epoch_that_compiles_is_not_compared_with_published_ones():
    first, second = (
        comparison_of(session(reached="training", ended=ended), [entry()]) for ended in (1, 2)
    )
    assert first.against_nearest() == "first epoch with compile"
    # It stands at its value: a reader looks for it there.
    compared = [row for row in first.rows if row.comparable]
    assert compared == sorted(compared, key=lambda row: row.pace)
    published = [row for row in first.rows if row.kind == "published" and row.comparable]
    assert published
    assert {first.factor(row) for row in published} == {"first epoch with compile"}
    # Its throughput, which knows no compilation, compares with that of the run before.
    assert "the run before" in first.against_before()
    assert second.against_nearest().startswith("1.017× as slow as published GTX 1060")
    # Nor does PyTorch compile.
    (this,) = [row for row in first.rows if row.kind == "this"]
    assert isinstance(beside(replace(this, includes_compile=False), published[0], True), Ratio)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (9.1, 9.2, "1.017× as slow as published GTX 1060 (one published figure)"),
        (
            *(8.9, 9.4),
            "no clear difference from published GTX 1060 (0.956× to 1.011×, one published figure)",
        ),
        (None, None, "1.017× as slow as published GTX 1060 (one published figure)"),
    ],
)
def test_the_nearest_published_number_counts_as_exact(low, high, said):
    found = comparison_of(session(), [])
    rows = [replace(r, low=low, high=high) if r is found.this else r for r in found.rows]
    assert replace(found, rows=tuple(rows)).against_nearest() == said


def row(kind, value, half=0.05, session=None, **more):
    ends = (value - half, value + half)
    return ComparisonRow("CPU", "seconds_per_epoch", kind, value, *ends, session=session, **more)


def among(*rows, **more):
    return Comparison(session(), rows, **more)


def test_the_factor_comes_with_its_interval_and_says_what_it_rests_on():
    this, fast, slow = row("this", 9.0), row("earlier", 8.1, session="a"), row("earlier", 10.0)
    once = "1.111× as fast as base (1.103× to 1.119×, 1 run each)"
    assert among(this, slow).against(slow, "base") == once
    other = row("earlier", 10.0, comparable=False, badges=("batch 32, not 100",))
    unlike = "not compared with base: batch 32, not 100"
    assert among(this, other).against(other, "base") == unlike
    not_yet = "not compared with base: this run has no figure yet"
    assert among(slow).against(slow, "base") == not_yet
    # A band of no width is none: earlier versions wrote it where nothing was known.
    old = row("earlier", 13.0, half=0.0)
    assert among(this, old).against(old, "base") == "1.444× as fast as base (1 run each)"
    # The row that was chosen is found again, and none where it is gone.
    assert among(this, fast, slow, reference=fast.reference).chosen is fast
    assert among(this, slow, reference=fast.reference).chosen is None


def test_a_run_is_compared_with_the_one_before_it(utc):
    much = "4.44× as fast as {} (4.44× to 4.45×, 1 run each)"
    assert before([entry(step_us=80_000)]) == much.format("the run before")
    assert before([entry()]).startswith("throughput: no clear difference from the run before (")
    # How other earlier runs differ counts: from two so unlike ones, nothing follows.
    others = [entry("oldest", step_us=9_000), entry("older", step_us=90_000)]
    unclear = before([*others, entry(step_us=80_000)])
    assert unclear.startswith("throughput: no clear difference from the run before (")
    assert "1 run each" not in unclear
    assert before([]) == ""
    # Where the one before is unlike it, it is an older one, by the name that a person gave it.
    other = entry("unlike", BEGIN_WALL - 3600, samples=10_000)
    options = {**other.result.options, "batch_size": 32}
    other = replace(other, result=replace(other.result, options=options))
    alike = entry("alike", step_us=80_000)
    assert before([alike, other]) == much.format("the run of 19 Nov 14:56")
    assert before([replace(alike, label=Label("slow")), other]) == much.format("slow")
    assert before([other]) == ""


# ---- the rows ----


def test_the_batch_size_that_was_built_counts_more_than_the_one_that_was_asked_for():
    def published_of(reached, **asked):
        records = change(recorded_session(reached), Model, batch_size=32)
        records = change(records, SessionHeader, options=asked)
        found = comparison_of(folded(records).snapshot(), [], is_running=True)
        return [(one.comparable, *one.badges[:1]) for one in rows_of_kind(found, "published")]

    assert set(published_of("result", batch_size=100)) == {(False, "batch 100, not 32")}
    # Before it is built, the options show what will be compared.
    assert published_of("importing", batch_size=100)[0] == (True,)
    assert not published_of("importing", batch_size=32)[0][0]


def in_mode(mode, records, **options):
    """Return records as of a session in another mode."""
    asked = {**records[0].options, "mode": mode, **options}
    records = change(records, SessionHeader, options=asked)
    return change(records, Model, mode=mode)


@pytest.mark.parametrize("mode", ["gradients", "inference"])
def test_a_mode_that_learns_nothing_is_compared_by_the_time_of_a_batch(mode):
    records = in_mode(mode, recorded_session(), batch_size=64)
    records = change(records, SessionHeader, workload="alexnet")
    snapshot = folded(change(records, Model, batch_size=64)).snapshot()
    assert metric_of(snapshot) == "step_ms"
    found = comparison_of(snapshot, [])
    assert (found.this.value, found.this.unit) == (snapshot.step_ms.mean, "ms")
    published = rows_of_kind(found, "published")
    assert published
    assert not any(badge.startswith("mode") for row in published for badge in row.badges)


def test_runs_that_only_predicted_are_no_earlier_ones_of_a_training_run():
    predicted = in_mode("inference", recorded_session(session_id="predicted"))
    result = replace(predicted[-1], options=predicted[0].options, seconds_per_epoch=None)
    header = replace(predicted[0], wall=BEGIN_WALL - DAY_S)
    predicted = SessionEntry(header, None, result.status, result, None)
    assert earlier_sessions([predicted, entry()], recorded_session()[0]) == [entry()]
    header = in_mode("inference", recorded_session())[0]
    assert earlier_sessions([predicted, entry()], header) == [predicted]


def test_where_there_is_nothing_to_compare_with_that_is_said():
    found = comparison_of(folded(script()).snapshot(), ())
    assert found.alone() == "No earlier run to compare with."
    # What it costs stands in its row alone.
    assert replace(found, rows=(replace(found.this, usd_per_hour=0.1),)).alone() == ""
    assert comparison_of(session(), ()).alone() == ""
    assert comparison_of(session(reached="compiling"), ()).alone() == NO_FIGURE
    # Nothing is claimed of a workload that is not ours.
    records = change(recorded_session(), SessionHeader, workload="my-own")
    found = comparison_of(folded(records).snapshot(), [entry()])
    assert (found.rows, found.alone()) == ((), "")


# ---- of scripts that have no epochs ----

SAMPLES, STEPS = {"steps": None}, {"steps": None, "samples": None}


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
        counts_steps=snapshot.throughput_unit == "steps/s" or None,
        samples_per_epoch=None,
    )
    header = replace(snapshot.header, id=session, wall=wall)
    return SessionEntry(header, None, Status.COMPLETED, result, None, Label(session))


def compare(snapshot, entries):
    found = earlier_sessions(entries, snapshot.header, metric=metric_of(snapshot))
    return comparison_of(snapshot, found)


@pytest.mark.parametrize(
    ("options", "metric", "shown"),
    [
        (SAMPLES, "samples_per_second", ["3,200 samples/s", "1,600 samples/s"]),
        (STEPS, "steps_per_second", ["50.0 steps/s", "25.0 steps/s"]),
    ],
)
def test_a_run_without_epochs_stands_among_earlier_ones_by_its_throughput(options, metric, shown):
    found = compare(snapshot_of(**options), [earlier("slow", step_ms=40, **options)])
    rows = [(row.kind, row.metric, row.comparable) for row in found.rows]
    assert rows == [("this", metric, True), ("earlier", metric, True)]
    assert [bar.text for bar in comparison_bars(found).bars] == shown
    assert found.against_before().startswith("2.00× as fast as the run before")
    assert found.alone() == ""
    name, text = row_details(found.rows[0])[0]
    assert (name, text.partition(" (")[0]) == ("throughput", shown[0])
    slower = compare(snapshot_of(step_ms=40, **options), [earlier("fast", **options)])
    assert [row.kind for row in slower.rows] == ["earlier", "this"]
    assert slower.against_before().startswith("2.00× as slow as the run before")


def test_a_run_that_counts_steps_is_beside_those_that_count_samples_by_their_steps():
    found = compare(snapshot_of(**STEPS), [earlier("counted", step_ms=40, **SAMPLES)])
    assert [f"{row.value:.0f} {row.unit}" for row in found.rows] == ["50 steps/s", "25 steps/s"]
    # Of the steps nobody knows how many samples they were.
    found = compare(snapshot_of(**SAMPLES), [earlier("steps", **STEPS)])
    assert [row.kind for row in found.rows] == ["this"]
    # One with epochs is compared by them, and has its throughput for others.
    epochs = earlier("epochs")
    assert metric_of(snapshot_of()) == "seconds_per_epoch"
    assert outcome(epochs).endswith("per epoch")
    found = compare(snapshot_of(**SAMPLES), [epochs])
    assert [row.value for row in found.rows] == [pytest.approx(3_200)] * 2
    # As of batches that differ in size: else no such run would compare with its own repeat.
    snapshot = snapshot_of()
    model = replace(snapshot.model, batch_size=None, samples_per_epoch=None)
    found = compare(replace(snapshot, model=model), [epochs])
    assert [row.comparable for row in found.rows] == [True, True]


# ---- as bars ----


def published(label, value, **options):
    return ComparisonRow(label, "seconds_per_epoch", "published", value, year=2017, **options)


def test_bars_say_what_each_is_of_and_what_differs():
    own = Published(
        *("cifar10-cnn", "My box", "gpu", "TensorFlow", 2026, "seconds_per_epoch", 8.0, 100),
        *(None, None, "session x", "my own words", True),
    )
    rows = (
        row("this", 9.0, projected=True, badges=("projected",)),
        row("earlier", 8.1, session="a", badges=("batch 32",)),
        published("NVIDIA GeForce GTX 1060", 16.0, framework="TensorFlow 1.x"),
        published("My box", 8.0, published=own),
        published("K80", 4.0, comparable=False, badges=("batch 32, not 64", "float16")),
    )
    bars = comparison_bars(among(*rows, names={"a": "run of 14:56"})).bars
    assert [(bar.kind, bar.label, bar.text, bar.details) for bar in bars] == [
        ("this", "CPU", "~ 9.00 s", "projected"),
        ("earlier", "run of 14:56", "8.10 s", "batch 32"),
        ("published", "NVIDIA GTX 1060", "16.0 s", "2017, TensorFlow 1.x"),
        ("published own", "My box", "8.00 s", "2017; my own words"),
        ("published other", "K80", "4.00 s", "2017; batch 32, not 64; float16"),
    ]
    assert bars[1].session == "a"


# ---- all that is known of a row ----


def of_batch(conditions, value):
    rows = compared("step_ms", conditions, conditions)
    return dict(row_details(next(row for row in rows if row.value == value)))


def test_a_row_shows_its_device_its_share_of_the_peak_and_its_sources():
    details = of_batch(Conditions("resnet50", 64, None, None), 292.2)
    assert details["time per batch"] == "292 ms, batch 64"
    assert details["measured"] == "TensorFlow May-2017 tf_cnn_benchmarks, 2017"
    assert details["of its peak"] == "47 %"
    assert details["device"] == (
        "3,584 cores, 1,328 to 1,480 MHz, 16 GB HBM2, 732 GB/s, 10.6 TFLOP/s float32"
    )
    assert details["source"] == "tensorflow/docs r1 guide/performance/benchmarks.md"
    assert details["device by"].startswith("NVIDIA Tesla P100 data sheet")
    assert "differs" not in details
    device = of_batch(Conditions("vgg-a", 64, None, None), 420.28)["device"]
    assert "8.87 TFLOP/s float32, the article prints 6.1, 599 USD then" in device
    unknown = compared("seconds_per_epoch", *[Conditions("cifar10-cnn", 100, 50_000, 10)] * 2)[1]
    assert dict(row_details(unknown))["of its peak"].startswith("– (sold with 3 GB and 1,152 cores")
    # All differences are in the details, and conditions that are none.
    ours = Conditions("resnet50", 7, None, None, precision="mixed_float16")
    assert of_batch(ours, 292.2)["differs"] == "batch 64, not 7; float32, not mixed_float16"
    alike = of_batch(Conditions("resnet50", 16, None, None, mode="inference"), 34.14)
    assert (
        alike["conditions"] == "6 % more operations (stride in the 3×3); forward in training mode"
    )
    assert "differs" not in alike
    # A run of ours has its band and its own speed.
    result = Result("completed", "a", "log", "cifar10-cnn", "cpu", {}, 1.0)
    result = replace(result, effective_flop_s=1.25e12, peak_share=0.344)
    this = row("this", 9.0, half=0.5, framework="JAX")
    assert row_details(this, result) == [
        ("time per epoch", "9.00 s ± 0.50"),
        ("measured", "JAX"),
        ("speed", "1.25 TFLOP/s, 34 % of peak"),
    ]
    assert row_details(replace(this, low=None, high=None))[0] == ("time per epoch", "9.00 s")


SESSIONS = Path(__file__).parents[4] / "golden" / "sessions"


def test_a_pair_has_the_interval_of_compare_on_the_screen_in_its_text_and_in_its_json():
    entries = list_sessions(SESSIONS)
    compared_pairs = 0
    for entry in entries:
        with contextlib.closing(SessionFollower(entry.path)) as source:
            while source.poll():
                pass
            comparison = SessionComparison(source, {})
            comparison.take_entries(entries)
            found = comparison.in_full()
        for row in rows_of_kind(found, "earlier"):
            ratio, base = found.factor(row), found.earlier[row.session]
            if isinstance(ratio, Ratio):
                sides = compare_logs([base.path], [entry.path])
                assert ratio == sides.throughput.ratio
                name = f"base in {sides.base[0].throughput_unit}"
                assert found.against(row, name) in side_rows.verdict(sides)
                rate = side_rows.sides_json(sides)["figures"][THROUGHPUT]
                ends = [end and 100 * (end - 1) for end in (ratio.low, ratio.high)]
                assert [rate["low_pct"], rate["high_pct"]] == ends
                compared_pairs += ratio.low is not None
    assert compared_pairs >= 2
