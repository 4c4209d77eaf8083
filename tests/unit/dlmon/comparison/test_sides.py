from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.comparison.compared_run import RunFigures
from dlmon.comparison.same_script import Script
from dlmon.comparison.sides import (
    FIGURES,
    THROUGHPUT,
    NotComparable,
    compare_sides,
    is_slower_by,
)
from dlmon.records import MachineFacts, Status
from dlmon.statistics.ratios import Basis, Claim, Error

OPTIONS = {"batch_size": 100, "threads": 2, "log_dir": "/somewhere", "price": None}
VERSIONS = {"keras": "3.12", "backend": "tensorflow"}
RUN = RunFigures(
    session="a",
    host="tower",
    wall=1.0,
    status=Status.COMPLETED,
    workload="cifar10-cnn",
    options=OPTIONS,
    versions=VERSIONS,
    machine=MachineFacts(cpu_model="Some CPU", cores=8),
    device="cpu",
    batch_size=100,
    precision="float32",
    mode="train",
    data="synthetic",
    samples=50_000,
    is_projected=False,
)


def run(session, throughput=1_000.0, values=None, **changes):
    values = {THROUGHPUT: throughput, **(values or {})}
    return replace(RUN, session=session, values=values, **changes)


def side(name, *throughputs, **changes):
    return [run(f"{name}{number}", one, **changes) for number, one in enumerate(throughputs)]


def figure(comparison, name):
    (found,) = (each for each in comparison.figures if each.name == name)
    return found


@pytest.mark.parametrize(
    ("new", "claim", "at_most"),
    [
        ((1_100.0, 1_110.0, 1_090.0), Claim.FASTER, None),
        # Slower by so much counts only beyond the interval.
        ((900.0, 901.0, 899.0), Claim.SLOWER, 0.09),
        ((1_004.0, 984.0, 1_013.0), Claim.UNCLEAR, None),
        ((900.0, 1_200.0, 700.0), Claim.UNCLEAR, None),
        ((100.0,), Claim.SLOWER, 0.85),
    ],
)
def test_from_two_runs_a_side_the_interval_decides(new, claim, at_most):
    compared = compare_sides(side("a", 1_000.0, 1_001.0, 999.0), side("b", *new))
    assert compared.claim is claim
    assert compared.throughput.ratio.basis is (Basis.RUNS if len(new) > 1 else Basis.LIKE_RUNS)
    assert compared.throughput.runs == (3, len(new))
    assert compared.throughput.is_better is {Claim.FASTER: True, Claim.SLOWER: False}.get(claim)
    shares = (0.0, 0.05, at_most or 0.1, (at_most or 0.1) + 0.05)
    expected = [at_most is not None and share <= at_most for share in shares]
    assert [is_slower_by(compared, share) for share in shares] == expected


def test_of_one_run_a_side_nothing_is_claimed_and_of_several_it_is_the_geometric_mean():
    assert not is_slower_by(compare_sides(side("a", 1_000.0), side("b", 100.0)), 0.05)
    compared = compare_sides(side("a", 100.0, 400.0), side("b", 200.0))
    assert compared.throughput.base == pytest.approx(200)
    assert compared.throughput.ratio.value == pytest.approx(1)


def test_a_part_of_the_time_that_a_run_had_none_of_is_0_but_a_wait_that_was_not_measured_unknown():
    more = {"account.training": 9.0, "account.stalls": 0.5, "account.data_wait": 0.5}
    base = [run("a", values={"account.training": 9.0}), run("b", values=more)]
    new = [run("c", values=more), run("d", values={})]
    compared = compare_sides(base, new)
    stalls = figure(compared, "account.stalls")
    assert (stalls.runs, stalls.base, stalls.new) == ((2, 1), 0.25, 0.5)
    assert stalls.ratio is None
    assert figure(compared, "account.data_wait").runs == (1, 1)


def test_less_time_is_better_and_utilisation_is_neither():
    times = {"seconds_per_epoch": 9.0, "cpu_pct": 50.0}
    base = [run(f"a{n}", 1_000 + n, {k: v + n / 100 for k, v in times.items()}) for n in range(3)]
    new = [
        run(f"b{n}", 2_000 + n, {k: v / 2 + n / 100 for k, v in times.items()}) for n in range(3)
    ]
    compared = compare_sides(base, new)
    assert figure(compared, "seconds_per_epoch").is_better is True
    assert figure(compare_sides(new, base), "seconds_per_epoch").is_better is False
    assert figure(compared, "cpu_pct").ratio.is_significant
    assert figure(compared, "cpu_pct").is_better is None


