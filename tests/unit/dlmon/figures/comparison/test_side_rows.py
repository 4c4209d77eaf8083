import math
import re
from dataclasses import replace

import pytest
from fakes.compared import side

from dlmon.comparison.sides import (
    ChangedFile,
    CodeChanges,
    ComparedFigure,
    Difference,
    NoThroughput,
    compare_sides,
)
from dlmon.figures.comparison.side_rows import (
    _bar_of,
    advice,
    change_text,
    changed_text,
    describe_sides,
    doubts,
    figure_table,
    legends,
    notes,
    side_name,
    throughput_bars,
    verdict,
)
from dlmon.figures.sections import Figures, Note, Table
from dlmon.records import GpuState, MachineFacts, SecondsPerEpoch, Status
from dlmon.render.lines import lines_of
from dlmon.statistics.ratios import Basis, Error, Ratio

(RUN,) = side("run", 1_000.0)


def cells(comparison, name):
    (row,) = (row for row in figure_table(comparison).rows if row[0] == name)
    return row


def names_of(comparison):
    return [row[0] for row in figure_table(comparison).rows]


def same_figures(comparison):
    """Return the figures below the table, which are the same in both sides."""
    sections = [*describe_sides(comparison)]
    below = sections[sections.index(figure_table(comparison)) + 1]
    return [" ".join(row) for row in below.rows]


@pytest.mark.parametrize(
    ("base", "new", "shown"),
    [
        (0.00699, 0.01, ("0.007", "0.010")),
        (0.0123, 0.5, ("0.01", "0.50")),
        (0.0, 0.00699, ("0", "0.007")),
        (0.00699, 12.3, ("0.007", "12.30")),
        (101.4, 1_250.4, ("101", "1,250")),
        (None, 0.005, ("–", "0.005")),
    ],
)
def test_both_sides_of_a_small_figure_have_the_same_digits(base, new, shown):
    values = [None if one is None else {"compile_s": one} for one in (base, new)]
    sides = [side(name, 900.0, values=one) for name, one in zip("ab", values, strict=True)]
    assert cells(compare_sides(*sides), "compile, s")[1:3] == shown


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Ratio(1.049, 1.03, 1.07, 0.001, Basis.RUNS), "1.049×"),
        (Ratio(0.951, 0.93, 0.97, 0.001, Basis.RUNS), "0.951×"),
        (Ratio(1.004, 0.99, 1.02, 0.6, Basis.RUNS), "~ 1.004×"),
        (Ratio(1.5, 1.49, 1.51, None, Basis.WITHIN_RUNS), "? 1.500×"),
        (Ratio(12.5, 12.0, 13.0, 0.001, Basis.RUNS), "12.5×"),
        (Ratio(0.08, 0.07, 0.09, 0.001, Basis.RUNS), "0.080×"),
        (Ratio(1e9), "? over 1,000,000×"),
    ],
)
def test_a_change_is_marked_where_it_is_not_significant(ratio, text):
    assert change_text(ratio) == text


def test_a_side_is_called_by_its_name_where_all_its_runs_bear_it():
    for runs, name in (
        (side("a", 1.0), "a-0"),
        (side("a", 1.0, 2.0), "a-0 and a-1"),
        (side("a", 1.0, 2.0, 3.0), "a-0 and 2 more"),
        ([*side("a", 1.0, name="first"), *side("b", 1.0)], "first and b-0"),
        (side("a", 1.0, name="baseline"), "baseline"),
        (side("a", 1.0, 2.0, name="baseline"), "baseline, 2 runs"),
    ):
        assert side_name(runs) == name


@pytest.mark.parametrize(
    ("against", "said"),
    [
        # Where they differ in their figures, what they have in common.
        (
            {"cpu_shared": "other programs took {0.5, 0.7} of 2 cores"},
            ["both runs: other programs took part of the CPUs"],
        ),
        (
            {"busy_at_start": "machine was busy at the start: CPU {30, 40} %"},
            ["both runs: machine was busy at the start"],
        ),
        ({"on_battery": "the machine ran on battery"}, ["both runs: the machine ran on battery"]),
        # What is of each run alone is said of each.
        (
            {"too_short": "too short: {3.0, 4.0} s of steady batches"},
            ["a-0: too short: 3.0 s of steady batches", "c-0: too short: 4.0 s of steady batches"],
        ),
    ],
)
def test_what_speaks_against_every_run_is_said_once(against, said):
    (name, text), (a, c) = *against.items(), (side("a", 1.0), side("c", 2.0))
    each = [re.sub(r"\{(.*), (.*)\}", rf"\{n}", text) for n in (1, 2)]
    doubted = [
        [replace(one, valid=False, warnings={name: why})]
        for (one,), why in zip((a, c), each, strict=True)
    ]
    assert doubts(compare_sides(*doubted)) == said
    alone = ["a-0 is still running: its figures are those so far", f"c-0: {each[1]}"]
    running = [replace(a[0], status=Status.RUNNING)]
    assert doubts(compare_sides(running, doubted[1])) == alone


