"""Traces of profilers are summed up: what took the time, counted once."""

import gzip
import json

import pytest

from dlmon.supervisor import trace
from dlmon.supervisor.trace import Event, TraceError, of_xspace, read, sum_up
from dlmon.system.children import answer_in


def ran(name, start, took, line=1, on_device=False):
    return Event((0, line), name, start, took, on_device)


def operations(summary):
    return {each["name"]: each for each in summary["operations"]}


def test_the_time_of_an_operation_is_without_that_of_those_within_it():
    summary = sum_up([ran("linear", 0, 100), ran("mm", 10, 60), ran("add", 75, 20)])
    found = operations(summary)
    assert {name: each["host_us"] for name, each in found.items()} == {
        "linear": 20, "mm": 60, "add": 20,
    }  # fmt: skip
    assert sum(each["share"] for each in found.values()) == pytest.approx(1)
    assert summary["operations"][0]["name"] == "mm"
    assert "idle" not in summary


def test_shares_are_of_the_device_where_there_is_one_and_it_is_idle_between():
    summary = sum_up(
        [
            ran("mm", 0, 100),
            ran("gemm", 20, 30, 7, on_device=True),
            ran("Memcpy HtoD", 40, 20, 8, on_device=True),
            ran("ncclAllReduce", 80, 50, 7, on_device=True),
        ]
    )
    assert operations(summary)["gemm"]["share"] == 0.3
    assert (summary["copying"], summary["communicating"]) == (0.2, 0.5)
    # Busy from 20 to 60 and 80 to 130, of 130.
    assert summary["idle"] == pytest.approx(40 / 130, abs=1e-3)


def chrome(tmp_path, *events):
    path = tmp_path / "profile-1.part.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": list(events)}).encode()))
    return path


OPERATION = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 9}


def test_a_trace_of_pytorch_stays_as_it_is_and_one_that_is_too_large_is_not_read(
    tmp_path, monkeypatch
):
    source, target = chrome(tmp_path, OPERATION, {"ph": "M"}), tmp_path / "profile-1.json.gz"
    assert operations(read(source, target))["aten::mm"]["calls"] == 1
    assert target.stat().st_mode & 0o777 == 0o600
    assert json.loads(gzip.decompress(target.read_bytes()))["traceEvents"][0] == OPERATION
    monkeypatch.setattr(trace, "MOST_TRACE_BYTES", 10)
    with pytest.raises(TraceError, match="profile fewer steps"):
        read(chrome(tmp_path, OPERATION), tmp_path / "target")


def field(number, value):
    """Return a field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def plane(title, line, *events):
    names = {name: number for number, (name, *_) in enumerate(events, 1)}
    described = b"".join(
        field(4, field(1, n) + field(2, field(1, n) + field(2, name))) for name, n in names.items()
    )
    ran_ = b"".join(
        field(4, field(1, names[name]) + field(2, start * 10**6) + field(3, took * 10**6))
        for name, start, took in events
    )
    return field(1, field(2, title) + described + field(3, field(2, line) + field(3, 5000) + ran_))


XSPACE = (
    plane("/host:CPU", "python", ("$train.py:3 step", 0, 500), ("PjitFunction", 10, 400))
    + plane("/device:GPU:0", "Stream #1", ("fusion", 100, 200))
    + plane("/device:GPU:0", "Steps", ("again", 100, 200))
    + plane("Task Environment", "", ("other", 0, 1))
)


def test_a_trace_of_jax_or_tensorflow_becomes_one_that_perfetto_opens(tmp_path):
    source, target = tmp_path / "profile-1.part.gz", tmp_path / "profile-1.json.gz"
    source.write_bytes(XSPACE)
    summary = read(source, target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert {name: (o["host_us"], o["device_us"]) for name, o in operations(summary).items()} == {
        "fusion": (0, 200),
        "PjitFunction": (400, 0),
    }
    events = json.loads(gzip.decompress(target.read_bytes()))["traceEvents"]
    assert [(e["ph"], e["name"], e["ts"], e["dur"]) for e in events] == [
        ("X", "PjitFunction", 15, 400),
        ("X", "fusion", 105, 200),
    ]


def test_one_that_is_cut_is_refused_or_read_as_far_as_it_goes():
    whole = len(list(of_xspace(memoryview(XSPACE))))
    refused = 0
    for end in range(len(XSPACE)):
        try:
            assert len(list(of_xspace(memoryview(XSPACE[:end])))) <= whole
        except TraceError:
            refused += 1
    assert refused > len(XSPACE) / 2


@pytest.mark.parametrize(
    ("text", "is_packed"),
    [
        ("", False),
        ("\x1f\x8bnothing", False),
        ("\xff" * 100, False),
        ("[" * 9999, True),
        ("{}", True),
        ('{"traceEvents": 3}', True),
        ('{"traceEvents": [3]}', True),
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op"}]}', True),
    ],
    ids=range(8),
)
def test_what_is_no_trace_is_one_sentence(text, is_packed, tmp_path, monkeypatch, capsys):
    source, target = tmp_path / "profile-1.part.gz", tmp_path / "profile-1.json.gz"
    content = text.encode("latin-1")
    source.write_bytes(gzip.compress(content) if is_packed else content)
    monkeypatch.setattr("sys.argv", ["trace", str(source), str(target)])
    monkeypatch.setattr(trace.resource, "setrlimit", lambda *limits: None)
    assert trace.main() == 0
    assert set(answer_in(capsys.readouterr().out.encode())) == {"error"}
    assert list(tmp_path.iterdir()) == []
