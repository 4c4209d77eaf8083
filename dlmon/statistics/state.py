"""What an object that folds has come to, as plain JSON values, and such an object made of them.

The values may come from a file that anybody wrote: whatever is not of the kind that the object
has at its start is refused.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, TypeVar

_T = TypeVar("_T")
_LARGEST = 2**63 - 1
_MOST_ITEMS = 100_000
_PLAIN = (bool, int, float, str, type(None))


def state_of(folding: Any, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the attributes of an object that are made of numbers, and of such objects.

    Args:
        folding: the object.
        without: names of attributes that follow from others.
    """
    return {
        name: _plain(value, without) for name, value in vars(folding).items() if name not in without
    }


def with_state(fresh: _T, state: Any) -> _T:
    """Return a new object, with the state of another one of its class.

    Raises:
        ValueError: that is no state of it.
    """
    if not isinstance(state, dict):
        raise ValueError("no state")
    for name, value in vars(fresh).items():
        if name in state:
            setattr(fresh, name, _restored(value, state[name]))
    return fresh


def _plain(value: Any, without: frozenset[str]) -> Any:
    if isinstance(value, Counter):
        return [[key, count] for key, count in value.items()]
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item, without) for item in value]
    if isinstance(value, _PLAIN):
        return value
    return state_of(value, without)


def _restored(fresh: Any, value: Any) -> Any:
    if isinstance(fresh, Counter):
        return Counter({_number(key): _number(count) for key, count in _items(value)})
    if isinstance(fresh, set):
        return {_number(item) for item in _items(value)}
    if isinstance(fresh, list):
        # What a list holds is a number, or a tuple of them.
        return [
            tuple(map(_number, item)) if isinstance(item, list) else _number(item)
            for item in _items(value)
        ]
    if isinstance(fresh, bool):
        return bool(value)
    if isinstance(fresh, (int, float)):
        return _number(value)
    if fresh is None:
        if isinstance(value, list):
            return tuple(map(_number, value))
        return None if value is None else _number(value)
    if isinstance(fresh, str):
        raise ValueError("no text was expected")
    return with_state(fresh, value)


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        raise ValueError("a list was expected")
    return value


def _number(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is int and -_LARGEST <= value <= _LARGEST:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    raise ValueError("a number was expected")
