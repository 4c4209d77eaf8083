"""Numbers are read by one rule, wherever they are typed."""

from __future__ import annotations

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.comparison.price import parse_price
from dlmon.numbers import decimal_number, whole_number
from dlmon.options.option import UnreadableOption
from dlmon.options.read import read_arguments, read_options
from dlmon.options.run_options import RunOptions
from dlmon.options.sweep_options import make_plan
from dlmon.sweep.plan import SweepError

# Of each, Python's own int or float takes some.
NO_NUMBERS = (
    *("", " ", "٣", "５", "²", "1_000", "0x10", "1 000", "--1", "+", "."),
    *("nan", "inf", "-Infinity", "1e", "e5", "1,5", "\x1b[1m5"),
)
BLANKS = (" 5", "5 ", "\t5", "5\n", "\u00a05", "\u20035")
WHOLE = ("batch_size", "epochs", "steps", "threads", "cpus")
DECIMAL = ("seconds", "interval")


def read_argument(name, text):
    read_arguments({name: text}, RunOptions())


@pytest.mark.parametrize(
    ("read", "error", "says"),
    [
        (whole_number, ValueError, "not a whole number"),
        (decimal_number, ValueError, "not a number"),
        (parse_price, ValueError, "is not a price"),
        *((partial(read_argument, name), UnreadableOption, " ") for name in (*WHOLE, *DECIMAL)),
    ],
)
def test_what_is_no_number_is_none_anywhere(read, error, says):
    for text in (*NO_NUMBERS, *BLANKS):
        with pytest.raises(error, match=says):
            read(text)


@pytest.mark.parametrize("key", ["threads", "seconds"])
def test_no_value_of_a_sweep_is_it(key):
    for text in {*NO_NUMBERS, *BLANKS} - {"1,5"}:
        with pytest.raises(SweepError):
            make_plan("mnist-mlp-small", RunOptions(), [f"{key}=7,{text}"], 1, seed=1)


@pytest.mark.parametrize("name", [*WHOLE, *DECIMAL])
def test_a_form_takes_blanks_away(name):
    for text in BLANKS:
        typed = read_options({name: text}, RunOptions())
        assert not typed.unreadable
        assert getattr(typed.options, name) == 5


@pytest.mark.parametrize(("text", "number"), [("64", 64), ("+2", 2), ("1,024", 1024), ("-0", 0)])
def test_a_whole_number_is_read(text, number):
    assert whole_number(text) == number
    with pytest.raises(OverflowError):
        whole_number("9" * 5000)
    assert decimal_number("1e400") == math.inf


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_that_python_writes_is_read_as_itself(number):
    assert decimal_number(repr(number)) == number
