"""A record is what a frozen dataclass would be."""

import pickle
from copy import deepcopy
from dataclasses import FrozenInstanceError, asdict, fields, replace

import pytest

from dlmon.records import Cpu, Phase, Slot


def test_fields_are_given_in_order_or_by_name():
    assert Phase(1, "training") == Phase(name="training", t=1) == Phase(1, "training", None)
    assert asdict(Slot(2, repeat=3)) == {"combination": 2, "repeat": 3}
    assert [spec.name for spec in fields(Slot)] == ["combination", "repeat"]


@pytest.mark.parametrize(
    ("values", "named"),
    [((1,), {}), ((1, "x", 2, 3, 4), {}), ((1, "x"), {"t": 1}), ((1, "x"), {"color": "red"})],
)
def test_what_is_missing_unknown_or_given_twice_is_refused(values, named):
    with pytest.raises(TypeError, match="Phase"):
        Phase(*values, **named)


def test_nothing_of_it_can_be_changed():
    slot = Slot(1, 2)
    with pytest.raises(FrozenInstanceError):
        slot.repeat = 3
    with pytest.raises(FrozenInstanceError):
        del slot.repeat
    assert replace(slot, repeat=3) == Slot(1, 3)


def test_alike_ones_are_equal_and_others_are_not():
    assert Slot(1, 2) == Slot(1, 2) != Slot(2, 1)
    assert len({Slot(1, 2), Slot(1, 2), Slot(2, 1)}) == 2
    assert Slot(1, 2) != (1, 2)
    assert pickle.loads(pickle.dumps(Slot(1, 2))) == deepcopy(Slot(1, 2)) == Slot(1, 2)
    assert repr(Slot(1, 2)) == "Slot(combination=1, repeat=2)"
    # A default that can be changed is not shared.
    assert (Cpu().why, Cpu().why is Cpu().why) == ({}, False)
    match Slot(1, 2):
        case Slot(combination, repeat):
            assert (combination, repeat) == (1, 2)