ERROR = Error(0.01, 9)


@pytest.mark.parametrize(
    ("runs", "rests_on", "command", "how"),
    [
        ((1_120.0,), "1 run each", None, "dlmon sweep cifar10-cnn --repeat 3"),
        ((1_120.0, 1_120.0), "1 run on a side", None, "dlmon sweep cifar10-cnn --repeat 3"),
        ((1_120.0,), "1 run each", ("train.py",), "dlmon exec --repeat 3"),
    ],
)
def test_of_one_run_a_side_it_is_said_what_would_show_more(runs, rests_on, command, how):
    of_script = {"workload": "train.py", "command": command} if command else {}
    base, new = side("a", 1_000.0, **of_script), side("b", *runs, **of_script)
    it = compare_sides(base, new)
    assert verdict(it) == f"new is 1.120× as fast as base in samples/s ({rests_on})"
    assert advice(it) == [f"→ to see how much runs differ: {how}"]


def test_the_marks_in_a_table_are_explained_and_a_verdict_has_its_interval():
    one_each = compare_sides(
        side("a", 1.0, throughput_error=ERROR), side("b", 2.0, throughput_error=ERROR)
    )
    # No change was tested, so no mark tells which were not; the verdict says so.
    assert cells(one_each, "samples/s")[3] == "2.00×"
    assert legends(figure_table(one_each)) == []
    assert "not how much runs differ" in notes(one_each)[0]
    judged = compare_sides(side("a", 1.0), side("b", 1.0), side("c", 1.0, 1.01, 0.99))
    assert "allows for how runs differ" in legends(figure_table(judged))[0]
    assert notes(judged)[0] == (
        "how runs differ is taken from other runs of the same conditions here"
    )
    clear = compare_sides(side("a", 1_000.0, 1_001.0, 999.0), side("b", 1_100.0, 1_101.0, 1_099.0))
    assert legends(figure_table(clear)) == []
    assert verdict(clear) == "new is 1.100× as fast as base in samples/s (1.098× to 1.102×)"
    assert verdict(compare_sides(side("a", 1, 1), side("b", 2, 2))) == (
        "new is 2.00× as fast as base in samples/s (the runs of a side do not differ at all)"
    )


def told_beside_the_verdict(base, new):
    """Return the sentences after the verdict that are no advice."""
    sections = describe_sides(compare_sides(base, new))
    (verdict,) = (section for section in sections if getattr(section, "kind", "") == "verdict")
    return [text for text in verdict.sentences[1:] if not text.startswith("→")]


@pytest.mark.parametrize(
    ("base", "new", "more", "cause"),
    [
        (
            {"account.training": 20.0},
            {"account.training": 23.01},
            {},
            "Largest change: steps, 20.00 → 23.01 s.",
        ),
        (
            {"account.training": 20.0, "account.data_wait": 0.0},
            {"account.training": 20.1, "account.data_wait": 2.5},
            {},
            "Largest change: waiting for data, 0.00 → 2.50 s.",
        ),
        # The parts of a step say more; of a faster side, what takes less time counts.
        (
            {"account.training": 20.0, "step.forward_ms": 3.0, "step.backward_ms": 4.0},
            {"account.training": 30.0, "step.forward_ms": 3.5, "step.backward_ms": 6.25},
            {},
            "Largest change: backward, 4.00 → 6.25 ms a step.",
        ),
        ({"account.training": 20.0}, {"account.training": 19.0}, {}, ""),
        # What comes once a run isn't in the throughput, nor does other work compare.
        ({"account.startup": 2.0}, {"account.startup": 9.0}, {}, ""),
        ({"step.forward_ms": 3.0}, {"step.forward_ms": 6.0}, {"batch_size": 32}, ""),
    ],
)
def test_a_slower_side_is_told_with_the_part_that_grew_most(base, new, more, cause):
    sides = side("a", 1_000.0, values=base), side("b", 900.0, values=new, **more)
    assert told_beside_the_verdict(*sides) == [cause] * bool(cause)


