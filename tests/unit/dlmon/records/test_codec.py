import functools
import json
import math
import types
import typing
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace

import pytest
from fakes.sweeps import result_of
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import (
    LARGEST,
    AlertEvent,
    Batches,
    BatchSummary,
    Cpu,
    Ended,
    Epoch,
    FailureKind,
    Gpu,
    Machine,
    MachineFacts,
    Outcome,
    RecordError,
    Result,
    RunStatus,
    SecondsPerEpoch,
    Slot,
    Status,
    Word,
    decode,
    encode,
    finite,
)
from dlmon.records import codec as records
from dlmon.records.sanitize import clean

WHOLE = st.integers(-LARGEST, LARGEST)
COUNT = st.integers(0, LARGEST)
REAL = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=8) | st.sampled_from(["\x1b[31mred", "a\tb", "\u202etxt", "two\nlines"])
FREE = st.recursive(
    st.none() | st.booleans() | WHOLE | REAL | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
RECORD_TYPES = typing.get_args(records.Record)


def built(cls):
    """Build a strategy for a record from its annotations."""
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{spec.name: of_hint(hints[spec.name]) for spec in fields(cls)})


def of_hint(hint):
    simple = {
        int: WHOLE,
        float: REAL,
        str: TEXT,
        bool: st.booleans(),
        type(None): st.none(),
        typing.Any: FREE,
    }
    if hint in simple:
        return simple[hint]
    if isinstance(hint, type) and issubclass(hint, Word):
        return st.sampled_from(list(hint))
    if is_dataclass(hint):
        return built(hint)
    options = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return st.one_of(*(of_hint(option) for option in options))
    if typing.get_origin(hint) is dict:
        return st.dictionaries(TEXT, of_hint(options[1]), max_size=3)
    return st.lists(of_hint(options[0]), max_size=3).map(tuple)


def batches_of(durations):
    return st.builds(
        Batches,
        epoch=WHOLE,
        first=COUNT,
        samples=COUNT
        | st.lists(COUNT, min_size=len(durations), max_size=len(durations)).map(tuple),
        t=WHOLE,
        dt_us=st.just(tuple(durations)),
    )


@functools.cache
def strategy_of(cls):
    if cls is Batches:
        return st.lists(COUNT, min_size=1, max_size=5).flatmap(batches_of)
    if cls is BatchSummary:
        return st.builds(
            BatchSummary,
            epoch=WHOLE,
            first=COUNT,
            count=st.integers(1, LARGEST),
            samples=COUNT,
            t=WHOLE,
            t_last=WHOLE,
            time_us=COUNT,
            step_us=st.lists(COUNT, min_size=7, max_size=7).map(tuple),
        )
    return built(cls)


ANY_RECORD = st.one_of(*(strategy_of(cls) for cls in RECORD_TYPES))


def cleaned(value):
    """Clean every text in a record, as decode promises to."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key, 200): cleaned(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(cleaned(item) for item in value)
    if is_dataclass(value):
        return replace(value, **{f.name: cleaned(getattr(value, f.name)) for f in fields(value)})
    return value


def texts_of(value):
    """Yield every text in a record, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from texts_of(item)
    elif is_dataclass(value):
        for spec in fields(value):
            yield from texts_of(getattr(value, spec.name))


def result_line(**changes):
    reported = json.loads(encode(result()))
    return json.dumps({**reported, **changes}, allow_nan=True)


def result(**changes):
    return replace(
        Result(
            status="completed",
            session="20261120-145600-cifar10-cnn-7f3a",
            log="session.jsonl",
            workload="cifar10-cnn",
            device="cpu",
            options={"batch_size": 100},
            wall_s=90.5,
        ),
        **changes,
    )


