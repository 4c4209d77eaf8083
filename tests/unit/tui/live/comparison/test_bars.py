"""The rows of a comparison as its bars show them: what they are called, and how long they are."""

import pytest

from dlmon.comparison.compare import ComparisonRow
from dlmon.comparison.published import Published
from dlmon.records import Doubt
from tui.live.comparison.bars import BarRow, bar_rows, said_of_all


def published(label, value, **options):
    return ComparisonRow(label, "seconds_per_epoch", "published", value, year=2017, **options)


def test_published_rows_are_named_shortly_but_distinguished():
    cloud = "16 vCPU Skylake (Google Cloud highcpu, preemptible)"
    bars = bar_rows(
        [
            published("NVIDIA GeForce GTX 1060", 9.0, framework="TensorFlow 1.x"),
            published(cloud, 34.0, framework="TensorFlow 1.2.1 from pip"),
            published(cloud, 33.1, framework="TensorFlow 1.2.1 compiled for the CPU"),
            published("NVIDIA K80 (GCE, 1 die)", 3.0),
            published("NVIDIA K80 (EC2, 1 die)", 4.0),
        ],
        {},
    )[1:]
    assert [row.label for row in bars] == [
        "NVIDIA GTX 1060",
        "16 vCPU Skylake, from pip",
        "16 vCPU Skylake, compiled for the CPU",
        "NVIDIA K80 (GCE, 1 die)",
        "NVIDIA K80 (EC2, 1 die)",
    ]
    assert bars[0] == BarRow(
        "NVIDIA GTX 1060", 9 / 34, "9.00 s", more=("2017", "TensorFlow 1.x", "")
    )


def test_only_rows_that_are_alike_have_bars_and_all_that_differs_is_named():
    bars = bar_rows(
        [
            ComparisonRow("this run", "seconds_per_epoch", "this", 8.0),
            published("GTX 1060", 16.0),
            published("K80", 4.0, comparable=False, badges=("batch 32, not 64", "float16")),
        ],
        {},
    )
    assert [(row.label, row.fraction, row.alike) for row in bars] == [
        ("this run", 0.5, True),
        ("GTX 1060", 1.0, True),
        ("K80", None, False),
    ]
    assert bars[2].note == "batch 32, not 64; float16"


def test_a_run_that_nothing_is_like_has_no_bar():
    this = ComparisonRow("this run", "seconds_per_epoch", "this", 8.0)
    other = published("K80", 800.0, comparable=False, badges=("batch 32, not 64",))
    assert [row.fraction for row in bar_rows([this, other], {})] == [None, None]
    assert not said_of_all([this, other])


def test_a_run_without_a_figure_stands_above_the_published_rows():
    first, second, third = bar_rows([published("K80", 3.0), published("P100", 1.5)], {})
    assert first == BarRow("this run", None, "–", style="this")
    assert (second.label, second.fraction) == ("K80", 1.0)
    assert (third.label, third.fraction) == ("P100", 0.5)
    assert bar_rows([], {}) == ()


def test_runs_of_ours_are_named_by_when_they_were_and_marked_where_they_are_projected():
    this = ComparisonRow(
        "this run", "seconds_per_epoch", "this", 9.0, projected=True, badges=("projected",)
    )
    before = ComparisonRow(
        "GPU", "seconds_per_epoch", "earlier", 8.0, session="a", badges=("batch 32",)
    )
    bars = bar_rows([before, this], {"a": "run of 14:56"})
    assert [row.label for row in bars] == ["run of 14:56", "this run"]
    assert [row.value for row in bars] == ["8.00 s", "~9.00 s"]
    assert [row.note for row in bars] == ["batch 32", ""]
    assert [row.style for row in bars] == ["earlier", "this"]


@pytest.mark.parametrize(
    ("values", "logarithmic"), [([], False), ([5.0], False), ([1.0, 30.0], False), ([1, 31], True)]
)
def test_the_scale_is_logarithmic_beyond_30_to_1(values, logarithmic):
    rows = [published("x", value) for value in values]
    assert said_of_all(rows) == ("logarithmic scale" if logarithmic else "")


def test_a_figure_of_one_s_own_has_a_mark_of_its_own():
    row = Published(
        *("cifar10-cnn", "My box", "gpu", "TensorFlow", 2026, "seconds_per_epoch", 8.0, 100),
        *(None, None, "session x", "", True),
    )
    _, own, other = bar_rows([published("My box", 8.0, published=row), published("K80", 9.0)], {})
    assert (own.style, other.style) == ("own", "published")


def test_what_is_so_of_all_runs_is_said_once():
    busy = "machine was busy at the start: CPU {} %"
    this, earlier = (
        ComparisonRow(
            *(kind, "seconds_per_epoch", kind, 9.0),
            badges=(text, "1 epoch"),
            doubts=((Doubt.BUSY_AT_START, text),),
            session=kind,
        )
        for kind, text in (("this", busy.format(30)), ("earlier", busy.format(40)))
    )
    assert bar_rows([this, earlier], {})[1].note == "1 epoch"
    assert said_of_all([this, earlier]) == "each run shown: machine was busy at the start"
    assert said_of_all([this]) == ""