def test_a_faster_side_is_told_with_the_part_that_shrank_most_if_that_is_certain():
    def steps(name, rate, *seconds):
        return [
            run
            for number, s in enumerate(seconds)
            for run in side(f"{name}{number}", rate + number, values={"account.training": s})
        ]

    base = steps("a", 1_000.0, 20.0, 20.1, 19.9)
    (cause,) = told_beside_the_verdict(base, steps("b", 1_100.0, 18.2, 18.1, 18.3))
    assert cause == "Largest change: steps, 20.00 → 18.20 s."
    assert told_beside_the_verdict(base, steps("b", 1_100.0, 18.2, 12.1, 25.3)) == []


def test_the_driver_of_a_machine_without_one_is_none():
    machines = MachineFacts(driver="550.54"), MachineFacts(gpus_state=GpuState.NO_DRIVER)
    base, new = (side(n, 1.0, machine=machine) for n, machine in zip("ab", machines, strict=True))
    assert changed_text(*compare_sides(base, new).environment) == "550.54 → none"


# ---- steps and samples ----

IN_STEPS = {"throughput_unit": "steps/s", "workload": "train.py", "command": ("train.py",)}
IN_SAMPLES = {**IN_STEPS, "throughput_unit": "samples/s"}


def test_steps_and_samples_have_no_unit_in_common_and_no_verdict():
    comparison = compare_sides(
        side("a", 50.0, 50.5, **IN_STEPS), side("b", 1_600.0, 1_601.0, **IN_SAMPLES)
    )
    assert cells(comparison, "throughput") == (
        *("throughput", "50.25", "1,600", "not compared", "2+2"),
    )
    said = "not compared with base: one side counts steps, the other samples"
    assert verdict(comparison) == said
    assert [text[:10] for text in notes(comparison)] == ["not tested", "the loss i"]
    assert figure_table(comparison).levels == ("",)


def test_why_no_part_of_the_time_is_compared_is_said_once():
    values = {"account.steps": 9.0, "account.stalls": 1.0, "cost_usd": 0.1}
    of_real_data = {"values": values, "data": "real"}
    base, new = (side(name, 1.0, batches=n, **of_real_data) for n, name in enumerate("ab", 1))
    assert notes(compare_sides(base, new)) == [
        "USD and what each batch adds to the time are not compared: "
        "the runs had different numbers of batches"
    ]


@pytest.mark.parametrize(
    ("of_script", "others"),
    [
        ({}, ["start and imports 5.00 s", "compiling 1.40 s"]),
        # Of PyTorch, they have names that hold for it.
        (
            {"command": ("python", "train.py"), "compiles": False},
            ["before training 5.00 s", "first batch 1.40 s"],
        ),
    ],
)
def test_after_the_figure_stands_what_differs_then_the_loss_the_parts_of_a_step_memory(
    of_script, others
):
    values = {"metric.\x1b[31ma_very_long_name_of_a_metric": 0.5, "compile_s": 1.4}
    values |= {"account.startup": 5.0, "account.compiling": 1.4, "memory_mib": 1_024.0}
    values |= {"step.forward_ms": 1.5, "step_ms.median": 4.0}
    comparison = compare_sides(
        side("a", 1.0, values=values, **of_script),
        side("b", 1.0, values=values | {"step.forward_ms": 3.6}, **of_script),
    )
    # A foreign name is cleaned and cut.
    metric = "last a_very_long_nam…"
    assert names_of(comparison)[1:] == ["forward, ms a step"]
    same = ["median step 4.00 ms", f"{metric} 0.5000", "memory 1.00 GiB", *others]
    assert same_figures(comparison) == same
    assert cells(comparison, "forward, ms a step")[1:4] == ("1.50", "3.60", "2.40×")


def test_figures_without_a_ratio_that_hardly_differ_are_about_the_same_but_metrics_are_not():
    values = {"run_cores": 2.88, "metric.loss": 0.500}, {"run_cores": 2.89, "metric.loss": 0.501}
    base, new = (side(name, 1.0, values=v) for name, v in zip("ab", values, strict=True))
    assert same_figures(compare_sides(base, new)) == ["CPU used 2.88 → 2.89 cores"]


