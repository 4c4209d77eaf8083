"""A person's own reference figures: read, written, and put among the published ones."""

import csv
import io
from dataclasses import replace

import pytest
from fakes.compared import compared as compare
from fakes.compared import header_of, recorded
from hypothesis import given
from hypothesis import strategies as st

from dlmon.comparison.conditions import Conditions
from dlmon.comparison.publish import write_published_row
from dlmon.comparison.published import (
    COLUMNS,
    Published,
    PublishedError,
    own_published,
    own_published_path,
    published,
    read_own_published,
)
from dlmon.records import Result, RunSeconds, SecondsPerEpoch, Status, StepTime

CIFAR = Conditions("cifar10-cnn", batch_size=100, samples=50_000, epochs=10)
HEADER = "workload,device,metric,value,batch_size\n"
ROW = "cifar10-cnn,My box,seconds_per_epoch,7.5,100\n"


def run(versions=None, **changes):
    """Return what a recorded session gives for comparing."""
    made = result(**changes)
    return recorded(made, header_of(made, wall=made.wall, versions=versions or {}))


def result(**changes):
    epoch = SecondsPerEpoch(9.0234567, 9.0, 9.1, 3, projected=False)
    options = {"batch_size": 100, "backend": "tensorflow", "precision": "float32"}
    session = "20261120-145600-cifar10-cnn-7f3a"
    made = Result(Status.COMPLETED, session, "/somewhere", "cifar10-cnn", "gpu:0", options, 30.0)
    return replace(made, **{"wall": 1_795_186_560.0, "seconds_per_epoch": epoch, **changes})


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return where own figures are read from."""
    path = tmp_path / "config" / "published.csv"
    path.parent.mkdir()
    monkeypatch.setenv("DLMON_PUBLISHED", str(path))
    return path


# ---- where it is ----


def test_it_lies_beside_the_settings(monkeypatch, tmp_path):
    monkeypatch.delenv("DLMON_PUBLISHED", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert own_published_path() == tmp_path / "dlmon" / "published.csv"
    monkeypatch.setenv("DLMON_CONFIG", str(tmp_path / "else" / "config.toml"))
    assert own_published_path() == tmp_path / "else" / "published.csv"
    monkeypatch.setenv("DLMON_PUBLISHED", str(tmp_path / "mine.csv"))
    assert own_published_path() == tmp_path / "mine.csv"


# ---- among the others ----


def test_own_figures_stand_among_the_published_ones_and_are_read_again_once_they_changed(own):
    before = published("cifar10-cnn")
    assert own_published() == ((), None)
    own.write_text(HEADER + ROW + "mnist-mlp,My box,seconds_per_epoch,1,128\n")
    after = published("cifar10-cnn")
    assert after[:-1] == before
    assert (after[-1].device, after[-1].value, after[-1].own) == ("My box", 7.5, True)
    (row,) = (row for row in compare("seconds_per_epoch", CIFAR, CIFAR) if row.label == "My box")
    assert (row.kind, row.comparable, row.published.own) == ("published", True, True)
    # A file with other columns keeps them.
    own.write_text(HEADER + ROW.rstrip())
    write_published_row(run(), "Box")
    assert own.read_text() == HEADER + ROW + "cifar10-cnn,Box,seconds_per_epoch,9.02346,100\n"
    assert len(own_published()[0]) == 2
    own.unlink()
    assert own_published() == ((), None)


def test_all_columns_are_read(own):
    own.write_text(
        ",".join(COLUMNS)
        + '\nx,Box,gpu,"TensorFlow 2, mixed_float16",2026,train_step_ms,1.5,64,8,0.5,here,"a, b"'
        ",cold\n"
    )
    (row,) = read_own_published(own)
    assert row == Published(
        *("x", "Box", "gpu", "TensorFlow 2, mixed_float16", 2026, "train_step_ms", 1.5, 64, 8, 0.5),
        *("here", "a, b", True, "cold"),
    )
    assert row.caveats == ("cold",)
    assert row.precision == "mixed_float16"
    assert row.mode == "train"


# ---- what is wrong with a row ----


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: the column workload is missing"),
        ("workload,device\n", "line 1: the column metric is missing"),
        (HEADER.replace("value", "value,colour"), 'line 1: "colour" is not a column'),
        (HEADER.replace("value", "value,value"), 'line 1: "value" is not a column, or is named'),
        (HEADER + ROW + "a,b\n", "line 3: it has 2 cells, and the first line names 5"),
        (HEADER + ROW.replace("My box", ""), "line 2: device is empty"),
        (HEADER + ROW.replace("7.5", "fast"), 'line 2: value is "fast", which is not a number'),
        (HEADER + ROW.replace("7.5", "-1"), "line 2: value is"),
        (HEADER + ROW.replace("7.5", "nan"), "line 2: value is"),
        (HEADER + ROW.replace("7.5", "1e999"), "line 2: value is"),
        (
            HEADER + ROW.replace(",100", ",0"),
            'line 2: batch_size is "0", which is not a whole number',
        ),
        (HEADER + ROW.replace(",100", ",1e2"), "line 2: batch_size is"),
        (HEADER + ROW.replace("seconds_per_epoch", "speed"), 'line 2: "speed" is not a metric'),
        (HEADER + "\n\n" + ROW.replace("7.5", "0"), "line 4: value is"),
        (HEADER + 'a,"b\n', "line 2: unexpected end of data"),
    ],
)
def test_a_wrong_row_is_named_with_file_and_line(own, text, says):
    own.write_text(text)
    with pytest.raises(PublishedError) as refused:
        read_own_published(own)
    assert str(refused.value).startswith(str(own))
    assert says in str(refused.value)
    rows, problem = own_published()
    assert rows == ()
    assert problem == str(refused.value)
    assert len(published("cifar10-cnn")) == 7


def test_what_is_no_text_is_refused(own):
    own.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8 text" in own_published()[1]
    own.unlink()
    own.mkdir()
    assert "a directory" in own_published()[1]


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: (HEADER + text).encode()))
def test_whatever_the_file_holds_it_is_read_or_refused_in_one_sentence(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("own") / "published.csv"
    path.write_bytes(content)
    refused, rows = "", ()
    try:
        rows = read_own_published(path)
    except PublishedError as error:
        refused = str(error)
    assert "\n" not in refused
    assert all(row.value > 0 and row.batch_size > 0 for row in rows)


# ---- writing one ----


def test_a_session_becomes_a_row_that_is_read_again(own):
    framework = "TensorFlow 2.21.0"
    assert write_published_row(run({"backend_version": "2.21.0"}), "My box") == own
    write_published_row(run(options={"batch_size": 32, "price": "0.5"}), "Another")
    first, second = read_own_published(own)
    assert (first.device, first.device_kind, first.value) == ("My box", "gpu", 9.02346)
    assert (first.metric, first.batch_size, first.year) == ("seconds_per_epoch", 100, 2026)
    assert (first.framework, second.framework) == (framework, "")
    assert first.source == "session 20261120-145600-cifar10-cnn-7f3a"
    assert (second.batch_size, second.price_usd_per_hour) == (32, 0.5)
    assert own.stat().st_mode & 0o777 == 0o600


STEP = StepTime(median=14.0, p95=17.0, mean=15.5)
SMALL = {"workload": "mnist-mlp-small", "run_seconds": RunSeconds(52.0, None, None, False)}


@pytest.mark.parametrize(
    ("changes", "metric", "value"),
    [
        (SMALL, "run_seconds", "52"),
        ({"workload": "resnet50", "step_ms": STEP}, "train_step_ms", "15.5"),
        *(
            ({"step_ms": STEP, "options": {"batch_size": 1, "mode": mode}}, metric, "15.5")
            for mode, metric in (("inference", "forward_ms"), ("gradients", "forward_backward_ms"))
        ),
        ({"workload": "my-script.py"}, "seconds_per_epoch", "9.02346"),
    ],
)
def test_the_metric_is_that_of_the_published_figures(own, changes, metric, value):
    write_published_row(run(**changes), "Box")
    (named,) = csv.DictReader(own.read_text().splitlines())
    assert (named["metric"], named["value"]) == (metric, value)


def test_a_whole_run_of_other_epochs_than_the_published_ones_is_refused(own):
    options = {"batch_size": 32, "epochs": 3}
    with pytest.raises(PublishedError, match="make one with --epochs 10"):
        write_published_row(run(**SMALL, options=options), "Box", epochs=10)
    assert not own.exists()
    write_published_row(run(**SMALL, options=options | {"epochs": 10}), "Box", epochs=10)
    write_published_row(run(options=options), "Other", epochs=10)
    assert [row.metric for row in read_own_published(own)] == ["run_seconds", "seconds_per_epoch"]


@pytest.mark.parametrize(
    ("changes", "name", "says"),
    [
        ({}, "", "give the reference figure a name"),
        ({}, " \x1b[31m ", "give the reference figure a name"),
        ({"seconds_per_epoch": None}, "Box", "has no time to use as a reference figure"),
        ({"options": {}}, "Box", "has no time"),
        ({"workload": "resnet50"}, "Box", "has no time"),
        (
            {
                "workload": "mnist-mlp-small",
                "run_seconds": RunSeconds(50.0, 45.0, 55.0, projected=True),
                "why": {"evaluation": "it ended before"},
            },
            "Box",
            "was not evaluated",
        ),
    ],
)
def test_what_can_t_be_a_reference_figure_is_refused(own, changes, name, says):
    with pytest.raises(PublishedError, match=says):
        write_published_row(run(**changes), name)
    assert not own.exists()


def test_a_session_stands_there_once_and_a_wrong_file_is_left_as_it_is(own):
    write_published_row(run(), "Box")
    before = own.read_text()
    with pytest.raises(PublishedError, match="Box has the time of this session already"):
        write_published_row(run(), "Box")
    assert own.read_text() == before
    own.write_text("nonsense\n")
    with pytest.raises(PublishedError, match="line 1"):
        write_published_row(run(), "Box")
    assert own.read_text() == "nonsense\n"


@pytest.mark.parametrize(
    "name", ["=cmd|'/C calc'!A0", "+1", "-1", "@SUM(A1)", '=HYPERLINK("x")', "＝1", "－1"]
)
def test_no_cell_is_a_formula(own, name):
    write_published_row(run(), name)
    for cells in csv.reader(own.read_text().splitlines()):
        assert not any(cell.lstrip().startswith(tuple("=+-@＝＋－＠")) for cell in cells)
    assert read_own_published(own)[0].device == name


@given(st.text(max_size=400), st.text(max_size=50), st.text(max_size=50))
def test_foreign_text_makes_one_clean_row(tmp_path_factory, name, workload, session):
    path = tmp_path_factory.mktemp("own") / "published.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLMON_PUBLISHED", str(path))
        try:
            write_published_row(run(workload=workload, session=session), name)
        except PublishedError:
            return
    names, line = path.read_bytes().decode().split("\n", 1)
    assert names == ",".join(COLUMNS)
    assert line.endswith("\n")
    assert not {c for c in line[:-1] if ord(c) < 32}
    (cells,) = csv.reader(io.StringIO(line, newline=""))
    assert len(cells) == len(COLUMNS)
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
