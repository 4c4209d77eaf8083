"""Prices as they are typed, and what a run costs at one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.comparison.price import Price, parse_price


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0.5", Price(0.5)),
        ("12", Price(12.0)),
        ("1e3", Price(1000.0)),
        (".745", Price(0.745)),
        ("3.", Price(3.0)),
        ("0.00795/cpu", Price(0.00795, per_cpu=True)),
        ("0.00795 / CPU", Price(0.00795, per_cpu=True)),
    ],
)
def test_a_price_is_dollars_per_hour_of_the_machine_or_of_each_cpu(text, price):
    assert parse_price(text) == price


NO_PRICES = (
    *("", "/cpu", "free", "0", "0.000/cpu", "-1", "0,5", "1e10", "nan", "inf", "1_000", "٣"),
    *("0.5/gpu", "0.5/", "0.5/cpu/cpu", "$1", "1 2", " 1", "1 ", "1/cpu ", "9" * 400),
)


@pytest.mark.parametrize("text", NO_PRICES)
def test_what_is_no_price_is_reported_in_a_sentence(text):
    with pytest.raises(ValueError, match="is not a price: give US dollars per hour"):
        parse_price(text)


@given(st.text() | st.from_regex(r"[0-9.]*(/cpu)?", fullmatch=True))
def test_any_text_is_a_price_or_a_sentence(text):
    reported = ""
    try:
        price = parse_price(text)
    except ValueError as refused:
        price, reported = None, str(refused)
    assert 0 < price.usd_per_hour < math.inf if price else "is not a price" in reported


@pytest.mark.parametrize(
    ("price", "wall_s", "cpus", "usd"),
    [
        # The published cloud prices: 16 vCPU for an hour at 0.00795 each.
        (Price(0.00795, per_cpu=True), 3600, 16, pytest.approx(0.1272)),
        *((Price(0.00795, per_cpu=True), 3600, cpus, None) for cpus in (None, 0, -1)),
        *((Price(1.0), wall_s, 1, None) for wall_s in (-1.0, math.inf, math.nan)),
    ],
)
def test_what_a_run_costs_is_known_where_its_time_and_its_cpus_are(price, wall_s, cpus, usd):
    assert price.cost_usd(wall_s, cpus) == usd