def test_another_device_stands_above_the_figures():
    sides = side("a", 1.0, device_name="GTX 1060"), side("b", 0.5, device_name="i7-9700K")
    _, _, differs, table, *_ = describe_sides(compare_sides(*sides))
    assert differs.sentences == ("Differs: device GTX 1060 → i7-9700K.",)
    assert isinstance(table, Table)


# ---- what differs ----


def differences(comparison, **options):
    sections = describe_sides(comparison, **options)
    return [one for one in sections if isinstance(one, Figures) and one.heading]


def test_unlike_sides_are_shown_without_figures_unless_that_is_asked_for():
    changes = {"batch_size": 32, "options": {"threads": 2}}
    it = compare_sides(side("a", 1.0, batch_size=64), side("b", 2.0, **changes))
    names, said, what_differs = describe_sides(it, anyway=False)
    assert names == Figures("", (("base", "a-0"), ("new", "b-0")))
    assert said == Note(("These runs do not compare: batch size 64, not 32.",), "verdict")
    assert what_differs == Figures("Different options", (("threads", "– → 2"),))
    _, verdict, doubted, _, table, *_ = describe_sides(it)
    assert verdict.sentences[0].startswith("New is 2.00× as fast as base")
    assert doubted == Note(("Not comparable: batch size 64, not 32.",), "warning")
    assert isinstance(table, Table)


VERSIONS = tuple(
    Difference(name, "a" * 12, "b" * 12) for name in ("contents of train.py", "git commit")
)


@pytest.mark.parametrize(
    ("code", "rows"),
    [
        (None, ["contents of train.py", "git commit"]),
        (CodeChanges("a", "b", why="git is not installed"), ["contents of train.py", "git commit"]),
        (CodeChanges("a", "b", (ChangedFile("train.py", 12, 4),)), ["git commit"]),
        (
            CodeChanges("a", "b", (ChangedFile("net.bin", None, None),), ("a-0",)),
            ["contents of train.py", "git commit", "a-0"],
        ),
    ],
)
def test_the_files_that_changed_stand_before_the_figures(code, rows):
    sides = compare_sides(side("a", 1.0), side("b", 1.0))
    sections = list(describe_sides(replace(sides, versions=VERSIONS, code=code)))
    (section,) = (one for one in sections if getattr(one, "heading", "") == "Different code")
    assert sections.index(section) < next(
        number for number, one in enumerate(sections) if isinstance(one, Table)
    )
    assert [name for name, _ in section.rows][: len(rows)] == rows
    shown = dict(section.rows)
    if code is None:
        assert len(shown) == 2
    elif code.why:
        assert shown["files"] == "not listed: git is not installed"
    else:
        assert shown[code.files[0].name] == ("binary" if code.uncommitted else "+12 -4")


def test_of_many_changed_files_the_largest_are_named_and_the_others_counted():
    files = tuple(ChangedFile(f"{'d/' * 100}{n}.py", 40 - n, None) for n in range(40))
    code = CodeChanges("a", "b", files)
    sides = replace(compare_sides(side("a", 1.0), side("b", 1.0)), code=code)
    (section,) = differences(sides)
    names = [name for name, _ in section.rows]
    assert len(names) == 13
    assert names[0].startswith("…")
    assert names[0].endswith("/0.py")
    assert section.rows[-1] == ("28 more files", "+406 -0")


def test_a_long_value_is_cut_to_where_it_differs():
    ends = [
        changed_text(Difference("data", f"/{'x' * 200}/{name}", f"/{'x' * 200}/b")) for name in "ac"
    ]
    assert ends == ["…xxxxxxx/a → …xxxxxxx/b", "…xxxxxxx/c → …xxxxxxx/b"]


# ---- what else ran ----


def test_what_other_programs_took_stands_beside_the_verdict():
    quiet, busy = {"run_cores": 1.9, "other_cores": 0.1}, {"run_cores": 0.7, "other_cores": 1.4}
    comparison = compare_sides(side("a", 1.0, values=quiet), side("b", 0.3, values=busy))
    assert doubts(comparison) == ["other programs took 1.3 cores more in new"]
    assert cells(comparison, "other programs, cores")[1:4] == ("0.10", "1.40", "")
    assert cells(comparison, "CPU used, cores")[1:4] == ("1.90", "0.70", "")
    turned = compare_sides(side("a", 1.0, values=busy), side("b", 0.3, values=quiet))
    assert doubts(turned) == ["other programs took 1.3 cores more in base"]
    same = compare_sides(side("a", 1.0, values=quiet), side("b", 1.0, values=quiet))
    assert doubts(same) == []


