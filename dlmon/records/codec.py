"""Encode and decode records: one JSON object per line, in every pipe and log.

`t`, `begin`, `end` and the like are CLOCK_MONOTONIC in nanoseconds, one clock for all processes of
a machine; `wall` is Unix seconds. An unknown value is null with its reason in `why`, never 0. In
`machine` records, an absent field is unchanged since it was last sent. Readers skip unknown types
and keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from functools import partial, reduce
from operator import or_
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from dlmon.records import LoopResult
from dlmon.records.machine import Gpu, GpuFacts, Machine, MachineFacts, Node
from dlmon.records.memory import FrameworkMemory, OutOfMemory
from dlmon.records.record import filled, record
from dlmon.records.sanitize import clean
from dlmon.records.session import (
    Alert,
    Facts,
    Failure,
    Imported,
    Injection,
    Notice,
    Output,
    Result,
    SessionHeader,
    Suspended,
    TrackerRun,
)
from dlmon.records.stacks import Answer, CodeSamples, ProcessStack, Profile, SourceLines, Stack
from dlmon.records.sweep import Event, SweepHeader, Value
from dlmon.records.training import Batches, BatchSummary, WorkloadRecord
from dlmon.records.words import (
    SAMPLES_PER_S,
    STEPS_PER_S,
    TOKENS_PER_S,
    FailureKind,
    GpuState,
    Requirement,
    Status,
    Word,
)

# Older logs lack some codes: they are derived from texts and exit codes.
_REFUSED = 69  # a workload that refused its options
_MEMORY_RAN_OUT = "memory ran out"
_REQUIREMENTS = {
    "the model is not built yet": Requirement.MODEL,
    "the run was too short for a figure": Requirement.STEADY_STATE,
}
_GPU_STATES = {
    "lost": GpuState.LOST,
    "asleep": GpuState.ASLEEP,
    "idle": GpuState.IDLE,
    "no NVIDIA driver": GpuState.NO_DRIVER,
    "the NVIDIA driver is not loaded": GpuState.NO_DRIVER,
    "the Python package nvidia-ml-py": GpuState.NO_PACKAGE,
    "the NVIDIA driver and its library differ": GpuState.VERSIONS_DIFFER,
    "NVML was shut down": GpuState.UNKNOWN,
}
Values = dict[str, Any]

SCHEMA = 1
LARGEST = 2**63 - 1
_T = TypeVar("_T")


class RecordError(ValueError):
    """A line is not a valid record; the message says why."""


Record = (
    SessionHeader
    | Facts
    | WorkloadRecord
    | FrameworkMemory
    | OutOfMemory
    | Machine
    | Node
    | Output
    | Suspended
    | Notice
    | Imported
    | Injection
    | TrackerRun
    | Alert
    | Failure
    | Stack
    | SourceLines
    | CodeSamples
    | ProcessStack
    | Answer
    | Profile
    | Result
    | SweepHeader
    | Event
)

_TYPES: dict[str, type[Any]] = {
    cls.TYPE: cls for cls in get_args(Record) if cls is not BatchSummary
}


def encode(record: Record) -> bytes:
    """Return `record` as one line of JSON, with its newline.

    Raises:
        ValueError: a number is NaN or infinite; it should be None with a reason.
    """
    line = {"type": record.TYPE, **to_json(record)}
    text = json.dumps(line, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n".encode("utf-8", "replace")


def to_json(value: Any) -> Any:
    """Return a value as plain JSON types; a None without a reason is left out of its record."""
    if hasattr(value, "__dataclass_fields__"):
        why: Mapping[str, str] = getattr(value, "why", {})
        flat = {}
        for spec in fields(value):
            item = getattr(value, spec.name)
            if item is None and spec.name not in why and spec.default is None:
                continue
            if not item and spec.default_factory is not MISSING:
                continue
            if spec.metadata:
                flat.update(to_json(item))
            else:
                flat[spec.name] = to_json(item)
        return flat
    if isinstance(value, tuple):
        return list(value) if value and type(value[0]) is int else [to_json(v) for v in value]
    return value


def decode(line: bytes | str) -> Record | None:
    """Return the record in `line`, with all text cleaned; None if its type is unknown.

    Raises:
        RecordError: the line is not JSON, not an object with a `type`, or a field is missing or
            not valid.
    """
    try:
        text = line if isinstance(line, str) else str(line, "utf-8", "surrogatepass")
        loaded = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not a record: {error}") from None
    return read_record(loaded)


def decode_lines(lines: Iterable[bytes]) -> Iterator[Record]:
    """Yield the records in lines, without those that are no record or of an unknown type."""
    for line in lines:
        try:
            record = decode(line)
        except RecordError:
            continue
        if record is not None:
            yield record


def read_record(loaded: Any) -> Record | None:
    """Return the record in parsed JSON, as `decode` does for a line.

    Raises:
        RecordError: it is not valid.
    """
    if not isinstance(loaded, dict) or not isinstance(loaded.get("type"), str):
        raise RecordError("not a record: an object with a type was expected")
    kind = loaded["type"]
    if kind not in _TYPES:
        return None
    if kind == "batches" and (batches := _plain_batches(loaded)) is not None:
        return batches
    cls = BatchSummary if kind == "batches" and "count" in loaded else _TYPES[kind]
    try:
        parsed: Record = _parse_object(cls, loaded, kind)
    except RecursionError:
        raise RecordError(f"{kind}: nested too deeply") from None
    if isinstance(parsed, (Batches, BatchSummary)):
        _check_batches(parsed)
    return parsed


def read_object(cls: type[_T], sent: Any) -> _T:
    """Return an object of a class from another process's parsed JSON, checked and cleaned.

    Raises:
        RecordError: it is not valid.
    """
    parsed: _T = _parse_object(cls, sent, cls.__name__)
    return parsed


NOT_NUMBERS = NAN, INFINITE = "NaN", "infinite"
"""Why a metric has no value: it is no finite number."""


def finite(metrics: Mapping[str, Any]) -> tuple[dict[str, float | None], dict[str, str]]:
    """Return metrics as finite values or None, and the reasons of each None."""
    values: dict[str, float | None] = {}
    why: dict[str, str] = {}
    for name, metric in metrics.items():
        try:
            number = float(metric)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: by PyTorch
            values[name], why[name] = None, "not a single number"
            continue
        values[name] = number if math.isfinite(number) else None
        if values[name] is None:
            why[name] = NAN if math.isnan(number) else INFINITE
    return values, why


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# One decoder for all lines: json.loads would make one for each.
_JSON = json.JSONDecoder(parse_constant=_refuse_constant)


_LISTS = frozenset(("dt_us", "samples", "tokens"))
_WHOLE = frozenset(spec.name for spec in fields(Batches)) - {"dt_us", "profiled"}
_ALWAYS = frozenset(spec.name for spec in fields(Batches) if spec.default is MISSING)
_NO_BATCHES: Values = {spec.name: None for spec in fields(Batches)}


def _plain_batches(loaded: Values) -> Batches | None:
    """Return batches without the parsers of fields; None if a field is unknown or not valid.

    Nearly all lines of a long log are plain batches, and this reads them faster.
    """
    values, lengths = _NO_BATCHES.copy(), set()
    for name, value in loaded.items():
        if type(value) is int:
            if name not in _WHOLE or not 0 <= value <= LARGEST:
                return None
            values[name] = value
        elif type(value) is list:
            is_whole = name in _LISTS and set(map(type, value)) == {int}
            if not is_whole or min(value) < 0 or max(value) > LARGEST:
                return None
            values[name] = tuple(value)
            lengths.add(len(value))
        elif name != "type" and (name, value) != ("samples", None):
            return None
    if len(lengths) != 1 or values["per_execution"] == 0 or not loaded.keys() >= _ALWAYS:
        return None
    return filled(Batches, values)


def _check_batches(batches: Batches | BatchSummary) -> None:
    least = 0
    for name, count in vars(batches).items():
        if count and name not in ("epoch", "t", "t_last"):
            least = min(least, min(count) if type(count) is tuple else count)
    if isinstance(batches, Batches):
        count = len(batches.dt_us)
        lists = [value for value in (batches.samples, batches.tokens) if isinstance(value, tuple)]
        is_whole = count > 0 and all(len(value) == count for value in lists)
        together = batches.per_execution
    else:
        is_whole = batches.count > 0 and len(batches.step_us) == 7
        together = batches.first_steps
    if least < 0 or together == 0 or not is_whole:
        raise RecordError("batches: their numbers don't fit")


_Parser = Callable[[Any, str], Any]


@record(frozen=True)
class _FieldParsers:
    """The parsers of a class's fields, and the defaults of absent ones.

    The fields of the objects in `within` are read from the enclosing object. Most values are
    numbers and need no parser: fields in `whole` take an integer, those in `numbers` a float. If
    absent, fields in `empty` are an empty dict.
    """

    parsers: dict[str, _Parser]
    whole: frozenset[str]
    numbers: frozenset[str]
    within: dict[str, _Parser]
    required: tuple[str, ...]
    empty: tuple[str, ...]
    defaults: dict[str, Any]
    complete: Callable[[dict[str, Any]], None] | None


_FIELD_PARSERS: dict[type[Any], _FieldParsers] = {}


def _field_parsers_of(cls: type[Any]) -> _FieldParsers:
    hints = get_type_hints(cls)
    specs = [spec for spec in fields(cls) if not spec.metadata]
    return _FieldParsers(
        parsers={spec.name: _parser(hints[spec.name]) for spec in specs},
        whole=frozenset(spec.name for spec in specs if _kinds(hints[spec.name]) & {int, float}),
        numbers=frozenset(spec.name for spec in specs if float in _kinds(hints[spec.name])),
        within={s.name: _parser(hints[s.name]) for s in fields(cls) if s.metadata},
        required=tuple(
            spec.name
            for spec in specs
            if spec.default is MISSING and spec.default_factory is MISSING
        ),
        empty=tuple(spec.name for spec in specs if spec.default_factory is not MISSING),
        defaults={spec.name: None if spec.default is MISSING else spec.default for spec in specs},
        complete=COMPLETE.get(cls),
    )


def _parse_object(cls: type[Any], loaded: Any, path: str) -> Any:
    if not isinstance(loaded, dict):
        raise RecordError(f"{path}: an object was expected")
    of_class = _FIELD_PARSERS.get(cls)
    if of_class is None:
        of_class = _FIELD_PARSERS[cls] = _field_parsers_of(cls)
    parsers, values = of_class.parsers, of_class.defaults.copy()
    whole, numbers = of_class.whole, of_class.numbers
    for name, value in loaded.items():
        kind = type(value)
        is_whole = kind is int and name in whole and -LARGEST <= value <= LARGEST
        if is_whole or (kind is float and name in numbers and -math.inf < value < math.inf):
            values[name] = value
        elif (parse := parsers.get(name)) is not None:
            values[name] = parse(value, f"{path}.{name}")
    for name in of_class.required:
        if name not in loaded:
            raise RecordError(f"{path}.{name} is missing")
    for name, parse in of_class.within.items():
        values[name] = parse(loaded, path)
    for name in of_class.empty:
        if name not in loaded:
            values[name] = {}
    if of_class.complete is not None:
        of_class.complete(values)
    return filled(cls, values)


def _kinds(hint: Any) -> set[Any]:
    """Return the types in an annotation."""
    return set(get_args(hint)) if isinstance(hint, UnionType) else {hint}


def _parser(hint: Any) -> _Parser:
    """Return the parser of an annotation; covers the annotations of records."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if isinstance(hint, type) and issubclass(hint, Word):
        return _word(hint)
    if hasattr(hint, "__dataclass_fields__"):
        return partial(_parse_object, hint)
    options = get_args(hint)
    if get_origin(hint) is tuple:
        return _items(_parser(options[0]), plain_integers=options[0] is int)
    if get_origin(hint) is dict:
        return _mapping(_parser(options[1]))
    return _union(hint, options)


