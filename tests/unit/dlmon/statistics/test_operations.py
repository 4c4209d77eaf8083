"""Operations of a token, by hand."""

import pytest

from dlmon.statistics.operations import WHOLE, Weight, operations_of, per_token

# GPT-2's: 12 layers of 12 · 768² weights, and the head of 50,257 tokens, which is the embedding.
GPT2 = [*[Weight(12 * 768**2)] * 12, Weight(50_257 * 768)]
GPT2_ATTENTION = {WHOLE: 12 * 768}


def test_each_weight_takes_six_operations_and_attention_twelve_for_each_token_that_is_met():
    found = operations_of(GPT2, GPT2_ATTENTION)
    assert found.per_token == 6 * sum(weight.elements for weight in GPT2)
    assert found.attention == {WHOLE: 12 * 12 * 768}
    assert (found.source, found.recomputed) == ("weights and attention", 0)
    # nanoGPT counts the weights of its norms, and biases, which multiply nothing.
    its = 6 * (124_439_808 - 1024 * 768) + 12 * 12 * 768 * 1024
    assert per_token(found.per_token, found.attention, 1024) == pytest.approx(its, rel=0.002)


def test_a_mixture_of_experts_counts_those_that_a_token_takes():
    found = operations_of([Weight(1000), Weight(8000, active=2 / 8)], {})
    assert (found.per_token, found.source) == (6 * 3000, "weights")


def test_a_frozen_weight_takes_no_gradient_of_its_own():
    adapted = [weight for _ in range(50) for weight in (Weight(1000, trains=False), Weight(10))]
    found = operations_of(adapted, {WHOLE: 100})
    # But for the first: nothing that trains is before it.
    assert found.per_token == pytest.approx(50 * (4 * 1000 + 6 * 10), rel=0.02)
    assert found.attention[WHOLE] == pytest.approx(12 * 100, rel=0.02)


def test_nothing_goes_back_below_the_first_weight_that_trains():
    found = operations_of([Weight(1000, trains=False), Weight(10)], {WHOLE: 100})
    assert found.per_token == 2 * 1000 + 4 * 10
    assert found.attention == {WHOLE: 400}


def test_what_is_computed_again_is_counted_apart():
    found = operations_of([Weight(1000, is_recomputed=True), Weight(500)], {})
    assert (found.per_token, found.recomputed) == (6 * 1500, 2 * 1000)


@pytest.mark.parametrize(
    ("attention", "sequence", "operations"),
    [
        ({}, None, 100),
        ({WHOLE: 2}, 10.0, 120),
        ({WHOLE: 2, "4": 1}, 10.0, 124),
        ({"4": 1}, 3.0, 103),
        ({WHOLE: 2}, None, None),
        # A log may say anything.
        ({"-1": 1, "9" * 30: 1, "": 1, "²": 1}, 10.0, 140),
    ],
)
def test_attention_meets_the_tokens_of_a_sequence_as_far_as_it_looks_back(
    attention, sequence, operations
):
    assert per_token(100, attention, sequence) == operations


def test_a_network_without_weights_takes_nothing():
    assert operations_of([], {}).per_token == 0