def test_that_epochs_took_longer_nevertheless_stands_beside_the_verdict():
    def epochs(name, rate, *took_s):
        values = [{"samples_per_second": rate + s, "seconds_per_epoch": s} for s in took_s]
        return [replace(RUN, session=f"{name}{n}", values=one) for n, one in enumerate(values)]

    base, slower = epochs("a", 1_000.0, 10.0), epochs("b", 1_200.0, 10.6)
    assert doubts(compare_sides(base, slower)) == ["an epoch took 1.060× the time in new even so"]
    assert doubts(compare_sides(slower, base)) == ["an epoch took 0.943× the time in new even so"]
    assert doubts(compare_sides(base, epochs("b", 1_200.0, 8.3))) == []
    # Not where they did by chance alone.
    comparison = compare_sides(base, epochs("b", 1_200.0, 5.0, 10.0, 40.0))
    epoch = next(each for each in comparison.figures if each.name == "seconds_per_epoch")
    assert epoch.ratio.value > 1.2
    assert not epoch.ratio.is_significant
    assert doubts(comparison) == []


# ---- what failed ----

FAILED = replace(
    RUN,
    session="bad",
    status=Status.FAILED,
    values={},
    lacking={"samples_per_second": "too short"},
    error="out of memory",
)


def test_of_a_run_that_failed_it_is_said_why():
    with pytest.raises(NoThroughput, match=r"^bad failed \(out of") as refused:
        compare_sides(side("a", 1.0), [replace(FAILED, options={"threads": 2})])
    # What differs may be why it failed.
    _, said, differing, *_ = describe_sides(refused.value.comparison)
    assert said.sentences[0].startswith("Not compared with base: bad failed (out of memory)")
    assert differing == Figures("Different options", (("threads", "– → 2"),))
    comparison = compare_sides([*side("a", 1.0), FAILED], side("b", 2.0))
    assert doubts(comparison) == [
        "left out: bad failed (out of memory) before it had a throughput to compare"
    ]
    measured = replace(FAILED, values={"samples_per_second": 1.0})
    assert doubts(compare_sides(side("a", 1.0), [measured])) == [
        "bad failed (out of memory): its figures are those up to then"
    ]


def test_below_the_table_each_run_has_a_bar_of_its_throughput_from_zero():
    bars = throughput_bars(compare_sides([*side("a", 100.0, 50.0), FAILED], side("bb", 200.0)))
    heading, *rows = ["".join(text for text, _ in line) for line in lines_of([bars])]
    assert heading.strip() == "samples/s"
    assert [(row.split()[:2], row.count("█")) for row in rows] == [
        (["base", "a-0"], 12),
        (["base", "a-1"], 6),
        (["new", "bb-0"], 24),
    ]
    assert len({row.index("█") for row in rows}) == 1
    # Samples and steps have no common scale.
    of_steps = side("b", 200.0, throughput_unit="steps/s")
    assert throughput_bars(compare_sides(side("a", 1.0), of_steps)) is None


def test_the_first_epoch_alone_is_not_compared_with_epochs_without_the_first():
    def took(name, value, **more):
        timing = SecondsPerEpoch(value, value - 0.01, value + 0.01, projected=False, **more)
        return replace(
            side(name, 1_000.0, values={"seconds_per_epoch": value})[0],
            timings={"seconds_per_epoch": timing},
        )

    later, first = took("a", 9.16, epochs=2, first_left_out=True), took("b", 10.66, epochs=1)
    both = compare_sides([later], [first])
    assert cells(both, "seconds per epoch")[1:4] == ("9.16", "10.66", "not compared")
    assert notes(both)[0] == "seconds per epoch is not compared: 1 epoch, compile included"
    warm = compare_sides([later], [replace(first, compiles=False)])
    assert notes(warm)[0] == "seconds per epoch is not compared: first epoch only"
    # Two first epochs compare, and so do epochs of a script of which the first is like the rest.
    for base in (took("c", 9.0, epochs=1), took("d", 9.0, epochs=3)):
        assert "not compared" not in cells(compare_sides([base], [first]), "seconds per epoch")


