"""A session among published numbers and earlier ones: like with like, through real headers."""

from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_WALL, folded, recorded_session
from fakes.scripts import script_session

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures.comparison import (
    EARLIER_SESSIONS,
    comparison_rows,
    device_text,
    doubts_said_once,
    earlier_sessions,
    ended_after_an_epoch,
    epoch_text,
    factor_of_nearest,
    factor_of_reference,
    factor_of_run_before,
    how_to_match,
    metric_of,
    nearest_published,
    other_settings,
    run_names,
    timing_of,
    unusual_settings,
    why_no_time,
)
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import Epoch, Model, Result, SessionHeader

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


def rows_of_kind(rows, kind):
    return [row for row in rows if row.kind == kind]


# ---- which earlier sessions there are ----


def test_earlier_sessions_are_those_of_the_same_workload_and_machine_that_ended_before():
    mine = entry("mine")
    other = entry("other", workload="mnist-mlp-small", step_us=700)
    elsewhere = with_header(entry("elsewhere"), host="another")
    later = entry("later", begin_wall=BEGIN_WALL + DAY_S)
    running = replace(entry("running"), result=None, status="running")
    header = recorded_session()[0]
    assert earlier_sessions([mine, other, elsewhere, later, running], header) == [mine]


def test_only_the_newest_earlier_sessions_that_have_a_figure_count():
    header = recorded_session()[0]
    entries = [entry(f"{n}", BEGIN_WALL - (20 - n) * 3600) for n in range(9)]
    failed = replace(entries[8], result=replace(entries[8].result, status="failed"))
    nothing = replace(entries[7], result=replace(entries[7].result, seconds_per_epoch=None))
    expected = earlier_sessions([*reversed(entries[:7]), nothing, failed], header)
    assert [entry.header.id for entry in expected] == ["2", "3", "4", "5", "6"]
    assert len(expected) == EARLIER_SESSIONS


def test_an_earlier_session_is_called_by_when_it_began_and_its_device_where_that_differs(utc):
    same, cpu = entry("same"), entry("cpu", BEGIN_WALL - 3600, gpus=0)
    named_cpu = replace(cpu, result=replace(cpu.result, device_name="Intel(R) Core(TM) i7-9700K"))
    unnamed = entry("unnamed", BEGIN_WALL - 400 * DAY_S, gpus=0)
    assert run_names(session(), [same, named_cpu, unnamed]) == {
        "same": "run of 19 Nov 14:56",
        "cpu": "run of 13:56, Intel i7-9700K",
        "unnamed": "run of 2025-10-16, cpu",
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
        ({"cpus": 1}, ", 1 CPU"),
        ({"cpus": 2, "threads": 4, "jit": "on"}, ", 2 CPUs, threads 4, JIT on"),
        ({"cores": 3}, ", 3 CPUs"),
        ({"python": "/opt/tf/bin/python"}, ", /opt/tf/bin/python"),
        ({"backend": {}, "threads": "x", "jit": 1, "python": 3, "cpus": "many"}, ""),
    ],
)
def test_an_earlier_session_shows_what_computed_otherwise(utc, options, expected):
    earlier = computed(entry(step_us=80_000), **options)
    snapshot = session()
    (row,) = rows_of_kind(comparison_rows(snapshot, [earlier]), "earlier")
    assert row.label == f"NVIDIA GeForce GTX 1060 6GB{expected}"
    assert row.comparable
    assert row.badges == ()
    assert run_names(snapshot, [earlier]) == {"earlier": f"run of 19 Nov 14:56{expected}"}
    assert (
        before([earlier])
        == f"4.44× as fast as the run before{expected} (4.43× to 4.45×, 1 run each)"
    )


SCRIPT = ("python3", "/home/ada/experiments/train.py")


def earlier_script(session_id, *arguments, **options):
    earlier = entry(session_id, **options)
    earlier = with_header(earlier, workload="train.py", command=(*SCRIPT, *arguments))
    return replace(earlier, result=replace(earlier.result, workload="train.py"))