def _union(hint: Any, options: tuple[Any, ...]) -> _Parser:
    not_none = [option for option in options if option is not type(None)]
    if len(not_none) < len(options):
        parse_value = _parser(reduce(or_, not_none))
        return lambda value, path: None if value is None else parse_value(value, path)
    parsers = [(_parser(option), get_origin(option) is tuple) for option in options]

    def parse(value: Any, path: str) -> Any:
        if value is None:
            raise RecordError(f"{path} is null")
        for parser, wants_list in parsers:
            if wants_list == isinstance(value, list):
                return parser(value, path)
        raise RecordError(f"{path}: {hint} was expected")

    return parse


def _items(parse_item: _Parser, plain_integers: bool) -> _Parser:
    def parse(value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise RecordError(f"{path}: a list was expected")
        all_are_integers = plain_integers and set(map(type, value)) == {int}
        if all_are_integers and min(value) >= -LARGEST and max(value) <= LARGEST:
            return tuple(value)
        return tuple(parse_item(v, path) for v in value)

    return parse


def _mapping(parse_value: _Parser) -> _Parser:
    def parse(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise RecordError(f"{path}: an object was expected")
        return {clean(k, 200): parse_value(v, f"{path}.{clean(k, 40)}") for k, v in value.items()}

    return parse


def _word(kind: type[Word]) -> _Parser:
    def parse(value: Any, path: str) -> Word:
        text = _text(value, path)
        try:
            return kind(text)
        except ValueError:
            raise RecordError(f"{path}: one of {', '.join(kind)} was expected") from None

    return parse


def _integer(value: Any, path: str) -> int:
    if type(value) is not int or not -LARGEST <= value <= LARGEST:
        raise RecordError(f"{path}: a whole number was expected")
    return value


def _number(value: Any, path: str) -> float:
    if type(value) is int and -LARGEST <= value <= LARGEST:
        return value
    if type(value) is not float or not math.isfinite(value):
        raise RecordError(f"{path}: a number was expected")
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise RecordError(f"{path}: a text was expected")
    return clean(value)


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise RecordError(f"{path}: true or false was expected")
    return value


def _value(value: Any, path: str) -> Value:
    return clean(value) if isinstance(value, str) else _number(value, path)


def _json_value(value: Any, path: str) -> Any:
    """Clean a JSON value of any form, such as an option, recursively."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(k, 200): _json_value(v, path) for k, v in value.items()}
    if isinstance(value, list):
        return [_json_value(v, path) for v in value]
    if isinstance(value, bool) or value is None:
        return value
    return _number(value, path)


_SIMPLE: dict[Any, _Parser] = {
    int: _integer,
    float: _number,
    str: _text,
    bool: _boolean,
    Any: _json_value,
    Value: _value,
}


def _complete_units(values: Values) -> None:
    """Set the units of throughputs, which older logs lack."""
    main_unit = STEPS_PER_S if values["counts_steps"] else SAMPLES_PER_S
    for name, unit in (("samples_per_second", main_unit), ("tokens_per_second", TOKENS_PER_S)):
        if values[name] is not None:
            values[name] = replace(values[name], unit=unit)


def _complete_result(values: Values) -> None:
    _complete_units(values)
    if values["failure"] is None and values["status"] == Status.FAILED:
        if _MEMORY_RAN_OUT in (values["error"] or ""):
            values["failure"] = FailureKind.OUT_OF_MEMORY
        elif values["exit_code"] == _REFUSED:
            values["failure"] = FailureKind.REFUSED
    if values["lacking"] is None and values["why"]:
        lacking = {name: _code_of(_REQUIREMENTS, why) for name, why in values["why"].items()}
        values["lacking"] = {n: code for n, code in lacking.items() if code is not None} or None


def _complete_state(name: str, figure: str) -> Callable[[Values], None]:
    """Return a function that derives a missing state from the reason of an unknown figure."""

    def complete(values: Values) -> None:
        if values[name] is None and values["why"]:
            values[name] = _code_of(_GPU_STATES, values["why"].get(figure, ""))

    return complete


def _code_of(codes: Mapping[str, Any], why: str) -> Any:
    return next((code for words, code in codes.items() if why.startswith(words)), None)


COMPLETE: dict[type[Any], Callable[[Values], None]] = {
    Result: _complete_result,
    LoopResult: _complete_units,
    Gpu: _complete_state("state", "utilization_pct"),
    GpuFacts: _complete_state("state", "uuid"),
    Machine: _complete_state("gpus_state", "gpus"),
    MachineFacts: _complete_state("gpus_state", "gpus"),
}
"""By class, a function that adds values that older logs lack."""
