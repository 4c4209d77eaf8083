"""What is said of a script that trains in several loops."""

from fakes.recorded import folded, write_log
from fakes.scripts import Script, script_session

from dlmon.figures import units
from dlmon.figures.loops import loop_rows, measured_in_short, measured_loop
from dlmon.figures.report import make_report
from dlmon.figures.summary import Outcome, summary_rows
from dlmon.log.label import Label
from dlmon.records import SecondsPerEpoch, Status
from dlmon.render.html import html_of
from dlmon.render.markdown import markdown_of

FITS = (
    Script()
    .train("small", 10, step_ms=1)
    .train("large", 5_000, step_ms=50)
    .train(None, None, batch=None, epochs=1)
    .records
)
LARGE = "large (5,000 parameters), batch 32, 3,200 samples"


def test_it_is_said_which_loop_the_figures_are_of():
    session = folded(FITS)
    snapshot = session.snapshot(ended=True)
    assert measured_loop(snapshot) == f"the one of 3 whose steps took longest: {LARGE}"
    assert measured_in_short(snapshot) == "longest of 3 loops"
    rows = dict(summary_rows(Outcome(session, snapshot, Status.COMPLETED, Label())))
    assert rows["figures of"] == measured_loop(snapshot)
    assert rows["seconds per epoch"].startswith("5.00 s")


def test_each_loop_has_a_row_and_the_longest_a_mark():
    rows, left = loop_rows(folded(FITS).snapshot(ended=True), 10)
    assert [row[:4] for row in rows] == [
        ("", "small (10 parameters), batch 32, 3,200 samples", "3", "300"),
        ("▶", LARGE, "3", "300"),
        ("", "without a loader", "–", "100"),
    ]
    assert (rows[0][5], rows[2][5], left) == ("0.10 s", "–", 0)
    rows, left = loop_rows(folded(FITS).snapshot(ended=True), 2)
    assert ([row[1] for row in rows], left) == ([LARGE, "without a loader"], 1)


def test_of_a_script_with_one_loop_nothing_is_said():
    snapshot = folded(script_session()).snapshot(ended=True)
    assert measured_loop(snapshot) == measured_in_short(snapshot) == ""
    assert loop_rows(snapshot, 10) == ([], 0)


def test_a_report_has_the_loops_in_every_format(tmp_path):
    report = make_report([write_log(tmp_path, FITS)], [])
    assert "### Loops" in markdown_of(report)
    assert "<h2>Loops</h2>" in html_of(report)
    loops = report.sessions[0].as_json["loops"]
    assert [(loop["network"], loop["batches"]) for loop in loops[:2]] == [
        ("small", 300),
        ("large", 300),
    ]
    assert loops[1]["headline"] is True


def test_an_epoch_far_beyond_the_others_is_named_beside_what_is_usual():
    epoch = SecondsPerEpoch(3.56, 0.0, 8.9, 5, False, median=1.6, slow=1, longest=9.6)
    assert units.usual(epoch) == "usually 1.60 s, once 9.60 s"
    twice = SecondsPerEpoch(3.56, 0.0, 8.9, 5, False, median=1.6, slow=2, longest=9.6)
    assert units.usual(twice) == "usually 1.60 s, 2 times up to 9.60 s"
    assert units.usual(SecondsPerEpoch(1.6, 1.5, 1.7, 5, False, median=1.6, slow=0)) == ""
    assert units.usual(SecondsPerEpoch(1.6, 1.5, 1.7, 2, False)) == ""