def test_the_arguments_that_an_earlier_run_of_a_script_was_given_otherwise_are_noted():
    earlier = [
        earlier_script("like", "--sleep", "0.05", begin_wall=BEGIN_WALL - 2 * DAY_S),
        earlier_script("other", "--sleep", "0.005", step_us=60_000),
    ]
    command = (*SCRIPT, "--sleep", "0.05")
    records = change(recorded_session(), SessionHeader, workload="train.py", command=command)
    snapshot = folded(records).snapshot()
    rows = comparison_rows(snapshot, earlier)
    notes = {row.session: row.badges for row in rows_of_kind(rows, "earlier")}
    assert notes == {"like": (), "other": ("--sleep 0.005",)}
    settings = {row.session: row.settings for row in rows}
    # Repeats say how runs differ, and a run with other arguments is none of them.
    assert settings["like"] != settings["other"]
    names = run_names(snapshot, earlier)
    sentence = factor_of_run_before(rows, earlier, names, True, snapshot.header)
    assert sentence == "3.33× as fast as the run before, --sleep 0.005 (3.33× to 3.34×, 1 run each)"


def test_an_earlier_run_of_another_version_of_the_script_says_so():
    def with_file(earlier, digit):
        return with_header(earlier, script_sha256=digit * 64 if digit else None)

    earlier = [
        with_file(earlier_script("old", begin_wall=BEGIN_WALL - 3 * DAY_S), None),
        with_file(earlier_script("like", begin_wall=BEGIN_WALL - 2 * DAY_S), "a"),
        with_header(
            with_file(earlier_script("moved", begin_wall=BEGIN_WALL - DAY_S), "a"),
            git_commit="d" * 40,
        ),
        with_file(earlier_script("other", step_us=60_000), "b"),
    ]
    command = {"workload": "train.py", "command": SCRIPT, "script_sha256": "a" * 64}
    command["git_commit"] = "c" * 40
    snapshot = folded(change(recorded_session(), SessionHeader, **command)).snapshot()
    rows = comparison_rows(snapshot, earlier)
    notes = {row.session: row.badges for row in rows_of_kind(rows, "earlier")}
    assert notes == {
        "old": (),
        "like": (),
        "moved": ("another git commit",),
        "other": ("train.py differs",),
    }
    sentence = factor_of_run_before(
        rows, earlier, run_names(snapshot, earlier), True, snapshot.header
    )
    assert (
        sentence == "3.33× as fast as the run before, train.py differs (3.33× to 3.34×, 1 run each)"
    )


def test_a_run_before_is_called_by_the_name_that_a_person_gave_it():
    base = replace(entry("base", begin_wall=BEGIN_WALL - DAY_S), label=Label("baseline"))
    newer = entry("newer")
    without_time = replace(newer, result=replace(newer.result, seconds_per_epoch=None))
    assert (
        before([base, without_time])
        == "no clear difference from baseline (-0.2 to +0.2 %, 1 run each)"
    )


@pytest.mark.parametrize(
    ("theirs", "shown"), [("jax", []), ("tensorflow", ["TensorFlow"]), (None, [])]
)
def test_an_earlier_run_of_a_script_shows_what_its_keras_ran_on_where_that_was_another(
    theirs, shown
):
    earlier = earlier_script("earlier")
    options = {} if theirs is None else {"backend": theirs}
    earlier = replace(earlier, result=replace(earlier.result, options=options))
    records = change(recorded_session(), SessionHeader, workload="train.py", command=SCRIPT)
    records = change(records, Model, backend="jax")
    assert other_settings(earlier, folded(records).snapshot()) == shown


# ---- how many times as fast ----


def before(earlier, **options):
    snapshot = session(**options)
    names = run_names(snapshot, earlier)
    rows = comparison_rows(snapshot, earlier)
    return factor_of_run_before(rows, earlier, names, True, snapshot.header)


def test_a_run_is_compared_with_the_nearest_published_number():
    slow = comparison_rows(session(reached="training", ended=2, step_us=20_000), [])
    assert factor_of_nearest(slow, True) == "11.5 % slower than NVIDIA GTX 1060 (11.5 to 11.6 %)"
    nearest = nearest_published(slow, True)
    assert nearest is not None
    assert nearest.label == "NVIDIA GeForce GTX 1060"
    building = comparison_rows(session(reached="building"), [])
    capped = comparison_rows(session(steps_cap=200, epochs=1), [])
    for rows, steady in ((building, True), (capped, False)):
        assert factor_of_nearest(rows, steady) == ""
        assert nearest_published(rows, steady) is None