@pytest.mark.slow
@pytest.mark.parametrize("cls", RECORD_TYPES, ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_a_record_survives_the_round_trip(cls, data):
    record = data.draw(strategy_of(cls))
    assert decode(encode(record)) == cleaned(record)


@pytest.mark.parametrize("cls", RECORD_TYPES, ids=lambda cls: cls.__name__)
def test_the_round_trip_covers_a_record_with_nothing_optional(cls):
    required = {
        spec.name: None
        for spec in fields(cls)
        if spec.default is MISSING and spec.default_factory is MISSING
    }
    hints = typing.get_type_hints(cls)
    samples = {int: 1, float: 0.5, str: "text", bool: True, MachineFacts: MachineFacts()}
    samples |= {Slot: Slot(1, 2), Outcome: Outcome(RunStatus.COMPLETED)}
    samples |= {Status: Status.COMPLETED, AlertEvent: AlertEvent.NAN}
    for name in required:
        hint = hints[name]
        if typing.get_origin(hint) is dict:
            required[name] = {}
        elif typing.get_origin(hint) is tuple:
            required[name] = (1,) * 7 if typing.get_args(hint)[0] is int else ()
        elif type(None) not in typing.get_args(hint):
            required[name] = samples.get(hint, 1)
    record = cls(**required)
    line = json.loads(encode(record))
    assert decode(encode(record)) == record
    within = [vars(value) for value in required.values() if isinstance(value, (Slot, Outcome))]
    written = [name for fields in within for name in fields if fields[name] is not None]
    plain = [name for name in required if not isinstance(required[name], (Slot, Outcome))]
    assert set(line) == {"type", *plain, *written}


@given(ANY_RECORD)
def test_a_record_is_one_line_of_utf8_json_with_its_type_first(record):
    line = encode(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    line.decode("utf-8")
    reported = json.loads(line)
    assert next(iter(reported)) == "type"
    assert reported["type"] == record.TYPE


@given(ANY_RECORD)
def test_text_comes_out_clean(record):
    for text in texts_of(decode(encode(record))):
        assert text == clean(text)


def test_what_a_refusal_says_is_clean_too():
    line = (
        '{"type":"epoch","epoch":0,"begin":1,"train_end":2,"end":3,"whole":true,"samples":1,'
        '"metrics":{"\\u001b]0;title\\u0007loss\\ud800":"not a number"}}'
    )
    with pytest.raises(RecordError) as refusal:
        decode(line)
    assert str(refusal.value) == "epoch.metrics.loss: a number was expected"


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_a_record_error(line):
    with suppress(RecordError):
        decode(line)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.data(), ANY_RECORD, JSON)
def test_a_field_of_any_other_kind_is_taken_or_refused_but_never_crashes(data, record, value):
    reported = json.loads(encode(record))
    name = data.draw(st.sampled_from(sorted(reported)))
    reported[name] = value
    with suppress(RecordError):
        assert isinstance(decode(json.dumps(reported)), (*RECORD_TYPES, type(None)))


@given(ANY_RECORD, st.data())
def test_a_torn_line_is_refused(record, data):
    line = encode(record)
    cut = data.draw(st.integers(0, len(line) - 2))
    with pytest.raises(RecordError):
        decode(line[:cut])


@given(ANY_RECORD, st.data())
def test_a_missing_field_is_refused_or_takes_its_default(record, data):
    reported = json.loads(encode(record))
    name = data.draw(st.sampled_from([key for key in reported if key != "type"]))
    del reported[name]
    if type(record) is BatchSummary and name == "count":
        name = "dt_us"  # without its count it reads as plain batches
    specs = [*fields(type(record)), *(fields(Outcome) if type(record) is Ended else ())]
    spec = {spec.name: spec for spec in specs}.get(name)
    if spec and (spec.default is not MISSING or spec.default_factory is not MISSING):
        assert type(decode(json.dumps(reported))) is type(record)
    else:
        with pytest.raises(RecordError, match=f"{name} is missing"):
            decode(json.dumps(reported))


@given(ANY_RECORD, JSON)
def test_unknown_keys_are_skipped(record, value):
    reported = json.loads(encode(record))
    reported["a key of some later version"] = value
    if "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value):
        assert decode(json.dumps(reported)) == decode(encode(record))


def test_unknown_types_are_skipped():
    assert decode('{"type":"some later type","t":1}') is None
    assert decode('{"type":"","x":[{}]}') is None


@pytest.mark.parametrize("line", ["", "{}", "[]", "null", '"session"', '{"type":1}', '{"t":1}'])
def test_json_that_is_no_record_is_refused(line):
    with pytest.raises(RecordError):
        decode(line)


@pytest.mark.parametrize(
    "number",
    [
        *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9223372036854775808"),
        *("1" * 400, "1" * 5000, '"1"', "true", "[1]", "{}"),
    ],
)
def test_what_is_no_finite_number_is_refused(number):
    line = encode(result()).decode().replace('"wall_s":90.5', f'"wall_s":{number}')
    assert number in line
    with pytest.raises(RecordError):
        decode(line)
    line = encode(result()).decode().replace('"batch_size":100', f'"batch_size":{number}')
    assert number in line
    if number[0] not in '"t[{':  # a free value may be of any kind, but not without bounds
        with pytest.raises(RecordError):
            decode(line)


@pytest.mark.parametrize("number", [LARGEST + 1, -LARGEST - 1, 10**30, -(10**30)])
def test_whole_numbers_have_63_bits(number):
    assert decode(result_line(epochs=LARGEST, t=-LARGEST)).t == -LARGEST
    for field in ("epochs", "wall", "t"):
        with pytest.raises(RecordError):
            decode(result_line(**{field: number}))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_is_not_json_is_refused_even_where_nobody_reads_it(constant):
    for line in (f'{{"type":"later","x":{constant}}}', f'{{"type":"notice","x":{constant}}}'):
        with pytest.raises(RecordError, match="is not JSON"):
            decode(line)


NESTINGS = pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])


