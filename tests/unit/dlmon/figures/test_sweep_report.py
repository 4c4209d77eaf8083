"""A sweep as a report: its table, what it found, and its curves or bars."""

import csv
import io

import pytest
from fakes.hostile_log import ATTACK
from fakes.sweeps import completed, plan_of

from dlmon.figures.report import make_report
from dlmon.figures.sections import Bars
from dlmon.records import Ended, Outcome, RunStatus, encode
from dlmon.render.html import html_of
from dlmon.render.markdown import markdown_of
from dlmon.render.tidy import sweep_lines
from dlmon.sweep.log import SWEEP_NAME, new_header


def sweep_log(folder, vary, outcome, **plan):
    """Write the log of a sweep whose runs ended as `outcome` says of a combination."""
    planned = plan_of(vary, **plan)
    lines = [encode(new_header(planned, 1, 1_795_186_560.0))]
    for slot in planned.order:
        lines.append(encode(Ended(slot, outcome(planned.combinations[slot.combination]), 1.0)))
    path = folder / "20261120-150000-sweep" / SWEEP_NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(lines))
    return path


@pytest.fixture
def by_batch(tmp_path):
    """Return the log of a sweep over devices and batch sizes; the GPU's memory ran out once."""

    def outcome(combination):
        device, batch_size = combination.varied["device"], combination.varied["batch_size"]
        if (device, batch_size) == ("gpu", 128):
            return Outcome(RunStatus.OUT_OF_MEMORY, "memory ran out", "s", None, 3.0)
        return completed(0.1 if device == "cpu" else 3 / batch_size, batch_size=batch_size)

    return sweep_log(tmp_path, {"device": ["cpu", "gpu"], "batch_size": [16, 64, 128]}, outcome)


def test_what_is_numeric_is_a_curve_for_each_of_the_rest(by_batch):
    (sweep,) = make_report([], [by_batch]).sweeps
    (chart,) = sweep.charts
    assert not [one for one in sweep.sections if isinstance(one, Bars)]
    assert {line.label: line.mean for line in chart.lines} == {
        "cpu": pytest.approx((0.1, 0.1, 0.1)),
        "gpu": (pytest.approx(3 / 16), pytest.approx(3 / 64), None),
    }
    assert [line.out_of_memory for line in chart.lines] == [(), (128,)]
    page = html_of(make_report([], [by_batch]))
    assert page.count("<svg") == 1
    assert "<script" not in page
    assert "Memory ran out at gpu, batch 128." in page


def test_words_have_bars_that_say_what_each_took_or_why_that_is_not_known(tmp_path):
    def outcome(combination):
        if combination.varied["device"] == "gpu:9":
            return Outcome(RunStatus.IMPOSSIBLE, "there is no GPU 9")
        return completed(0.5 if combination.varied["device"] == "cpu" else 0.2)

    path = sweep_log(tmp_path, {"device": ["cpu", "gpu", "gpu:9"]}, outcome)
    (sweep,) = make_report([], [path]).sweeps
    (bars,) = [one for one in sweep.sections if isinstance(one, Bars)]
    assert [(bar.label, bar.value, bar.text, bar.kind) for bar in bars.bars] == [
        ("cpu", 0.5, "0.500 ms", ""),
        ("gpu", 0.2, "0.200 ms", "this"),
        ("gpu:9", 0.0, "there is no GPU 9", ""),
    ]


def test_the_table_stands_in_markdown_and_csv(by_batch):
    text = markdown_of(make_report([], [by_batch]))
    assert "| ▶ | gpu | 64 | completed | 0.0469 | 21,333 |  |" in text
    rows = list(csv.DictReader(io.StringIO("".join(sweep_lines(by_batch)))))
    assert [row["option_batch_size"] for row in rows] == ["16", "64", "128"] * 2
    assert rows[-1]["status"] == "out of memory"


def test_a_hostile_sweep_puts_nothing_in(tmp_path):
    def outcome(combination):
        return Outcome(RunStatus.FAILED, ATTACK, "s", None, 1.0)

    path = sweep_log(tmp_path, {"python": [ATTACK, "=cmd"]}, outcome, workloads=(ATTACK,))
    report = make_report([], [path])
    page = html_of(report)
    assert "<img" not in page
    assert "<script" not in page
    assert "\n# heading" not in markdown_of(report)
    for row in csv.reader(io.StringIO("".join(sweep_lines(path)))):
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)


def test_paths_are_left_out_of_a_sweep(tmp_path):
    path = sweep_log(
        tmp_path, {"python": ["/home/ada/a/python", "/home/ada/b/python"]}, lambda c: completed(0.1)
    )
    report = make_report([], [path])
    for text in (html_of(report), markdown_of(report), str(report.as_json())):
        assert "/home/" not in text
        assert "session.jsonl" not in text
    assert "/home/ada/a/python" in html_of(make_report([], [path], full=True))


def test_a_sweep_over_machines_names_none_of_them_unless_all_is_asked_for(tmp_path):
    def outcome(combination):
        if combination.varied["host"] == "secret-2":
            return Outcome(RunStatus.NOT_RUN, "secret-2 is not known: no such host name")
        return completed(0.1)

    path = sweep_log(tmp_path, {"host": ["secret-1", "secret-2", "lab@secret-3"]}, outcome)
    report = make_report([], [path])
    for page in (html_of(report), markdown_of(report), "".join(sweep_lines(path))):
        assert "secret" not in page
        for number in (1, 2, 3):
            assert f"(host {number})" in page
    assert "lab@secret-3" in markdown_of(make_report([], [path], full=True))
