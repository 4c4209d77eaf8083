"""The parts of a rank's step, beside those of another rank."""

from dlmon.figures.session.ranks import RankRow, rank_parts
from dlmon.records.training import WAITS
from dlmon.session.limits.ranks import RankStep


def row(number, own_ms, waits_ms):
    step = RankStep({"forward_us": own_ms}, waits_ms)
    unknown = dict.fromkeys(("per_second", "step_ms", "wait_ms", "memory_mib", "share"))
    return RankRow(f"{number}", number, "tower", (), holds_up=False, split=step, **unknown)


def test_the_parts_stand_beside_those_of_the_rank_with_the_median_work():
    slow, fast = row(1, 38.0, 0.0), row(0, 5.0, 33.0)
    # Of two ranks it is the faster one, with its own waiting.
    assert rank_parts(slow, (slow, fast)) == [
        ("forward_us", 38.0, 5.0),
        (WAITS, 0.0, 33.0),
    ]
    between = row(2, 20.0, 18.0)
    (own, waits) = rank_parts(slow, (slow, fast, between))
    assert (own[2], waits[2]) == (20.0, 18.0)
