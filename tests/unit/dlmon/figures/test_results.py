"""What a run cost and how much of its hardware it used, in words."""

from dataclasses import replace

import pytest
from fakes.recorded import recorded_session

from dlmon.figures.results import cost_text, effective_or_reason, effective_text, energy_text
from dlmon.session.reasons import NO_PRICE

RESULT = replace(recorded_session()[-1], effective_flop_s=None, why={})


def figures(**changes):
    result = replace(RESULT, **changes)
    writers = {"cost": cost_text, "energy": energy_text, "effective": effective_or_reason}
    return {name: text for name, write in writers.items() if (text := write(result))}


def test_what_was_not_measured_is_not_shown():
    assert figures(why={"cost_usd": NO_PRICE, "effective_flop_s": "no operation was counted"}) == {}


def test_what_was_measured_is_shown():
    assert figures(
        cost_usd=0.5, energy_j_per_epoch={"cpu": 85.2}, effective_flop_s=5.3e10, peak_share=0.266
    ) == {
        "cost": "0.50 USD",
        "energy": "CPU 85.2 J per epoch",
        "effective": "53 GFLOP/s, 27 % of peak",
    }


def test_a_price_that_can_not_be_reckoned_says_why():
    why = {"cost_usd": "the price is per CPU, and the number of CPUs is not known"}
    assert figures(why=why) == {"cost": f"– ({why['cost_usd']})"}


@pytest.mark.parametrize(
    ("why", "more"), [({}, ""), ({"peak_share": "x"}, " (share of the peak unknown: x)")]
)
def test_a_share_that_is_not_known_says_why_where_there_is_room(why, more):
    assert figures(effective_flop_s=5e9, why=why) == {"effective": f"5 GFLOP/s{more}"}
    assert effective_text(replace(RESULT, effective_flop_s=5e9, why=why)) == "5 GFLOP/s"
