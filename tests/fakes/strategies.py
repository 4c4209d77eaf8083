"""Hypothesis strategies for records: hostile ones that decode lets through, and likely ones."""

from __future__ import annotations

import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from functools import cache

from hypothesis import settings
from hypothesis import strategies as st

from dlmon.records import (
    LARGEST,
    PHASES,
    Batches,
    BatchSummary,
    Epoch,
    Evaluation,
    MachineFacts,
    Model,
    Phase,
    Record,
    SessionHeader,
    Word,
)

RECORD_TYPES = typing.get_args(Record)
SECOND_NS = 1_000_000_000
FEW_EXAMPLES = settings(max_examples=30, deadline=None)
"""For a test each example of which is a whole run."""

_EDGES = st.sampled_from([0, 1, -1, 2, 10**9, LARGEST, -LARGEST])
_HOSTILE = {
    int: _EDGES | st.integers(-LARGEST, LARGEST),
    float: st.sampled_from([0.0, -1.0, 1e300, -1e300, 5e-324])
    | st.floats(allow_nan=False, allow_infinity=False),
}
_LIKELY = {
    int: st.integers(0, 12) | st.integers(0, 300 * SECOND_NS),
    float: st.floats(0, 100),
}
_COUNT = {
    "hostile": st.sampled_from([0, 1, LARGEST]) | st.integers(0, LARGEST),
    "likely": st.integers(0, 200) | st.integers(0, 2_000_000),
}
_TEXT = st.text(max_size=4) | st.sampled_from(["pct", "gpus", "[/x]"])
_FREE = st.none() | st.booleans() | st.integers(-9, 9) | _TEXT


@cache
def of_type(cls: type, kind: str = "hostile") -> st.SearchStrategy:
    """Build any record of a type that its decoder accepts; `kind` is hostile or likely."""
    count = _COUNT[kind]
    if cls is Batches:
        return st.lists(count, min_size=1, max_size=12).flatmap(
            lambda dt_us: st.builds(
                Batches,
                epoch=_numbers(kind)[int],
                first=count,
                samples=count | st.tuples(*[count] * len(dt_us)),
                t=_numbers(kind)[int],
                dt_us=st.just(tuple(dt_us)),
            )
        )
    if cls is BatchSummary:
        return st.builds(
            BatchSummary,
            epoch=_numbers(kind)[int],
            first=count,
            count=count.map(lambda some: max(1, some)),
            samples=count,
            t=_numbers(kind)[int],
            t_last=_numbers(kind)[int],
            time_us=count,
            step_us=st.tuples(*[count] * 7),
        )
    if cls is Phase:
        return st.builds(Phase, t=_numbers(kind)[int], name=st.sampled_from(PHASES) | _TEXT)
    return _built(cls, kind)


def any_record(kind: str = "hostile") -> st.SearchStrategy:
    """Build any record but a header."""
    return st.one_of(*(of_type(cls, kind) for cls in RECORD_TYPES if cls is not SessionHeader))


def header(**changes: typing.Any) -> SessionHeader:
    """Return the header of a session that began at zero."""
    values: dict[str, typing.Any] = {
        "schema": 1,
        "id": "20261120-145600-cifar10-cnn-7f3a",
        "host": "tower",
        "boot_id": "c0ffee",
        "t": 0,
        "wall": 1_795_186_560.0,
        "workload": "cifar10-cnn",
        "options": {},
        "machine": MachineFacts(),
        "versions": {},
    }
    return SessionHeader(**{**values, **changes})


def _numbers(kind: str) -> dict[type, st.SearchStrategy]:
    return _HOSTILE if kind == "hostile" else _LIKELY


@cache
def _built(cls: type, kind: str) -> st.SearchStrategy:
    hints = typing.get_type_hints(cls)
    required: dict[str, st.SearchStrategy] = {}
    optional: dict[str, st.SearchStrategy] = {}
    for spec in fields(cls):
        needed = spec.default is MISSING and spec.default_factory is MISSING
        (required if needed else optional)[spec.name] = _of_hint(hints[spec.name], kind)
    chosen = st.fixed_dictionaries(required, optional=optional)
    return chosen.map(lambda values: cls(**values))


def _of_hint(hint: typing.Any, kind: str) -> st.SearchStrategy:
    simple = {
        **_numbers(kind),
        str: _TEXT,
        bool: st.booleans(),
        type(None): st.none(),
        typing.Any: _FREE,
    }
    if hint in simple:
        return simple[hint]
    if isinstance(hint, type) and issubclass(hint, Word):
        return st.sampled_from(list(hint))
    if is_dataclass(hint):
        return _built(hint, kind)
    options = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return st.one_of(*(_of_hint(option, kind) for option in options))
    if typing.get_origin(hint) is dict:
        return st.dictionaries(_TEXT, _of_hint(options[1], kind), max_size=3)
    return st.lists(_of_hint(options[0], kind), max_size=3).map(tuple)


ANY_RECORDS = st.lists(any_record("likely") | any_record("hostile"), max_size=10)
TRAINING_RECORDS = st.lists(
    st.one_of(
        *(
            of_type(cls, kind)
            for cls in (Model, Batches, BatchSummary, Epoch, Evaluation, Phase)
            for kind in ("likely", "hostile")
        )
    ),
    max_size=10,
)
