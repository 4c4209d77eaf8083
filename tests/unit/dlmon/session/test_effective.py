"""Operations per second of what trains on tokens, and their share of a peak."""

from dataclasses import replace

import pytest
from fakes.recorded import folded
from fakes.scripts import script_session

from dlmon.figures.comparison.run_rows import facts_of_epoch
from dlmon.figures.report.summary import SessionOutcome, summary_rows
from dlmon.log.label import Label
from dlmon.records import Model, Result, Status, Throughput
from dlmon.session.effective import effective_of

GPT = Model(
    parameters=1,
    flops_per_sample=None,
    batch_size=8,
    samples_per_epoch=None,
    steps_per_epoch=None,
    epochs=None,
    flops_per_token=600,
    attention_flops={"all": 3},
    compute_precision="bfloat16",
    peak_from="NVIDIA",
)
SAMPLES = Throughput(10.0, 10.0, None, 0.0)
NOT_COUNTED = replace(GPT, flops_per_token=None, why={"flops_per_token": "no"})
TOKENS = Throughput(1000.0, 1000.0, None, 0.0)


def test_tokens_per_second_times_the_operations_of_a_token_in_its_sequence():
    found = effective_of(GPT, SAMPLES, TOKENS, 1_800_000.0)
    # Of 100 tokens a sample, each meets 100.
    assert found.effective_flop_s == (600 + 3 * 100) * 1000
    assert (found.peak_share, found.hardware_share) == (0.5, None)
    assert (found.peak_from, found.peak_precision, found.why) == ("NVIDIA", "bfloat16", {})


def test_what_is_computed_again_counts_for_the_hardware_alone():
    again = replace(GPT, recomputed_flops_per_token=200)
    found = effective_of(again, SAMPLES, TOKENS, 1_800_000.0)
    assert found.peak_share == 0.5
    assert found.hardware_share == pytest.approx((900 + 200 + 100) / 1800)
    assert effective_of(again, SAMPLES, TOKENS, 1_000_000.0).hardware_share is None


@pytest.mark.parametrize(
    ("model", "tokens", "unit", "why"),
    [
        (GPT, None, "samples/s", "its batches hold no tokens that could be counted"),
        (GPT, TOKENS, "steps/s", "how many tokens a sequence has is not known"),
        (NOT_COUNTED, TOKENS, "samples/s", "no"),
    ],
)
def test_what_is_not_known_has_its_reason(model, tokens, unit, why):
    found = effective_of(model, replace(SAMPLES, unit=unit), tokens, 1e6)
    assert (found.effective_flop_s, found.peak_share) == (None, None)
    assert found.why == {"effective_flop_s": why, "peak_share": why}


def test_a_run_that_beats_the_figure_of_a_maker_has_no_share_of_it():
    found = effective_of(GPT, SAMPLES, TOKENS, 450_000.0)
    assert found.peak_share is None
    assert found.why["peak_share"] == "the run was 2 times as fast as the figure of NVIDIA"


LENGTH = 64


def of_a_script(trainers=1, devices=("gpu:0", "gpu:1"), ended=True, **more):
    """Return the session of a script that trains GPT, on a GPU for each process."""
    known = {name: getattr(GPT, name) for name in ("flops_per_token", "attention_flops")}
    known |= {"compute_precision": "bfloat16", "peak_flop_s": 1e9, "peak_from": "measured"} | more
    records = [
        replace(one, device=devices[one.trainer or 0], **known) if isinstance(one, Model) else one
        for one in script_session(trainers=trainers, tokens=LENGTH)
    ]
    return folded(records if ended else [one for one in records if not isinstance(one, Result)])


def effective_row(session):
    snapshot = session.snapshot()
    outcome = SessionOutcome(session, snapshot, Status.RUNNING, Label(None, None))
    return dict(summary_rows(outcome)).get("effective")


def test_several_processes_reach_a_share_of_the_peak_of_all_their_gpus():
    found = of_a_script().snapshot().effective
    assert found.effective_flop_s > 0
    together = of_a_script(2).snapshot()
    rates = [one.samples_per_second for one in together.trainers]
    each = (600 + 3 * LENGTH) * LENGTH
    assert together.effective.effective_flop_s == pytest.approx(each * sum(rates))
    share = together.effective.effective_flop_s / 2e9
    assert together.effective.peak_share == pytest.approx(share)
    # Of those that share one, there is one peak.
    shared = of_a_script(2, devices=("cpu", "cpu")).snapshot().effective
    assert shared.peak_share == pytest.approx(2 * share)


def test_the_summary_of_a_run_that_goes_on_has_the_share_too():
    assert effective_row(of_a_script(ended=False)).endswith("% of the measured bf16 peak")


def test_the_live_screen_has_the_share_where_there_is_no_room_for_more():
    share = effective_row(of_a_script(ended=False)).partition(", ")[2]
    assert share in facts_of_epoch(of_a_script(ended=False).snapshot())
    without = of_a_script(ended=False, peak_flop_s=None).snapshot()
    assert any(fact.endswith("FLOP/s") for fact in facts_of_epoch(without))


def test_without_a_peak_or_operations_the_summary_says_why():
    without = {"peak_flop_s": None, "peak_from": None, "why": {"peak_flop_s": "it is a toaster"}}
    row = effective_row(of_a_script(ended=False, **without))
    assert row.endswith("FLOP/s (share of the peak unknown: it is a toaster)")
    unknown = {"flops_per_token": None, "why": {"flops_per_token": "it is a toaster"}}
    assert effective_row(of_a_script(ended=False, **unknown)) == "– (it is a toaster)"
    assert effective_row(folded(script_session())) is None
