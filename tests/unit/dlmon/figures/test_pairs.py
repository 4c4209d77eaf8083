"""What an experiment of pairs says: its verdict, its cause, and the code that changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.compared import side
from fakes.sweeps import ended, pairs_plan, result_of

from dlmon.comparison.sides import ChangedFile
from dlmon.figures.pairs import (
    difference_text,
    pair_findings,
    pair_table,
    pairs_json,
    pairs_text,
    part_table,
    progress_text,
    side_names,
    sides_text,
)
from dlmon.figures.sections import Note
from dlmon.figures.sweeps import sweep_report
from dlmon.records import Slot
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.pair_causes import PartDifference
from dlmon.sweep.progress import Sweep

COMMITS = {"commit": ["main", "HEAD"]}
SLOWER = [(0.200, 0.220), (0.201, 0.221), (0.199, 0.219), (0.200, 0.221), (0.201, 0.220)]


def experiment(pairs, parts=(5.0, 7.0), vary=None, **run):
    """Return an experiment whose sides wait so long for data in each step."""
    sweep = Sweep(pairs_plan(vary or COMMITS))
    for repeat, pair in enumerate([(0.3, 0.3), *pairs]):
        for number, ms in enumerate(pair):
            end = ended(Slot(number, repeat), result_of(ms), took_s=20.0)
            sweep.add(end)
            values = {"step.wait_ms": parts[number] + repeat / 100, "step.forward_ms": 8.0}
            (figures,) = side("run", 1000 / ms, values=values, **run)
            sweep.figures[end.outcome.session] = replace(figures, session=end.outcome.session)
    return sweep


def test_the_verdict_and_the_part_that_explains_it():
    verdict, cause, *_ = pair_findings(experiment(SLOWER))
    assert verdict.startswith("HEAD is 1.100× as slow as main (")
    assert verdict.endswith("; 5 pairs")
    assert cause.startswith("all of it is waiting for data, +2")


def test_no_cause_is_named_of_a_difference_that_is_not_proven():
    alike = [(0.200, 0.201), (0.202, 0.200), (0.199, 0.201), (0.201, 0.199), (0.200, 0.200)]
    verdict, *others = pair_findings(experiment(alike, parts=(5.0, 5.0)))
    assert "no clear difference" in verdict
    assert not any("all of it" in sentence or "most is" in sentence for sentence in others)


def test_a_part_that_is_certainly_longer_is_named_though_noise_hides_it_in_the_whole_step():
    noisy = [(0.2, 0.21), (0.21, 0.2), (0.2, 0.22), (0.22, 0.2), (0.2, 0.2)]
    _, cause, *_ = pair_findings(experiment(noisy))
    assert cause.startswith("waiting for data differs by +2.00 ± ")
    assert cause.endswith(" ms a step; whole steps are too noisy to show it")
    assert not any("differs" in said for said in pair_findings(experiment(noisy[:4])))
    assert not any("differs" in said for said in pair_findings(experiment(noisy, parts=(5.0, 5.0))))


def test_of_a_script_without_parts_of_a_step_no_part_is_named():
    sweep = experiment(SLOWER)
    for session, run in list(sweep.figures.items()):
        rate = run.values["samples_per_second"]
        # All of the time was steps: 1,000 of 100 samples.
        values = {"samples_per_second": rate, "account.training": 100_000 / rate}
        sweep.figures[session] = replace(run, values=values, batches=1_000)
    _, cause, *_ = pair_findings(sweep)
    assert cause.startswith("+2.000 ± ")
    assert cause.endswith(" ms a step is in the steps themselves, whose parts are not known")


def test_steps_of_unlike_sizes_have_no_cause():
    sweep = experiment(SLOWER)
    for session, run in list(sweep.figures.items()):
        size = 64 if session.startswith("session-1") else 32
        sweep.figures[session] = replace(run, batch_size=size)
    assert not any("all of it" in sentence for sentence in pair_findings(sweep))


def files(*names):
    return tuple(ChangedFile(name, 3, 1) for name in names)


@pytest.mark.parametrize(
    ("changed", "imported", "said"),
    [
        (files("model.py", "README.md"), {"model.py"}, "2 files; the script imports 1: model.py"),
        (files("README.md"), {"model.py"}, "1 file; the script imports none of them"),
        (files("model.py"), set(), "1 file; the script imports none of the repository's files"),
        (files("old.py → new.py"), {"new.py"}, "1 file; the script imports 1: new.py"),
        ((), {"model.py"}, "HEAD changes 0 files"),
    ],
)
def test_the_changed_files_that_the_script_imports(changed, imported, said):
    sweep = experiment(SLOWER, imported=frozenset(imported))
    sweep.changed = changed
    assert any(said in sentence for sentence in pair_findings(sweep))


def test_nothing_is_said_of_code_that_is_not_compared():
    assert not any("changes" in s for s in pair_findings(experiment(SLOWER)))


def test_the_tables_hold_each_pair_and_each_part():
    sweep = experiment(SLOWER)
    assert len(pair_table(sweep).rows) == 5
    assert [row[0] for row in part_table(sweep).rows][:2] == ["step", "waiting for data"]


def test_a_part_that_is_nothing_of_a_step_has_no_row():
    sweep = experiment(SLOWER)
    for run in sweep.figures.values():
        run.values["step.optimizer_ms"] = 0.004
    assert {row[0] for row in part_table(sweep).rows} == {"step", "waiting for data", "forward"}


def test_the_json_has_all_that_the_lines_have():
    sweep = experiment(SLOWER)
    told = pairs_json(new_header(sweep.plan, 1, 1.0), sweep, "sweep.jsonl")
    assert (told["verdict"], told["base"], told["new"]) == ("slower", "main", "HEAD")
    assert told["low"] < told["ratio"] < told["high"] < 1
    assert len(told["pairs"]) == 5
    assert told["parts"]["step.wait_ms"]["difference_ms"] == pytest.approx(2)
    assert told["findings"] == pair_findings(sweep)


def test_a_side_is_named_as_it_was_typed():
    assert side_names(pairs_plan({"commit": ["main", "."]})) == ("main", "your files")
    assert side_names(pairs_plan({"workers": [4, 8]})) == ("workers 4", "workers 8")


def test_the_progress_says_how_many_pairs_are_missing():
    assert "is known after 5 pairs" in progress_text(experiment(SLOWER[:2]))
    loose = [(0.2, 0.2), (0.2, 0.3), (0.2, 0.16), (0.2, 0.22), (0.2, 0.18)]
    assert "more pairs" in progress_text(experiment(loose))
    assert progress_text(experiment(SLOWER)) == "5 pairs"


def test_a_try_says_that_fewer_pairs_may_prove_a_difference():
    plan = pairs_plan()
    tried = Sweep(replace(plan, pairs=replace(plan.pairs, until_proven=True)))
    assert progress_text(tried) == "at least 3 pairs; how many more is known after 5"
    assert "until a difference is proven, or ± 2 % or for 1:00:00" in pairs_text(tried.plan)
    assert "proven" not in progress_text(experiment([])) + pairs_text(plan)


def test_a_page_keeps_the_names_of_the_sides_and_leaves_out_how_often_was_sampled(tmp_path):
    plan = pairs_plan({"set:num_workers": [0, 2]})
    writer = SweepWriter.create(tmp_path, new_header(plan, 1, 1e9))
    for repeat, pair in enumerate([(0.3, 0.3), *SLOWER]):
        for number, ms in enumerate(pair):
            writer.write(ended(Slot(number, repeat), result_of(ms)))
    writer.close()
    notes = [s.sentences for s in sweep_report(writer.path).sections if isinstance(s, Note)]
    assert notes[0][0].startswith("set:num_workers 2 is 1.100× as slow as set:num_workers 0")
    assert "interval 1" not in str(notes)


@pytest.mark.parametrize(
    ("sides", "difference", "said"),
    [
        ((20.0, 21.28), (1.28, 0.1), ("20.0", "21.3", "+1.28 ± 0.10 ms")),
        ((120.0, 131.0), (11.0, 1.2), ("120", "131", "+11.0 ± 1.2 ms")),
        ((0.25, 0.24), (-0.01, 0.002), ("0.250", "0.240", "−0.010 ± 0.002 ms")),
        ((5.0, 7.0), (2.0, None), ("5.00", "7.00", "+2.00 ms")),
        ((5.0, 5.0), (0.0, 0.0), ("5.00", "5.00", "no change")),
        ((5.0, 5.0), (0.0, 0.3), ("5.00", "5.00", "+0.00 ± 0.30 ms")),
    ],
)
def test_both_sides_of_a_part_have_the_same_decimals_and_so_has_a_difference(
    sides, difference, said
):
    part = PartDifference("forward_ms", *sides, *difference)
    assert (*sides_text(part), difference_text(part)) == said