def test_there_is_no_factor_and_no_rank_while_validation_is_not_in_the_projection():
    snapshot = session(reached="training", ended=0)
    rows = comparison_rows(snapshot, [entry()])
    names = run_names(snapshot, [entry()])
    assert factor_of_nearest(rows, True) == "not compared: validation not measured"
    assert factor_of_run_before(rows, [entry()], names, True, snapshot.header) == ""
    # It stands before what is compared with no such run, and not last as the slowest would.
    kinds = [(row.kind, row.comparable) for row in rows]
    this = kinds.index(("this", False))
    assert all(comparable for _, comparable in kinds[:this])
    assert kinds[this + 1 :]
    assert not any(comparable for _, comparable in kinds[this:])
    assert (rows[this].missing, rows[this].badges[0]) == ("validation", "without validation")
    validated = comparison_rows(session(reached="training", ended=1), [])
    assert all(row.missing is None for row in validated)


def test_an_earlier_projection_without_validation_is_passed_over():
    records = recorded_session(ended=0, status="stopped", cut_after=400)
    header = replace(records[0], id="cut", wall=BEGIN_WALL - 3600)
    cut = SessionEntry(header, None, "stopped", replace(records[-1], session="cut"), None)
    assert cut.result.seconds_per_epoch.projected
    (row,) = rows_of_kind(comparison_rows(session(), [cut]), "earlier")
    assert (row.missing, row.comparable) == ("validation", False)
    assert before([cut]) == ""


def test_a_lone_epoch_says_beside_others_that_it_holds_the_compilation():
    rows = comparison_rows(session(epochs=1), [entry(epochs=1), entry("longer", epochs=2)])
    badge = "1 epoch, compile included"
    badges = {row.session: row.badges for row in rows if row.kind != "published"}
    assert badges == {session(epochs=1).header.id: (badge,), "earlier": (badge,), "longer": ()}


def test_the_nearest_published_number_counts_as_exact():
    rows = comparison_rows(session(), [])
    (this,) = rows_of_kind(rows, "this")
    assert this.value == pytest.approx(9.16, abs=0.01)

    def nearest(low, high):
        changed = [replace(row, low=low, high=high) if row is this else row for row in rows]
        return factor_of_nearest(changed, True)

    assert nearest(9.1, 9.2) == "1.7 % slower than NVIDIA GTX 1060 (1.1 to 2.3 %)"
    assert nearest(8.9, 9.4) == "no clear difference from NVIDIA GTX 1060 (-4.4 to +1.1 %)"
    assert nearest(None, None) == "1.7 % slower than NVIDIA GTX 1060 (one published figure)"


def test_a_band_of_no_width_is_not_known():
    this = ComparisonRow("this run", "seconds_per_epoch", "this", 51.6, 50.3, 52.9)
    # Earlier versions wrote it where nothing was known.
    old = ComparisonRow("before", "seconds_per_epoch", "earlier", 74.6, 74.6, 74.6)
    said = factor_of_reference((this, old), old, "the run before", True)
    assert said == "44.6 % faster than the run before (1 run each)"


def test_a_run_is_compared_with_the_one_before_it():
    assert (
        before([entry(step_us=80_000)])
        == "4.44× as fast as the run before (4.43× to 4.45×, 1 run each)"
    )
    assert before([entry()]).startswith("no clear difference from the run before (")
    # How the earlier runs differ counts: from two so unlike ones, nothing follows.
    unlike = [entry("older", step_us=9_000), entry(step_us=80_000)]
    assert before(unlike).startswith("no clear difference from the run before (")
    assert before([]) == ""


def test_where_the_one_before_is_unlike_it_is_compared_with_an_older_one(utc):
    alike = entry("alike", step_us=80_000)
    unlike = entry("unlike", BEGIN_WALL - 3600, samples=10_000)
    options = {**unlike.result.options, "batch_size": 32}
    unlike = replace(unlike, result=replace(unlike.result, options=options))
    assert (
        before([alike, unlike])
        == "4.44× as fast as the run of 19 Nov 14:56 (4.43× to 4.45×, 1 run each)"
    )
    assert before([unlike]) == ""


