import pytest

from dlmon.records import Evaluation
from dlmon.session.session import _projected_evaluation_s

SECOND_NS = 1_000_000_000


def evaluation(first_end):
    return Evaluation(
        begin=0,
        end=2 * SECOND_NS,
        steps=11,
        samples=110,
        whole=False,
        metrics={},
        first_end=first_end,
    )


def test_the_first_batch_compiles_and_counts_once():
    # One second for the first batch, a tenth for each of the other ten.
    assert _projected_evaluation_s(evaluation(SECOND_NS), 101) == pytest.approx(1 + 10)


def test_without_the_first_batchs_end_all_of_it_is_scaled():
    assert _projected_evaluation_s(evaluation(None), 110) == pytest.approx(20)


def test_as_many_batches_as_were_measured_take_as_long():
    assert _projected_evaluation_s(evaluation(SECOND_NS), 11) == pytest.approx(2)