def nested_options(depth, left, right):
    line = encode(result()).decode()
    nested = f'"options":{{"a":{left * depth}1{right * depth}}}'
    assert '"options":{"batch_size":100}' in line
    return line.replace('"options":{"batch_size":100}', nested)


@NESTINGS
@pytest.mark.parametrize("depth", [5_000, 200_000])
def test_an_option_that_is_nested_too_deeply_is_refused(depth, left, right):
    with pytest.raises(RecordError):
        decode(nested_options(depth, left, right))


@NESTINGS
@pytest.mark.parametrize("depth", range(300, 1_000, 23))
def test_no_depth_passes_the_json_parser_and_then_crashes(depth, left, right):
    with suppress(RecordError):
        assert decode(nested_options(depth, left, right)).options["a"]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_never_written(number):
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(result(wall_s=number))
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(result(options={"price": [number]}))
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(Epoch(0, 1, 2, 3, True, 10, {"loss": number}))


def test_metrics_that_are_not_finite_become_null_with_a_reason():
    class Array:
        def __float__(self):
            raise RuntimeError("a tensor with 2 elements cannot be converted to a scalar")

    metrics, why = finite(
        {
            "loss": math.nan,
            "rate": -math.inf,
            "accuracy": 0.5,
            "steps": 7,
            "huge": 10**400,
            "name": "text",
            "none": None,
            "list": [1],
            "array": Array(),
        }
    )
    assert metrics == {
        "loss": None,
        "rate": None,
        "accuracy": 0.5,
        "steps": 7.0,
        "huge": None,
        "name": None,
        "none": None,
        "list": None,
        "array": None,
    }
    assert why == {
        "loss": "NaN",
        "rate": "infinite",
        "huge": "not a single number",
        "name": "not a single number",
        "none": "not a single number",
        "list": "not a single number",
        "array": "not a single number",
    }
    epoch = Epoch(0, 1, 2, 3, True, 10, metrics, why=why)
    assert decode(encode(epoch)) == epoch