@pytest.mark.parametrize(("change", "better"), [(0.0002, None), (0.001, True)])
def test_a_difference_of_0_0_percent_is_no_better_however_sure_it_is(change, better):
    base = side("a", 1_000.0, 1_000.001, 999.999)
    new = side("b", *(rate * (1 + change) for rate in (1_000.0, 1_000.001, 999.999)))
    compared = compare_sides(base, new)
    assert compared.throughput.ratio.is_significant
    assert compared.throughput.is_better is better


UNLIKE = (
    *(
        {"host": "another"},
        {"workload": "mnist-mlp"},
        {"device": "gpu:0"},
        {"throughput_unit": "steps/s"},
    ),
    {"options": OPTIONS | {"threads": 4}},
)


@pytest.mark.parametrize("change", UNLIKE)
def test_earlier_runs_say_how_runs_differ_where_their_conditions_were_the_same(change):
    base, new = side("a", 1_000.0), side("b", 1_200.0)
    like = side("e", 1_000.0, 1_010.0, 990.0, 1_005.0, 995.0)
    compared = compare_sides(base, new, like)
    assert compared.throughput.ratio.basis is Basis.LIKE_RUNS
    assert compared.claim is Claim.FASTER
    unlike = [replace(one, **change) for one in like]
    assert compare_sides(base, new, unlike).claim is Claim.UNKNOWN


def script(path="/home/ada/train.py", git_commit=None, **more):
    """Return what a run of a script has."""
    which = Script("train.py", path, "/home/ada", git_commit=git_commit, **more)
    return {"workload": "train.py", "command": ("python", "train.py"), "script": which}


@pytest.mark.parametrize(
    ("old", "new", "unknown"),
    [
        [{"script_sha256": digit} for digit in ("a", "b", None)],
        [{"script": script(git_commit=digit)["script"]} for digit in ("a", "b", None)],
    ],
)
def test_runs_of_a_script_whose_code_was_another_are_a_group_of_their_own(old, new, unknown):
    old, new = script() | old, script() | new
    earlier = [*side("e", 1_000.0, 1_010.0, **old), *side("f", 2_000.0, 2_020.0, **new)]
    compared = compare_sides(side("a", 1_000.0, **old), side("b", 1_200.0, **new), earlier)
    assert compared.claim is Claim.FASTER
    mixed = [replace(one, **unknown) for one in earlier]
    assert compare_sides(compared.base, compared.new, mixed).claim is Claim.UNCLEAR


def test_scripts_of_one_name_in_different_places_are_unlike_unless_they_are_of_one_repository():
    here, there = run("a", **script("/home/ada/train.py")), run("b", **script("/srv/train.py"))
    said = "script /home/ada/train.py, not /srv/train.py"
    assert compare_sides([here], [there]).unlike == (said,)
    assert compare_sides([here], [run("c", **script("/home/ada/train.py"))]).unlike == ()
    origin = {"git_repository": "github.com/ada/nets", "git_path": "train.py"}
    here, there = (run(name, **script(f"/{name}/train.py", **origin)) for name in "ab")
    compared = compare_sides([here], [there])
    assert compared.unlike == ()
    (found,) = compared.versions
    assert (found.name, found.base, found.new) == ("path of train.py", "/a/train.py", "/b/train.py")


# ---- metrics ----


def learned(session, batches=1_000, **metrics):
    return run(session, values={f"metric.{n}": v for n, v in metrics.items()}, batches=batches)


