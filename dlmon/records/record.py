"""Make the classes of records.

`dataclass(frozen=True)` compiles six functions for each class, half a millisecond of every start.
A record has the same from here, written once for all.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

__all__ = ["record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    _T = TypeVar("_T")

    def record(*, frozen: bool, kw_only: bool = False) -> Any:
        """Return what makes a frozen dataclass of a class."""
        assert frozen

        def make(cls: type[_T]) -> type[_T]:
            for function in (__init__, __eq__, __hash__, __repr__, __setattr__, __delattr__):
                setattr(cls, function.__name__, function)
            return dataclass(init=False, repr=False, eq=False)(cls)

        return make


class _Layout(NamedTuple):
    names: tuple[str, ...]
    values: dict[str, Any]
    """What the fields have that are not given."""
    required: tuple[str, ...]
    factories: tuple[tuple[str, Any], ...]


_LAYOUTS: dict[type[Any], _Layout] = {}


def _layout_of(cls: type[Any]) -> _Layout:
    specs = fields(cls)
    factories = {s.name: s.default_factory for s in specs if s.default_factory is not MISSING}
    values = {spec.name: spec.default for spec in specs}
    required = tuple(n for n, value in values.items() if value is MISSING and n not in factories)
    return _Layout(tuple(values), values, required, tuple(factories.items()))


def __init__(self: Any, *values: Any, **named: Any) -> None:
    cls = type(self)
    layout = _LAYOUTS.get(cls)
    if layout is None:
        layout = _LAYOUTS[cls] = _layout_of(cls)
    made = layout.values.copy()
    made.update(zip(layout.names, values))  # noqa: B905 - Python 3.10; too many are refused below
    made.update(named)
    for name, factory in layout.factories:
        if made[name] is MISSING:
            made[name] = factory()
    twice = values and not named.keys().isdisjoint(layout.names[: len(values)])
    if twice or len(made) > len(layout.names) or len(values) > len(layout.names):
        raise TypeError(f"{cls.__name__} takes each of its fields once, and no others")
    for name in layout.required:
        if made[name] is MISSING:
            raise TypeError(f"{cls.__name__} needs {name}")
    self.__dict__.update(made)


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
