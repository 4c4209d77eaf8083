"""The table of quantities: what it names is there to be read."""

from dataclasses import fields

import pytest

from dlmon.quantities import QUANTITIES
from dlmon.records import Gpu, Result
from dlmon.session.snapshot import Snapshot


def test_no_two_quantities_have_the_same_key_or_the_same_title():
    for what in ("key", "title"):
        values = [getattr(quantity, what) for quantity in QUANTITIES]
        assert len(values) == len(set(values))


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.key)
def test_a_quantity_is_read_where_its_row_says(quantity):
    if quantity.gpu is not None:
        assert quantity.gpu[0] in {field.name for field in fields(Gpu)}
    if quantity.is_reported:
        name = quantity.key.partition(".")[0]
        assert name in {field.name for field in (*fields(Snapshot), *fields(Result))}
