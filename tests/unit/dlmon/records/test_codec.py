import json
import math
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from unittest import mock

import pytest
from fakes.strategies import RECORD_TYPES, of_type
from fakes.sweeps import result_of
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import (
    LARGEST,
    Batches,
    BatchSummary,
    Cpu,
    Ended,
    Epoch,
    FailureKind,
    Gpu,
    LoopResult,
    Machine,
    Outcome,
    RecordError,
    Requirement,
    Result,
    SecondsPerEpoch,
    Status,
    Throughput,
    codec,
    decode,
    encode,
    finite,
)
from dlmon.records.sanitize import clean
from dlmon.records.words import OpenWord

ANY_RECORD = st.one_of(*(of_type(cls) for cls in RECORD_TYPES))


def cleaned(value):
    """Clean every text in a record, and set each throughput's unit, as decode promises to."""
    if isinstance(value, Result | LoopResult):
        main_unit = "steps/s" if value.counts_steps else "samples/s"
        units = {"samples_per_second": main_unit, "tokens_per_second": "tokens/s"}
        rates = {name: getattr(value, name) for name in units}
        value = replace(
            value,
            **{n: replace(rate, unit=units[n]) for n, rate in rates.items() if rate is not None},
        )
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key, 200): cleaned(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(cleaned(item) for item in value)
    if is_dataclass(value):
        return replace(value, **{f.name: cleaned(getattr(value, f.name)) for f in fields(value)})
    return value


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
    record = data.draw(of_type(cls))
    assert decode(encode(record)) == cleaned(record)


@given(ANY_RECORD)
def test_a_record_is_one_line_of_utf8_json_with_its_type_first(record):
    line = encode(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    line.decode("utf-8")
    reported = json.loads(line)
    assert next(iter(reported)) == "type"
    assert reported["type"] == record.TYPE


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\tb", "\u202etxt", "two\nlines"])
def test_text_comes_out_clean_wherever_it_stands(text):
    record = result(error=text, options={text: [text, {text: text}]}, why={text: text})
    assert clean(text) != text
    assert decode(encode(record)) == cleaned(record)


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


def nested_options(depth, left, right):
    line = encode(result()).decode()
    nested = f'"options":{{"a":{left * depth}1{right * depth}}}'
    assert '"options":{"batch_size":100}' in line
    return line.replace('"options":{"batch_size":100}', nested)


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("depth", [*range(300, 1_000, 23), 5_000, 200_000])
def test_no_depth_passes_the_json_parser_and_then_crashes(depth, left, right):
    with suppress(RecordError):
        assert decode(nested_options(depth, left, right)).options["a"]
        assert depth < 5_000


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

    odd = {"huge": 10**400, "name": "text", "none": None, "list": [1], "array": Array()}
    given = {"loss": math.nan, "rate": -math.inf, "accuracy": 0.5, "steps": 7, **odd}
    metrics, why = finite(given)
    assert metrics == dict.fromkeys(given) | {"accuracy": 0.5, "steps": 7.0}
    assert why == {"loss": "NaN", "rate": "infinite", **dict.fromkeys(odd, "not a single number")}
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


BATCHES = Batches(epoch=0, first=0, samples=100, t=1, dt_us=(5, 6, 7))
SUMMARY = BatchSummary(0, 0, 10, 1000, 1, 2, 70, (1, 2, 3, 4, 5, 6, 7))


@pytest.mark.parametrize(
    ("good", "changes"),
    [
        *((BATCHES, {"dt_us": took}) for took in ([], [5, -1, 5], [5, None, 5], [5, 1.5, 5], 5)),
        *((BATCHES, {"dt_us": took}) for took in ([5, True, 5], [5, 2**63, 5])),
        *((BATCHES, {"samples": held}) for held in ([100, 100], [100, 100, -4], -100, "100")),
        *((BATCHES, {"tokens": held}) for held in ([30, 40], [30, 40, -1], -30)),
        *((BATCHES, {name: -1}) for name in ("first", "wait_us")),
        *((SUMMARY, {"count": count}) for count in (0, -3)),
        *((SUMMARY, {name: -1}) for name in ("first", "samples", "time_us")),
        *((SUMMARY, {"step_us": took}) for took in ([], [1, 2, 3], [-1, 2, 3, 4, 5, 6, 7])),
    ],
)
def test_batches_that_contradict_themselves_are_refused(good, changes):
    line = json.loads(encode(good))
    assert decode(json.dumps(line)) == good
    with pytest.raises(RecordError):
        decode(json.dumps({**line, **changes}))


numbers = st.integers(-1, 3) | st.sampled_from([2**63 - 1, 2**63, None, True, 1.0, "1"])
of_batches = st.lists(numbers, max_size=3) | numbers
BATCHES_FIELDS = [spec.name for spec in fields(Batches)]


@given(
    st.dictionaries(st.sampled_from([*BATCHES_FIELDS, "of_later_versions"]), of_batches),
    st.sets(st.sampled_from(BATCHES_FIELDS), max_size=1),
)
def test_batches_are_read_quickly_just_as_field_by_field(changes, left_out):
    line = {**json.loads(encode(BATCHES)), **changes}
    line = {name: value for name, value in line.items() if name not in left_out}
    with mock.patch.object(codec, "_plain_batches", return_value=None):
        try:
            expected = decode(json.dumps(line))
        except RecordError:
            expected = None
    try:
        found = decode(json.dumps(line))
    except RecordError:
        found = None
    assert found == expected


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


@pytest.mark.parametrize("words", list(OpenWord.__subclasses__()))
def test_a_word_of_a_newer_version_is_unknown(words):
    assert words("of 2030") is words.UNKNOWN
    assert words(words.UNKNOWN.value) is words.UNKNOWN


def test_a_result_with_such_words_is_read():
    words = {"status": "paused", "failure": "frozen", "lacking": {"step_ms": "of 2030"}}
    reported = decode(result_line(**words))
    assert (reported.status, reported.failure) == (Status.UNKNOWN, FailureKind.UNKNOWN)
    assert reported.lacking == {"step_ms": Requirement.UNKNOWN}


@pytest.mark.parametrize(("counts_steps", "unit"), [(True, "steps/s"), (None, "samples/s")])
def test_throughputs_of_logs_without_units_have_those_of_their_keys(counts_steps, unit):
    rate = Throughput(1.0, 1.0, None, 0.0)
    loop = LoopResult(samples_per_second=rate, counts_steps=counts_steps)
    result = replace(
        result_of(1.0),
        samples_per_second=rate,
        tokens_per_second=rate,
        counts_steps=counts_steps,
        loops=(loop,),
    )
    line = encode(result).replace(b',"unit":"samples/s"', b"")
    assert b"unit" not in line
    read = decode(line)
    assert read.tokens_per_second.unit == "tokens/s"
    assert {read.samples_per_second.unit, read.loops[0].samples_per_second.unit} == {unit}
