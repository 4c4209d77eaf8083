"""The decorator of record classes: a frozen dataclass that is made faster.

`dataclass(frozen=True)` compiles six functions for each class, which takes half a millisecond of
every start. All record classes share the functions in this file.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = ["filled", "record"]

_T = TypeVar("_T")

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, kw_only: bool = False) -> Any:
        """Return a decorator that makes a class a frozen dataclass."""
        assert frozen

        def make(cls: type[_T]) -> type[_T]:
            for function in (__init__, __eq__, __hash__, __repr__, __setattr__, __delattr__):
                setattr(cls, function.__name__, function)
            return dataclass(init=False, repr=False, eq=False)(cls)

        return make


def filled(cls: type[_T], values: dict[str, Any]) -> _T:
    """Return a record with the values of all its fields, faster than its constructor does.

    The log of a day has millions of values. The record takes them over: they may not change.
    """
    instance = object.__new__(cls)
    object.__setattr__(instance, "__dict__", values)
    return instance


_LAYOUTS: dict[type[Any], tuple[dict[str, Any], list[Any]]] = {}
"""By class, the default of each field (MISSING for none), and the fields without a default."""


def __init__(self: Any, *values: Any, **named: Any) -> None:
    cls = type(self)
    if cls not in _LAYOUTS:
        specs = fields(cls)
        no_default: list[Any] = [spec for spec in specs if spec.default is MISSING]
        _LAYOUTS[cls] = {spec.name: spec.default for spec in specs}, no_default
    defaults, no_default = _LAYOUTS[cls]
    positional = dict(zip(defaults, values))  # noqa: B905 - too many are refused below
    by_name = {**defaults, **positional, **named}
    is_each_once = len(positional) == len(values) and positional.keys().isdisjoint(named)
    if not is_each_once or len(by_name) > len(defaults):
        raise TypeError(f"{cls.__name__} takes each of its fields once, and no others")
    for spec in no_default:
        if by_name[spec.name] is MISSING:
            if spec.default_factory is MISSING:
                raise TypeError(f"{cls.__name__} needs {spec.name}")
            by_name[spec.name] = spec.default_factory()
    self.__dict__.update(by_name)


def __eq__(self: Any, other: object) -> Any:
    return vars(self) == vars(other) if type(self) is type(other) else NotImplemented


def __hash__(self: Any) -> int:
    return hash(tuple(getattr(self, spec.name) for spec in fields(self)))


def __repr__(self: Any) -> str:
    values = (f"{spec.name}={getattr(self, spec.name)!r}" for spec in fields(self))
    return f"{type(self).__qualname__}({', '.join(values)})"


def __setattr__(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def __delattr__(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