def test_what_was_learned_is_compared_the_way_its_name_says():
    base = [learned(f"a{n}", loss=0.5 + n / 1_000, val_acc=0.8 + n / 1_000) for n in range(3)]
    new = [learned(f"b{n}", loss=0.4 + n / 1_000, val_acc=0.9 + n / 1_000) for n in range(3)]
    compared = compare_sides(base, new)
    assert figure(compared, "metric.loss").is_better is True
    assert figure(compared, "metric.val_acc").is_better is True
    back = compare_sides(new, base)
    assert (
        figure(back, "metric.loss").is_better is figure(back, "metric.val_acc").is_better is False
    )
    rates = [learned(f"c{n}", learning_rate=0.1 + n / 1_000) for n in range(6)]
    assert figure(compare_sides(rates[:3], rates[3:]), "metric.learning_rate").is_better is None


@pytest.mark.parametrize(
    ("changes", "batches", "why"),
    [
        ({}, 2_000, "the runs had different numbers of batches"),
        (
            {"read_once": frozenset({"loss"})},
            1_000,
            "the last value covers only some steps, and no epoch",
        ),
    ],
)
def test_what_was_learned_after_more_batches_or_some_steps_is_shown_and_not_compared(
    changes, batches, why
):
    base = [replace(learned("a", loss=0.5), **changes)]
    loss = figure(compare_sides(base, [learned("b", batches, loss=0.4)]), "metric.loss")
    assert (loss.base, loss.new, loss.ratio, loss.why) == (0.5, 0.4, None, why)


# ---- steps and samples ----


def test_steps_are_not_compared_with_samples():
    base = side("a", 1_000.0, 1_010.0, 990.0, values={"step_ms.median": 10.0})
    new = side("b", 50.0, 50.5, 49.5, values={"step_ms.median": 20.0}, throughput_unit="steps/s")
    compared = compare_sides(base, new)
    throughput = compared.throughput
    assert throughput.why == "one side counts steps, the other samples"
    assert throughput.ratio is throughput.is_better is None
    assert (throughput.base, throughput.new) == pytest.approx((1_000, 50), rel=0.01)
    assert compared.claim is Claim.UNKNOWN
    assert not is_slower_by(compared, 0.05)
    # What a step takes is another matter.
    assert figure(compared, "step_ms.median").ratio.value == pytest.approx(2)


# ---- unlike runs ----


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"workload": "mnist-mlp"}, "network cifar10-cnn, not mnist-mlp"),
        ({"batch_size": 32}, "batch size 100, not 32"),
        ({"precision": "mixed_float16"}, "precision float32, not mixed_float16"),
        ({"mode": "inference"}, "mode train, not inference"),
        ({"data": "real"}, "data synthetic, not real"),
        ({"data": None}, "data synthetic, not –"),
    ],
)
def test_what_is_unlike_is_named(change, says):
    assert compare_sides(side("a", 1.0), side("b", 1.0, **change)).unlike == (says,)


@pytest.mark.parametrize(("batches", "is_compared"), [(50, True), (120, False), (None, True)])
def test_what_grows_with_every_batch_is_compared_only_of_as_many(batches, is_compared):
    values = {
        "account.training": 9.0,
        "account.startup": 3.0,
        "cost_usd": 0.1,
        "cost_usd_per_epoch": 0.02,
    }
    compared = compare_sides(
        [run("a", values=values, batches=50)], [run("b", values=values, batches=batches)]
    )
    for name in ("account.training", "cost_usd"):
        assert (figure(compared, name).ratio is not None) is is_compared
        said = None if is_compared else "the runs had different numbers of batches"
        assert figure(compared, name).why == said
    for name in ("account.startup", "cost_usd_per_epoch"):
        assert figure(compared, name).ratio is not None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"samples": 60_000}, "their epochs differ in length"),
        ({"is_projected": True}, "one is measured, the other a projection"),
        # One that was never steady has neither.
        ({"is_projected": None, "values": {}}, None),
    ],
)
def test_epochs_of_another_length_or_projected_ones_are_not_compared_but_throughput_is(
    changes, why
):
    times = {"values": {"seconds_per_epoch": 9.0}}
    compared = compare_sides([run("a", **times)], [run("b", **times | changes)])
    assert compared.unlike == ()
    assert compared.throughput.ratio is not None
    epoch = figure(compared, "seconds_per_epoch")
    assert (epoch.ratio, epoch.why) == (None, why)