def test_none_with_a_reason_is_null_and_none_without_one_is_absent():
    gpu = Gpu(index=0, power_w=None, why={"power_w": "not supported"})
    reported = json.loads(encode(Machine(t=1, wall=2.0, gpus=(gpu,), cpu=Cpu(pct=0.0))))
    assert reported == {
        "type": "machine",
        "t": 1,
        "wall": 2.0,
        "cpu": {"pct": 0.0},
        "gpus": [{"index": 0, "power_w": None, "why": {"power_w": "not supported"}}],
    }


def test_a_wrong_kind_names_the_field():
    with pytest.raises(RecordError, match=r"result\.seconds_per_epoch\.low is missing"):
        decode(result_line(seconds_per_epoch={"value": 9.0}))
    with pytest.raises(RecordError, match=r"result\.options: an object was expected"):
        decode(result_line(options=[]))
    with pytest.raises(RecordError, match=r"result\.status: a text was expected"):
        decode(result_line(status=None))
    timing = SecondsPerEpoch(9.0, 8.9, 9.1, 3, False)
    with pytest.raises(RecordError, match="true or false was expected"):
        decode(encode(result(seconds_per_epoch=replace(timing, projected=1))))


def test_a_whole_number_is_a_number_but_a_fraction_is_no_whole_number():
    assert decode(result_line(wall_s=90)).wall_s == 90
    with pytest.raises(RecordError):
        decode(result_line(epochs=1.5))
    with pytest.raises(RecordError):
        decode(result_line(epochs=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"dt_us": []},
        {"dt_us": [5, -1, 5]},
        {"dt_us": [5, None, 5]},
        {"dt_us": [5, 1.5, 5]},
        {"dt_us": [5, True, 5]},
        {"dt_us": [5, 2**63, 5]},
        {"dt_us": 5},
        {"first": -1},
        {"samples": [100, 100]},
        {"samples": [100, 100, -4]},
        {"samples": -100},
        {"wait_us": -1},
        {"samples": "100"},
    ],
)
def test_batches_that_contradict_themselves_are_refused(changes):
    good = json.loads(encode(Batches(epoch=0, first=0, samples=100, t=1, dt_us=(5, 6, 7))))
    with pytest.raises(RecordError):
        decode(json.dumps({**good, **changes}))


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 0},
        {"count": -3},
        {"first": -1},
        {"samples": -1},
        {"time_us": -1},
        {"step_us": []},
        {"step_us": [1, 2, 3]},
        {"step_us": [-1, 2, 3, 4, 5, 6, 7]},
    ],
)
def test_a_batch_summary_that_contradicts_itself_is_refused(changes):
    good = json.loads(encode(BatchSummary(0, 0, 10, 1000, 1, 2, 70, (1, 2, 3, 4, 5, 6, 7))))
    assert isinstance(decode(json.dumps(good)), BatchSummary)
    with pytest.raises(RecordError):
        decode(json.dumps({**good, **changes}))


@pytest.mark.parametrize(
    ("error", "exit_code", "kind"),
    [
        ("memory ran out with batch size 512 (MemoryError)", 1, FailureKind.OUT_OF_MEMORY),
        ("GPU memory ran out (batch size 100): it aborted", -6, FailureKind.OUT_OF_MEMORY),
        ("memory ran out and the kernel killed it", -9, FailureKind.OUT_OF_MEMORY),
        ("jax is not installed", 69, FailureKind.REFUSED),
        ("ValueError: no", 1, None),
        (None, 1, None),
    ],
)
def test_a_result_without_a_code_has_it_by_its_words(error, exit_code, kind):
    line = json.loads(encode(result_of(None, status="failed", error=error, exit_code=exit_code)))
    assert "failure" not in line
    assert decode(json.dumps(line)).failure == kind


def test_words_of_a_newer_version_are_unknown():
    line = json.loads(encode(result_of(None, status="failed")))
    reported = decode(json.dumps({**line, "status": "paused", "failure": "frozen"}))
    assert (reported.status, reported.failure) == ("unknown", "unknown")