def test_a_bar_shows_each_change_faint_if_it_was_not_tested():
    values = [{"step_ms.p95": p95, "compile_s": 1.0 + n / 2} for n, p95 in enumerate((8.0, 4.0))]
    table = figure_table(
        compare_sides(
            *(side(name, 1_000.0, values=v) for name, v in zip("ab", values, strict=True))
        )
    )
    bars = [row[table.headings.index(" bad│good")] for row in table.rows]
    assert bars == ["", "    │░░░░", "  ░░│"]


@pytest.mark.parametrize(
    ("name", "bar"),
    [
        ("step_ms.p95", "░░░░│"),
        ("metric.loss", "░░░░│"),
        ("metric.accuracy", "    │░░░░"),
        ("cpu_pct", ""),
    ],
)
def test_a_bar_tells_the_better_from_the_worse(name, bar):
    more = ComparedFigure(name, 1.0, 1.2, Ratio(1.2, 0.9, 1.6, 0.2), (3, 3))
    assert _bar_of(more, math.log(1.2)) == bar


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ((0.60, 0.61, 0.59), []),
        ((0.50, 0.51, 0.49), ["The last loss is lower: 0.833× (0.799× to 0.869×)."]),
        ((0.90, 0.91, 0.89), ["The last loss is higher: 1.500× (1.450× to 1.552×)."]),
    ],
)
def test_a_loss_that_certainly_differs_is_said_with_the_verdict(losses, said):
    def runs(name, losses):
        return [
            run
            for n, loss in enumerate(losses)
            for run in side(f"{name}{n}", 10.0 + n / 100, values={"metric.loss": loss})
        ]

    assert told_beside_the_verdict(runs("a", (0.60, 0.61, 0.59)), runs("b", losses)) == said


def test_what_is_shown_as_equal_is_same_and_what_a_side_lacks_is_said():
    values = {"compile_s": 1.5, "gpu_memory_mib": 4854.0, "memory_mib": 900.0}
    base = [run for n in range(3) for run in side(f"a{n}", 10.0 + n / 100, values=values)]
    values = {"compile_s": 1.50001, "memory_mib": 900.0}
    new = [run for n in range(3) for run in side(f"b{n}", 5.0 + n / 100, values=values)]
    both = compare_sides(base, new)
    assert both.figures[0].ratio.is_significant
    assert same_figures(both) == ["memory 0.88 GiB", "compile 1.50 s"]
    assert names_of(both) == ["samples/s", "GPU memory, GiB"]
    assert cells(both, "GPU memory, GiB")[1:4] == ("4.74", "–", "on the CPU")
    on_gpu = compare_sides(base, [replace(run, device="gpu:0") for run in new])
    assert cells(on_gpu, "GPU memory, GiB")[1:4] == ("4.74", "–", "not read")


def test_the_time_to_compile_is_told_once():
    values = {"compile_s": 1.5, "account.compiling": 1.51, "account.training": 9.0}
    runs = [side(name, 10.0, values=values)[0] for name in "ab"]
    assert [
        row for row in same_figures(compare_sides(*([run] for run in runs))) if "comp" in row
    ] == ["compiling 1.51 s"]


def test_of_two_runs_a_side_that_differ_much_it_is_said_that_they_are_too_few():
    base, new = side("a", 10.0, 20.0), side("b", 12.0, 25.0)
    both = compare_sides(base, new)
    assert verdict(both) == (
        "no clear difference from base in samples/s (too few runs to know how much runs differ)"
    )
    row = cells(both, "samples/s")
    assert "too few runs" in row
    assert "? 1.225×" in row
    assert [text[:12] for text in legends(figure_table(both))] == ["? not tested"]


def test_the_loss_of_synthetic_data_is_not_compared_and_that_is_said():
    runs = [replace(side(name, 10.0)[0], data="synthetic") for name in "ab"]
    assert "the loss is not compared: the data is synthetic" in notes(
        compare_sides(*([run] for run in runs))
    )


@pytest.mark.parametrize("anyway", [True, False])
def test_that_nothing_differs_is_said_only_of_the_same_work(anyway):
    def said(**changes):
        it = compare_sides(side("a", 10.0), side("b", 10.5, **changes))
        notes = [s for s in describe_sides(it, anyway) if isinstance(s, Note)]
        return any("Nothing that is known" in text for note in notes for text in note.sentences)

    assert said()
    assert not said(batch_size=32)