# ---- why there is no time to compare ----


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("failed", "the run failed before the model was built"),
        ("stopped", "the run was stopped before the model was built"),
        ("interrupted", "the run was interrupted before the model was built"),
        ("unknown", "the run ended before the model was built"),
    ],
)
def test_of_a_session_that_is_over_nothing_is_awaited(status, text):
    assert why_no_time(session(reached="importing"), status) == text
    assert "yet" not in why_no_time(session(reached="compiling"), status)


# ---- the rows ----


def test_a_session_stands_among_all_published_numbers_of_its_workload_fastest_first():
    rows = comparison_rows(session(), [])
    assert rows[-1].label == "Colab TPU runtime"
    assert not rows[-1].comparable
    assert [row.value for row in rows[:-1]] == sorted(row.value for row in rows[:-1])
    (this,) = rows_of_kind(rows, "this")
    assert this.label == "this run"
    assert not this.projected
    assert this.badges == ()
    published = {row.label: row for row in rows_of_kind(rows, "published")}
    assert published["NVIDIA GeForce GTX 1060"].comparable
    assert published["Intel Core i7-9700K"].comparable
    assert not published["Colab TPU runtime"].comparable


def test_while_there_is_no_figure_the_published_numbers_stand_alone():
    rows = comparison_rows(session(reached="importing"), [])
    assert {row.kind for row in rows} == {"published"}
    rows = comparison_rows(session(reached="compiling"), [])
    assert {row.kind for row in rows} == {"published"}


def test_the_batch_size_that_was_built_counts_more_than_the_one_that_was_asked_for():
    records = change(recorded_session(), Model, batch_size=32)
    records = change(records, SessionHeader, options={"batch_size": 100})
    rows = comparison_rows(folded(records).snapshot(), [])
    for row in rows_of_kind(rows, "published"):
        assert not row.comparable
        assert row.badges[0] == "batch 100, not 32"


def test_before_the_model_is_built_the_options_show_what_will_be_compared():
    records = recorded_session("importing")
    asked = change(records, SessionHeader, options={"batch_size": 32})
    (badge, *_), *_ = [row.badges for row in comparison_rows(folded(asked).snapshot(), [])]
    assert badge == "batch 100, not 32"
    default = change(records, SessionHeader, options={"batch_size": 100})
    assert comparison_rows(folded(default).snapshot(), [])[0].comparable


def test_whole_runs_are_compared_by_the_time_of_a_run():
    options = {"workload": "mnist-mlp-small", "epochs": 10, "step_us": 700}
    snapshot = session(**options)
    rows = comparison_rows(snapshot, [entry(**options)])
    assert {row.metric for row in rows} == {"run_seconds"}
    (this,) = rows_of_kind(rows, "this")
    assert this.value == snapshot.run_seconds.value
    assert rows_of_kind(rows, "earlier")[0].value == this.value
    assert all(row.comparable for row in rows_of_kind(rows, "published"))


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
    assert timing_of(snapshot).value == snapshot.step_ms.mean
    rows = comparison_rows(snapshot, [])
    (this,) = rows_of_kind(rows, "this")
    assert (this.value, this.unit) == (snapshot.step_ms.mean, "ms")
    published = rows_of_kind(rows, "published")
    assert published
    assert not any(badge.startswith("mode") for row in published for badge in row.badges)


def test_a_run_that_matches_no_published_row_names_the_options_that_would():
    records = change(recorded_session(), SessionHeader, workload="alexnet")
    records = change(records, Model, batch_size=8, mode="inference")
    snapshot = folded(records).snapshot()
    assert how_to_match(snapshot) == "published with batch 128"
    assert how_to_match(session()) == ""
    asked = change(recorded_session("importing"), SessionHeader, options={"batch_size": 7})
    assert how_to_match(folded(asked).snapshot()) == "published with batch 100"
    mine = change(recorded_session(), SessionHeader, workload="my-own")
    assert how_to_match(folded(mine).snapshot()) == ""


def test_runs_that_only_predicted_are_no_earlier_ones_of_a_training_run():
    predicted = in_mode("inference", recorded_session(session_id="predicted"))
    result = replace(predicted[-1], options=predicted[0].options, seconds_per_epoch=None)
    header = replace(predicted[0], wall=BEGIN_WALL - DAY_S)
    predicted = SessionEntry(header, None, result.status, result, None)
    assert earlier_sessions([predicted, entry()], recorded_session()[0]) == [entry()]
    header = in_mode("inference", recorded_session())[0]
    assert earlier_sessions([predicted, entry()], header) == [predicted]


