"""Operations per second of what trains on tokens, and their share of a peak."""

from dataclasses import replace

import pytest

from dlmon.records import Model, SamplesPerSecond
from dlmon.session.effective import NO_LENGTH, NO_TOKENS, effective_of

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
SAMPLES = SamplesPerSecond(10.0, 10.0, None, 0.0)
TOKENS = SamplesPerSecond(1000.0, 1000.0, None, 0.0)


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
    ("model", "tokens", "counts_steps", "why"),
    [
        (GPT, None, False, NO_TOKENS),
        (GPT, TOKENS, True, NO_LENGTH),
        (replace(GPT, flops_per_token=None, why={"flops_per_token": "no"}), TOKENS, False, "no"),
    ],
)
def test_what_is_not_known_has_its_reason(model, tokens, counts_steps, why):
    found = effective_of(model, SAMPLES, tokens, 1e6, counts_steps)
    assert (found.effective_flop_s, found.peak_share) == (None, None)
    assert found.why == {"effective_flop_s": why, "peak_share": why}


def test_a_run_that_beats_the_figure_of_a_maker_has_no_share_of_it():
    found = effective_of(GPT, SAMPLES, TOKENS, 450_000.0)
    assert found.peak_share is None
    assert found.why["peak_share"] == "the run was 2 times as fast as the figure of NVIDIA"