def test_options_and_environment_that_differ_are_named_and_cleaned():
    changed = {
        "options": OPTIONS | {"threads": 4, "jit": True, "log_dir": "/elsewhere"},
        "versions": VERSIONS | {"keras": "4"},
        "machine": MachineFacts(cpu_model="Another CPU", cores=8),
    }
    compared = compare_sides([run("a"), run("c")], [run("b", **changed)])
    found = {each.name: (each.base, each.new) for each in compared.options}
    assert found == {"threads": ("2", "4"), "jit": ("–", "yes")}
    found = {each.name: (each.base, each.new) for each in compared.environment}
    assert found == {"CPU": ("Some CPU", "Another CPU"), "version of keras": ("3.12", "4")}
    hostile = {"\x1b[31mred" * 50: ["\x1b]0;title\x07" * 50]}
    (found,) = compare_sides([run("a")], [run("b", options=OPTIONS | hostile)]).options
    assert "\x1b" not in found.name + found.new
    assert len(found.name) <= 60


def test_that_the_code_of_a_script_differs_is_named_where_it_is_known_of_all():
    base = [run("a", **script(git_commit="c" * 40), script_sha256="a" * 64)]
    same = run("b", **script(git_commit="c" * 40), script_sha256="a" * 64)
    other = run("c", **script(git_commit="d" * 40), script_sha256="b" * 64)
    assert compare_sides(base, [same]).versions == ()
    found = {one.name: (one.base, one.new) for one in compare_sides(base, [other]).versions}
    assert found == {
        "contents of train.py": ("a" * 12, "b" * 12),
        "git commit": ("c" * 12, "d" * 12),
    }
    # Of another script, it is not the contents of the first.
    another = replace(other, workload="fit.py")
    found = [one.name for one in compare_sides(base, [another]).versions]
    assert found == ["contents of the script", "git commit"]
    # A log of an earlier version says nothing of it.
    assert compare_sides(base, [other, run("d", **script())]).versions == ()


# ---- what can't be compared at all ----


@pytest.mark.parametrize(
    ("base", "new", "says"),
    [
        ("bx", "cx", "x is on both sides"),
        ("s", "b", "s has no throughput to compare: the run was too short"),
        (
            "b",
            "sf",
            "none of the 2 runs of new has a throughput to compare: s has no .*: the run was too",
        ),
        (
            "fs",
            "b",
            r"none of the 2 runs of base has a throughput to compare: big failed \(out of mem",
        ),
    ],
)
def test_a_run_on_both_sides_or_a_side_without_a_throughput_is_refused_with_the_reason(
    base, new, says
):
    short = {"values": {}, "lacking": {"samples_per_second": "the run was too short"}}
    failed = {**short, "name": "big", "status": Status.FAILED, "error": "out of memory"}

    def runs(names):
        return [replace(run(one), **{"s": short, "f": failed}.get(one, {})) for one in names]

    with pytest.raises(NotComparable, match=says):
        compare_sides(runs(base), runs(new))


def test_of_several_runs_one_without_a_throughput_is_left_out():
    none = replace(run("a"), values={})
    compared = compare_sides([none, run("b"), run("c")], side("d", 1.0, 2.0))
    assert compared.left_out == (none,)
    assert compared.throughput.runs == (2, 2)


# ---- slower by so much ----


numbers = st.floats(0, 1e300) | st.sampled_from([0.0, 1e-300])
any_run = st.builds(
    lambda session, values, batch_size, error: replace(
        RUN, session=session, values=values, batch_size=batch_size, throughput_error=error
    ),
    st.text(max_size=3),
    st.dictionaries(st.sampled_from([*FIGURES, "account.stalls"]), numbers, max_size=6),
    st.sampled_from([None, 1, 2]),
    st.none() | st.builds(Error, st.floats(0, 1e300), st.integers(1, 31)),
)


@pytest.mark.slow
@given(
    st.lists(any_run, min_size=1, max_size=4),
    st.lists(any_run, min_size=1, max_size=4),
    st.lists(any_run, max_size=6),
)
def test_whatever_logs_hold_it_is_compared_or_refused(base, new, earlier):
    try:
        compared = compare_sides(base, new, earlier)
    except NotComparable:
        return
    assert compared.figures[0].name == THROUGHPUT
    for each in compared.figures:
        if min(each.runs) < 2 and not earlier and max(each.runs) < 2:
            assert each.ratio is None or not each.ratio.is_significant