@pytest.mark.parametrize(("price", "cost"), [("3.6", 0.001), ("0.9/cpu", 0.002), ("free", None)])
def test_a_price_shows_what_an_epoch_costs(price, cost):
    records = recorded_session(cores=8)
    records = change(records, SessionHeader, options={**records[0].options, "price": price})
    (this,) = rows_of_kind(comparison_rows(folded(records).snapshot(), []), "this")
    expected = cost and cost * this.value
    assert this.cost_usd == (pytest.approx(expected) if cost else None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"mode": "train", "precision": "float32", "jit": "auto", "backend": "tensorflow"}, []),
        (
            {
                "mode": "inference",
                "precision": "mixed_bfloat16",
                "jit": "off",
                "backend": "jax",
                "cpus": 1,
                "python": "/opt/python",
            },
            ["inference", "mixed_bfloat16", "JAX", "JIT off", "another Python", "1 CPU"],
        ),
        ({"backend": "mine", "cpus": 4}, ["mine", "4 CPUs"]),
        ({"mode": 3, "precision": ["[/x]"], "jit": None, "backend": {}}, []),
    ],
)
def test_settings_are_shown_where_they_are_not_the_default(options, expected):
    assert unusual_settings(options) == expected


def test_a_machine_that_was_busy_at_the_start_of_each_run_is_said_once():
    records = recorded_session()
    machines = [replace(records[0].machine, cpu_pct=pct) for pct in (30.0, 40.0)]
    busy_before = with_header(entry(), machine=machines[1])
    snapshot = folded(change(records, SessionHeader, machine=machines[0])).snapshot()
    rows, of_all = doubts_said_once(comparison_rows(snapshot, [busy_before]))
    assert of_all == "each run shown: machine was busy at the start"
    assert not any("busy" in badge for row in rows for badge in row.badges)
    for others in ([], [entry("quiet"), busy_before]):
        rows, of_all = doubts_said_once(comparison_rows(snapshot, others))
        (this,) = rows_of_kind(rows, "this")
        assert of_all == ""
        assert "machine was busy at the start: CPU 30 %" in this.badges


def test_a_workload_that_is_not_ours_has_no_rows():
    records = change(recorded_session(), SessionHeader, workload="my-own")
    assert comparison_rows(folded(records).snapshot(), [entry()]) == ()


# ---- the device ----


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gpus": 1}, "GPU 0 NVIDIA GeForce GTX 1060 6GB"),
        ({"gpus": 0}, "CPU Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz"),
        ({"reached": "importing"}, ""),
    ],
)
def test_a_device_is_named_by_what_it_is(options, text):
    assert device_text(session(**options)) == text


def test_before_the_model_is_built_the_device_is_the_one_that_was_asked_for():
    records = change(recorded_session("importing"), SessionHeader, options={"device": "gpu:1"})
    assert device_text(folded(records).snapshot()) == "gpu:1"


def test_a_run_that_failed_once_an_epoch_was_whole_failed_after_it():
    records = script_session(seconds=3)
    result = Result("failed", records[0].id, "", records[0].workload, "cpu", {}, 22.0)
    assert not ended_after_an_epoch(folded([*records, result]).snapshot())
    last = max(number for number, each in enumerate(records) if isinstance(each, Epoch))
    assert ended_after_an_epoch(folded([*records[: last + 1], result]).snapshot())
    assert not ended_after_an_epoch(folded(records[: last + 1]).snapshot())


@pytest.mark.parametrize("status", ["completed", "stopped", "failed"])
def test_a_script_whose_epochs_have_no_total_ended_with_the_last_that_it_had(status):
    records = script_session()
    header = records[0]
    running = folded(records).snapshot()
    number = running.epochs[-1].epoch + 1
    assert epoch_text(running) == f"epoch {number + 1}"
    result = Result(status, header.id, "", header.workload, "cpu", {}, 22.0)
    assert epoch_text(folded([*records, result]).snapshot()) == f"epoch {number}"
