"""What people read of a sweep: its table, its sentences, its picture and its JSON."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.hostile_log import ATTACK
from fakes.sweeps import completed, pairs_plan, plan_of, sweep_of

from dlmon.figures.report.report import make_report
from dlmon.figures.sections import Bars
from dlmon.figures.sweeps import (
    RunningRow,
    findings,
    headline,
    lead_changes,
    left_text,
    outcome_text,
    picture_of,
    plan_text,
    resumed_by,
    slot_text,
    sweep_json,
    sweep_table,
    without_result_text,
)
from dlmon.records import (
    Began,
    Ended,
    Outcome,
    RunStatus,
    Slot,
    Status,
    SweptScript,
    Throughput,
    encode,
)
from dlmon.render.html import html_of
from dlmon.render.markdown import markdown_of
from dlmon.render.tidy import csv_lines, sweep_rows
from dlmon.sweep.log import SWEEP_NAME, new_header
from dlmon.sweep.progress import Sweep
from dlmon.sweep.results import order_by_result, rows_of

SIZES = {"batch_size": [32, 64, 128]}
OOM = Outcome(RunStatus.OUT_OF_MEMORY, "memory ran out with batch size 128", "s", None, 2.0)
THREE = ([0.40, 0.41, 0.42], [0.20, 0.21, 0.22], [0.30, 0.31, 0.32])


def thrice(vary=None, times=THREE, **plan):
    """Return a sweep of three runs of each combination."""
    outcomes = [[completed(t) for t in of_one] for of_one in times]
    return sweep_of(plan_of(vary or SIZES, 3, **plan), *outcomes)


def once(*times, vary=None, **plan):
    """Return a sweep of one run of each combination."""
    return sweep_of(plan_of(vary or SIZES, **plan), *[[completed(t)] for t in times])


def headings(sweep):
    return list(sweep_table(sweep).headings[1:-1])


def cells(sweep):
    return [list(row[1:-1]) for row in sweep_table(sweep).rows]


def notes(sweep):
    return [row[-1] for row in sweep_table(sweep).rows]


def is_best(sweep):
    return [row[0] == "▶" for row in sweep_table(sweep).rows]


# ---- the table ----


def test_a_row_shows_what_is_varied_how_it_stands_and_how_fast_it_was():
    sweep = sweep_of(plan_of(SIZES), [completed(0.5)], [OOM])
    assert headings(sweep) == ["batch", "status", "ms per sample", "samples/s"]
    assert cells(sweep) == [
        ["32", "completed", "0.500", "2,000"],
        ["64", "out of memory", "", ""],
        ["128", "not run", "", ""],
    ]
    # The status says it once.
    assert notes(sweep) == ["", "", ""]
    assert not any(is_best(sweep))
    assert sweep_table(sweep).levels == ("", "bad", "")


def test_three_runs_bring_a_band_and_by_how_much_the_best_leads():
    sweep = thrice()
    assert headings(sweep) == ["batch", "runs", "ms per sample", "samples/s", "of fastest"]
    assert cells(sweep) == [
        ["32", "3 of 3", "0.410 ± 0.025", "2,439", "51 %"],
        ["64", "3 of 3", "0.210 ± 0.025", "4,762", "fastest"],
        ["128", "3 of 3", "0.310 ± 0.025", "3,226", "68 %"],
    ]
    assert is_best(sweep) == [False, True, False]


def test_the_band_is_that_of_the_mean_and_may_reach_down_to_zero():
    sweep = thrice(times=([0.9, 0.9, 1.0], [2.0, 2.0, 2.0], [0.1, 0.1, 1.0]))
    # Standard deviation 0.058, three runs, and 4.303 for two degrees of freedom.
    assert cells(sweep)[0][2] == "0.933 ± 0.143"
    # Standard deviation 0.52.
    assert cells(sweep)[2][2] == "0.400 ± 1.291"
    row = sweep_json(new_header(sweep.plan, 7, 1.0), sweep, "sweep.jsonl")["rows"][2]
    assert row["value"] == pytest.approx(0.4)
    assert (row["low"] + row["high"]) / 2 == pytest.approx(row["value"])
    assert row["high"] - row["value"] == pytest.approx(1.29, abs=0.01)


def test_a_run_that_is_being_made_is_shown_and_not_why_it_was_stopped_before():
    stopped = Outcome(RunStatus.NOT_RUN, "stopped before its end")
    sweep = sweep_of(plan_of(SIZES), [completed(0.5)], [stopped])
    sweep.add(Began(Slot(1, 0), "session", 0.0))
    assert (cells(sweep)[1][1], notes(sweep)[1]) == ("running", "")
    twice = sweep_of(plan_of(SIZES, 2), [completed(0.5)])
    twice.add(Began(Slot(0, 1), "session", 0.0))
    assert cells(twice)[0][1] == "1 of 2, running"


def test_several_workloads_have_a_column_and_units_of_their_own():
    names = ("mnist-mlp-small", "mnist-mlp-wide")
    plan = plan_of({"threads": [1]}, workloads=names)
    plan = type(plan)(
        plan.workloads,
        plan.variations,
        plan.options,
        {names[0]: "run_seconds", names[1]: "step_ms"},
        plan.repeats,
        plan.order,
    )
    sweep = sweep_of(plan, [completed(0.5, seconds=52.4)], [completed(0.5)])
    assert headings(sweep)[:4] == ["workload", "threads", "status", "time"]
    assert [row[3] for row in cells(sweep)] == ["52.4 s per run", "16.0 ms per step"]


def test_what_speaks_against_its_runs_is_named_beside_a_row():
    plan = plan_of({"threads": [1, 2]}, metric="seconds_per_epoch", repeats=2)
    doubts = ({"steal": "why", "stalls": "why"}, {"stalls": "why"})
    outcomes = [completed(0.5, seconds=9.0, projected=True) for _ in doubts]
    doubted = [
        replace(outcome, result=replace(outcome.result, against=against))
        for outcome, against in zip(outcomes, doubts, strict=True)
    ]
    assert notes(sweep_of(plan, doubted, outcomes)) == [
        "projected; in doubt: stalls, CPU steal",
        "projected",
    ]


# ---- the sentences ----


def test_the_best_is_named_and_said_to_be_faster_than_the_next_where_runs_show_it():
    assert findings(once(0.5, 0.2, 0.3)) == [
        "fastest: batch 64, 5,000 samples/s; 1.500× as fast as batch 128 (1 run each)"
    ]
    (sentence,) = findings(thrice())
    assert sentence.startswith("fastest: batch 64, 4,762 samples/s; 1.477× as fast as batch 128 (")
    assert sentence.endswith("×)")


def noisy(ms_per_sample):
    """Return the outcome of a run whose throughput is known to 10 % or so."""
    outcome = completed(ms_per_sample)
    mean = 1_000 / ms_per_sample
    rate = Throughput(mean, mean, 0.05 * mean, 0.0, band=0.11 * mean)
    return replace(outcome, result=replace(outcome.result, samples_per_second=rate))


def test_with_one_run_each_none_is_called_the_best_unless_it_is_clear_as_in_compare():
    (sentence,) = findings(sweep_of(plan_of(SIZES), [noisy(0.5)], [noisy(0.21)], [noisy(0.2)]))
    assert sentence.startswith(
        "no clear lead: batch 128 measured fastest, 5,000 samples/s; "
        "no clear difference from batch 64 ("
    )
    assert sentence.endswith("×, 1 run each)")
    (clear,) = findings(sweep_of(plan_of(SIZES), [noisy(0.5)], [noisy(0.4)], [noisy(0.2)]))
    assert clear.startswith("fastest: batch 128, 5,000 samples/s; 2.00× as fast as batch 64 (")
    vary = TWO | {"batch_size": [32, 64]}
    unclear = sweep_of(plan_of(vary), *([noisy(t)] for t in (0.2, 0.2, 0.21, 0.21)))
    assert lead_changes(rows_of(unclear), "device", "batch_size") == []


def test_how_many_of_the_runs_that_are_done_have_no_result_is_said():
    impossible = Outcome(RunStatus.IMPOSSIBLE, "no GPU")
    sweep = sweep_of(plan_of(SIZES), [completed(0.5)], [impossible], [OOM])
    assert without_result_text(sweep) == ", 1 out of memory, 1 impossible"
    assert without_result_text(once(0.5, 0.2, 0.3)) == ""
    sweep = sweep_of(plan_of(SIZES), [completed(0.5)], [completed(0.2)], [OOM])
    assert "memory ran out at batch 128; batch 64 still fits" in findings(sweep)


def test_the_cheapest_is_named_beside_the_fastest_and_a_price_brings_a_column():
    plan = plan_of({"cpus": [2, 16]})
    costs = [completed(0.5, cost_usd=0.01)], [completed(0.2, cost_usd=0.04)]
    sweep = sweep_of(plan, *costs)
    found = findings(sweep)
    assert found[0].startswith("fastest: 16 CPUs, ")
    assert found[1] == "cheapest: 2 CPUs, 0.50 USD per million samples"
    assert headings(sweep)[-1] == "USD/M samples"
    # 0.04 USD in 10 s, at 5,000 samples a second.
    assert [row[-1] for row in cells(sweep)] == ["0.50", "0.80"]


def test_a_share_of_the_peak_brings_a_column():
    sweep = once(9.0, 8.0, vary={"batch_size": [32, 64]})
    assert "of peak" not in headings(sweep)
    shares = {}
    for place, outcome in sweep.outcomes.items():
        shares[place] = replace(outcome, result=replace(outcome.result, peak_share=0.344))
    shown = cells(replace(sweep, outcomes=shares))
    assert "34 %" in shown[0]


def test_the_best_of_each_mode_is_named_and_none_across_them():
    vary = {"backend": ["tensorflow", "jax"], "mode": ["train", "inference"]}
    sweep = once(0.5, 0.1, 0.4, 0.2, vary=vary)
    assert [sentence.partition(";")[0] for sentence in findings(sweep)] == [
        "train: fastest: JAX, 2,500 samples/s",
        "inference: fastest: TensorFlow, 10,000 samples/s",
    ]
    assert is_best(sweep) == [False, True, True, False]
    as_json = sweep_json(new_header(sweep.plan, 7, 1.0), sweep, "sweep.jsonl")
    assert [row["best"] for row in as_json["rows"]] == [False, True, True, False]


@pytest.mark.parametrize("metric", ["seconds_per_epoch", "run_seconds"])
def test_the_best_is_found_by_throughput_and_not_by_a_time_that_holds_the_compilation(metric):
    plan = plan_of({"jit": ["on", "off"]}, metric=metric)
    on, off = completed(0.2, seconds=30.0), completed(0.4, seconds=10.0)
    sweep = sweep_of(plan, [on], [off])
    assert is_best(sweep) == [True, False]
    assert findings(sweep)[0].startswith("fastest: JIT on, 5,000 samples/s")


def test_where_fewer_than_two_have_a_throughput_none_is_the_best():
    plan = plan_of({"threads": [1, 2]}, metric="run_seconds")
    sweep = sweep_of(plan, [completed(0.5, seconds=9.0)], [completed(None, seconds=8.0)])
    assert findings(sweep) == ["no fastest combination: fewer than two have a throughput"]
    assert not any(is_best(sweep))
    unfinished = sweep_of(plan, [completed(0.5, seconds=9.0)])
    assert findings(unfinished) == []


# ---- losses ----


def with_losses(*losses, name="loss"):
    """Return a sweep whose runs ended with these losses; a text says why one is no number."""
    sweep = once(*(0.4 for _ in losses), vary={"lr": [*range(len(losses))]})
    for number, (slot, outcome) in enumerate(sweep.outcomes.items()):
        session, loss = f"session-{number}", losses[number]
        sweep.outcomes[slot] = replace(outcome, result=replace(outcome.result, session=session))
        values = {} if isinstance(loss, str) else {f"metric.{name}": loss}
        sweep.figures[session] = SimpleNamespace(
            values=values, not_numbers={name: loss} if isinstance(loss, str) else {}
        )
    return sweep


def column(sweep, heading, **more):
    table = sweep_table(sweep, **more)
    return [row[table.headings.index(heading)] for row in table.rows]


def test_the_last_loss_of_each_run_has_a_column_and_the_lowest_is_named():
    sweep = with_losses(0.5, 0.25, "NaN")
    assert column(sweep, "loss") == ["0.5000", "0.2500", "NaN"]
    assert "lowest loss: lr 1, 0.2500" in findings(sweep)
    as_json = sweep_json(new_header(sweep.plan, 7, 1.0), sweep, "sweep.jsonl")
    assert [row["loss"] for row in as_json["rows"]] == [0.5, 0.25, None]


def test_a_run_whose_loss_is_no_number_is_never_the_best_nor_the_second():
    sweep = with_losses(0.5, 0.25, "NaN")
    for slot, ms in zip([*sweep.outcomes], (0.5, 0.4, 0.1), strict=True):
        faster = replace(completed(ms).result, session=f"session-{slot.combination}")
        sweep.outcomes[slot] = replace(sweep.outcomes[slot], result=faster)
    assert is_best(sweep) == [False, True, False]
    assert column(sweep, "of fastest") == ["80 %", "fastest", ""]
    word, sentences = headline(sweep)
    assert word == "FASTEST OF 3 FINISHED"
    assert sentences[0].startswith("lr 1, 2,500 samples/s; 1.250× as fast as lr 0 (")
    assert "left out, as the loss is no number: lr 2 (NaN)" in sentences
    # It stands behind those that trained, however fast it was.
    assert order_by_result(sweep) == [1, 0, 2]
    alone = with_losses(0.5, "NaN")
    assert not any(is_best(alone))
    assert findings(alone)[0].endswith("have a throughput and a loss that is a number")


def test_rows_are_in_the_order_of_their_results_and_what_runs_comes_first():
    sweep = sweep_of(plan_of({"batch_size": [8, 16, 32, 64]}), [completed(0.5)], [OOM])
    sweep.outcomes[Slot(3, 0)] = completed(0.2)
    assert order_by_result(sweep) == [3, 0, 1, 2]
    assert order_by_result(sweep, [2]) == [2, 3, 0, 1]
    vary = {"mode": ["train", "inference"], "batch_size": [32, 64]}
    # A forward pass does less work, so it isn't ranked before training.
    assert order_by_result(once(0.5, 0.4, 0.1, 0.2, vary=vary)) == [1, 0, 2, 3]


def test_what_failed_ends_an_experiment_of_pairs_for_good_what_could_not_begin_does_not():
    def ended_by(outcome):
        sweep = Sweep(pairs_plan())
        sweep.add(Ended(Slot(0, 0), outcome, 1.0))
        return sweep

    assert left_text(ended_by(Outcome(RunStatus.FAILED, "exit code 1", "session"))) is None
    assert left_text(ended_by(Outcome(RunStatus.NOT_RUN, "no such command"))) == "more pairs"
    assert left_text(sweep_of(plan_of(SIZES), [completed(0.5)])) == "2 runs left"


def test_the_headline_of_a_search_says_how_it_goes_on_until_it_has_found_a_size():
    plan = replace(plan_of({"set:batch_size": [8, 16]}), search_window_s=3.0)
    search = sweep_of(plan, [completed(0.5)], [completed(0.2)])
    title, (how,) = headline(search)
    assert title == "SEARCHING"
    assert how.startswith("the batch size doubles until memory runs out")
    search.closed = Status.STOPPED
    assert headline(search)[0] == "NOTHING FOUND"


def test_the_headline_says_so_while_nothing_or_nothing_clear_is_the_best():
    assert headline(sweep_of(plan_of(SIZES)))[0] == "FASTEST NOT KNOWN YET"
    alone = sweep_of(plan_of(SIZES), [noisy(0.5)])
    assert headline(alone)[1] == ["a comparison needs two finished runs"]
    alone.closed = Status.STOPPED
    nothing = ["fewer than two finished runs can be compared"]
    assert headline(alone) == ("NOTHING TO COMPARE", nothing)
    over = sweep_of(plan_of(SIZES), [OOM])
    over.closed = Status.STOPPED
    assert headline(over) == ("RESULTS", ["memory ran out at batch 32"])
    unclear = sweep_of(plan_of(SIZES), [noisy(0.5)], [noisy(0.21)], [noisy(0.2)])
    assert headline(unclear)[0] == "NO CLEAR LEAD OF 3 FINISHED"


def test_the_loss_of_the_validation_is_preferred():
    assert "lowest val_loss: lr 0, 0.1000" in findings(with_losses(0.1, 0.2, name="val_loss"))


def test_runs_with_one_loss_have_no_lowest():
    assert not any("lowest" in sentence for sentence in findings(with_losses(0.5, 0.5)))


def test_a_run_that_goes_on_shows_its_epoch_its_rate_and_its_loss():
    sweep = sweep_of(plan_of(SIZES), [completed(0.5)])
    current = {1: RunningRow("epoch 2/3", 1234.0, (0.75, None))}
    statuses = ["completed", "running, epoch 2/3", "not run"]
    assert column(sweep, "status", current=current) == statuses
    starting = {1: RunningRow("starting")}
    assert column(sweep, "status", current=starting)[1] == "starting"
    # What was not run waits only while somebody runs the sweep.
    statuses[2] = "waiting"
    assert column(sweep, "status", current=current, goes_on=True) == statuses
    assert column(sweep, "samples/s", current=current) == ["2,000", "1,234", ""]
    assert column(sweep, "loss", current=current) == ["", "0.7500", ""]


# ---- a run, and a plan ----


def test_a_run_that_only_waits_for_others_to_end_is_not_said_to_run():
    sweep = sweep_of(plan_of(SIZES))
    for slot in sweep.plan.order:
        sweep.add(Began(slot, f"s{slot.combination}", 1.0))
    statuses = [row[2] for row in sweep_table(sweep, queued={1, 2}).rows]
    assert statuses == ["running", "queued", "queued"]


def test_more_devices_have_a_speed_up_and_an_efficiency():
    sweep = thrice({"devices": [1, 2, 4]}, ([0.40, 0.41, 0.42], [0.20, 0.21, 0.22], [0.12] * 3))
    assert headings(sweep)[-2:] == ["speed-up", "efficiency"]
    assert [row[-2:] for row in cells(sweep)] == [["", ""], ["1.95×", "98 %"], ["3.42×", "85 %"]]
    said = findings(sweep)
    assert "2 devices are 1.95× as fast as 1 (1.77× to 2.16×): 98 % efficiency" in said
    assert said[-1].startswith("4 devices are 3.42× as fast as 1 (")
    last = sweep_json(new_header(sweep.plan, 7, 1.0), sweep, "sweep.jsonl")["rows"][2]
    assert last["speed_up_low"] < last["speed_up"] < last["speed_up_high"]
    assert last["efficiency"] == pytest.approx(last["speed_up"] / 4)


def test_devices_are_compared_with_the_fewest_where_all_else_is_alike():
    vary = {"batch_size": [64, 128], "devices": [2, 4]}
    sweep = once(0.40, 0.25, 0.30, None, vary=vary)
    assert "batch 64: 4 devices are 1.60× as fast as 2 (1 run each): 80 % efficiency" in findings(
        sweep
    )
    assert not any("batch 128: " in sentence for sentence in findings(sweep))


def test_a_plan_is_shown_in_one_line_and_a_run_by_what_distinguishes_it_from_the_others():
    plan = plan_of({"batch_size": [32, 64], "device": ["cpu"]}, repeats=3)
    assert plan_text(plan) == "6 runs: mnist-mlp-small × batch 32, 64 × device cpu; 3 times each"
    many = plan_of({"epochs": range(1, 21)}, workloads=("a", "b"))
    assert plan_text(many) == "40 runs: 2 workloads × epochs 20 values"
    plan = plan_of({"batch_size": [32]}, repeats=3)
    assert slot_text(plan, plan.combinations[0], 1) == "batch 32 (run 2 of 3)"
    alone = plan_of()
    assert slot_text(alone, alone.combinations[0], 0) == "mnist-mlp-small"


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (completed(0.5), "completed, 0.500 ms per sample, 2,000 samples/s"),
        (completed(None), "completed, the run was too short for a figure"),
        (OOM, "out of memory: memory ran out with batch size 128"),
        (Outcome(RunStatus.IMPOSSIBLE, "there is no GPU 9"), "impossible: there is no GPU 9"),
        (Outcome(RunStatus.FAILED), "failed"),
    ],
)
def test_how_a_run_ended_is_shown_in_one_line(outcome, line):
    assert outcome_text(outcome, "ms_per_sample") == line


# ---- the picture ----


def test_a_varied_number_is_an_axis_and_what_else_is_varied_makes_series():
    vary = {"device": ["cpu", "gpu:0"], "batch_size": [64, 32]}
    picture = picture_of(once(0.4, 0.5, 0.2, 0.1, vary=vary), "mnist-mlp-small")
    assert picture.title == "ms per sample against batch"
    assert [line.label for line in picture.lines] == ["cpu", "gpu:0"]
    assert (picture.lines[0].xs, picture.lines[0].mean) == ((32, 64), pytest.approx((0.5, 0.4)))
    assert picture.x_labels == ((32, "32"), (64, "64"))
    # Where nothing that is varied is a number there is no chart.
    words = once(0.5, 0.2, vary={"device": ["cpu", "gpu"]})
    assert picture_of(words, "mnist-mlp-small") is None


# ---- JSON ----


def test_json_has_a_row_for_each_combination_with_options_status_and_result():
    sweep = sweep_of(plan_of(SIZES), [completed(0.5)], [OOM])
    as_json = sweep_json(new_header(sweep.plan, 7, 1.0), sweep, "sweep.jsonl")
    assert json.loads(json.dumps(as_json, allow_nan=False)) == as_json
    first, second, third = as_json["rows"]
    assert first["options"]["batch_size"] == 32
    assert first["options"]["device"] == "auto"
    assert (first["status"], first["value"]) == ("completed", pytest.approx(0.5))
    assert first["result"]["samples_per_second"]["median"] == pytest.approx(2000)
    assert (second["status"], second["reason"]) == ("out of memory", OOM.reason)
    assert second["result"] is None
    assert (third["status"], third["runs"][0]["status"]) == ("not run", "not run")
    # Of several runs the middle one stands for all.
    row = sweep_json(new_header(thrice().plan, 7, 1.0), thrice(), "sweep.jsonl")["rows"][1]
    assert row["best"]
    assert row["value"] == pytest.approx(0.21)
    assert row["low"] < 0.21 < row["high"]
    assert row["result"] == row["runs"][1]["result"]


def test_the_command_for_the_rest_of_a_sweep_names_its_place_where_that_is_not_the_usual_one():
    usual, other = Path("/home/a/sessions"), Path("/data/my runs")
    assert resumed_by("s1", usual, usual) == "dlmon sweep --resume s1"
    assert resumed_by("s1", None) == "dlmon sweep --resume s1"
    assert resumed_by("s1", other, usual) == "dlmon sweep --resume s1 --log-dir '/data/my runs'"


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
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(sweep_rows(by_batch))))))
    assert [row["option_batch_size"] for row in rows] == ["16", "64", "128"] * 2
    assert rows[-1]["status"] == "out of memory"


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


def test_a_hostile_sweep_puts_nothing_in(tmp_path):
    def outcome(combination):
        return Outcome(RunStatus.FAILED, ATTACK, "s", None, 1.0)

    path = sweep_log(tmp_path, {"python": [ATTACK, "=cmd"]}, outcome, workloads=(ATTACK,))
    report = make_report([], [path])
    page = html_of(report)
    assert "<img" not in page
    assert "<script" not in page
    assert "\n# heading" not in markdown_of(report)
    for row in csv.reader(io.StringIO("".join(csv_lines(sweep_rows(path))))):
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
    for page in (html_of(report), markdown_of(report), "".join(csv_lines(sweep_rows(path)))):
        assert "secret" not in page
        for number in (1, 2, 3):
            assert f"(host {number})" in page
    assert "lab@secret-3" in markdown_of(make_report([], [path], full=True))


# ---- which one leads where ----

UNSURE = "(1 run each)"


def leads(vary, times, over="batch_size", of="device", **plan):
    """Return what is said of a sweep whose combinations took these times, each one or several."""
    outcomes = [[completed(t) for t in (one if isinstance(one, list) else [one])] for one in times]
    return lead_changes(rows_of(sweep_of(plan_of(vary, **plan), *outcomes)), of, over)


TWO = {"device": ["cpu", "gpu:0"]}
TWO_SIZES = TWO | {"batch_size": [32, 64]}
FEW, MANY = [0.200, 0.201, 0.202], [0.400, 0.401, 0.402]


@pytest.mark.parametrize(
    ("vary", "times", "repeats", "said"),
    [
        # cpu at each size, then gpu:0.
        (
            TWO | SIZES,
            [0.1, 0.1, 0.1, 0.3, 0.2, 0.05],
            1,
            ["cpu at batch 32, 64; gpu:0 at batch 128 "],
        ),
        # A place where none leads is not said to have a leader, and one place is no change.
        (TWO | SIZES, [0.3, 0.3, 0.3, 0.1, None, 0.1], 1, ["gpu:0 at batch 32, 128 "]),
        (TWO_SIZES, [0.3, 0.3, 0.1, None], 1, []),
        # A lead that several runs show is reported without a doubt.
        (TWO_SIZES, [FEW[:2], FEW[:2], MANY[:2], MANY[:2]], 2, ["cpu at batch 32, 64"]),
        (TWO_SIZES, [FEW, FEW, MANY, MANY], 3, ["cpu at batch 32, 64"]),
    ],
)
def test_where_one_device_overtakes_the_other_is_reported(vary, times, repeats, said):
    expected = [f"faster: {one}{UNSURE if repeats == 1 else ''}" for one in said]
    assert leads(vary, times, repeats=repeats) == expected


def test_one_leads_only_where_it_is_clear_of_all_others():
    """The third takes so different times that it may be the first."""
    vary = {"backend": ["tensorflow", "torch", "jax"], "batch_size": [32, 64]}
    times = ([0.10, 0.11, 0.12], [0.20, 0.21, 0.22], [0.05, 0.40, 1.00])
    twice = [of_one for of_one in times for _ in range(2)]
    assert leads(vary, twice, of="backend", repeats=3) == []


def test_what_else_is_varied_is_kept_apart_and_workloads_take_the_place_of_an_axis():
    times = [0.1, 0.4, 0.1, 0.4, 0.3, 0.2, 0.05, 0.5]
    assert leads(TWO_SIZES | {"jit": ["on", "off"]}, times) == [
        f"JIT on: faster: cpu at batch 32; gpu:0 at batch 64 {UNSURE}",
        f"JIT off: faster: gpu:0 at batch 32; cpu at batch 64 {UNSURE}",
    ]
    names = ("mnist-mlp-small", "mnist-mlp-wide")
    plan = plan_of(TWO, workloads=names, metric="run_seconds")
    seconds = (52.0, 123.0, 390.0, 224.0)
    rows = rows_of(sweep_of(plan, *[[completed(0.1, seconds=s)] for s in seconds]))
    assert lead_changes(rows, "device", None) == [
        f"faster: cpu on mnist-mlp-small; gpu:0 on mnist-mlp-wide {UNSURE}"
    ]


def test_repeats_are_headed_by_their_throughput_and_never_by_a_fastest():
    plan = replace(plan_of(repeats=3), script=SweptScript(("python", "train.py")))
    assert headline(sweep_of(plan, [])) == ("0 RUNS FINISHED", [])
    one = sweep_of(plan, [completed(2.0)])
    assert headline(one) == (
        "1 RUN FINISHED",
        ["500 samples/s; a second run shows how much runs differ"],
    )
    sentence = "500 samples/s, the median of runs that differ by up to 25 %"
    three = sweep_of(plan, [completed(2.0), completed(2.0), completed(2.5)])
    assert headline(three) == ("3 RUNS FINISHED", [sentence])
