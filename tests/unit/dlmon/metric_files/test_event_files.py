"""TensorBoard's event files, whole, growing, cut, damaged and in two parts."""

import math
import struct
from itertools import islice

import pytest

from dlmon.metric_files.event_files import read_event_files
from dlmon.metric_files.points import MOST_NAMES, RunPoints
from dlmon.trackers.client import field_of, masked_crc, varint_of


def record(event):
    length = struct.pack("<Q", len(event))
    return length + masked_crc(length) + event + masked_crc(event)


def event(step, *values, wall=1.7e9):
    summary = field_of(5, b"".join(field_of(1, value) for value in values))
    return record(b"\x09" + struct.pack("<d", wall) + b"\x10" + varint_of(step) + summary)


def simple(tag, value):
    return field_of(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag, value, form="<f", kind=1, content=4):
    """Write a number as TensorFlow 2 does, with a description behind it."""
    number = field_of(content, struct.pack(form, value))
    tensor = b"\x08" + bytes([kind]) + field_of(2, b"") + number
    description = field_of(9, field_of(1, field_of(1, b"scalars")))
    return field_of(1, tag.encode()) + field_of(8, tensor) + description


@pytest.fixture
def folder(tmp_path):
    def write(*contents):
        paths = [tmp_path / f"events.out.tfevents.{n}" for n in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        return paths

    return write


def read(paths, run=None):
    run = run or RunPoints("run")
    for share in read_event_files(paths, run):
        if share >= 1:
            break
    return run


def values(run, name="loss"):
    metric = run.metrics[name]
    return list(zip(metric.steps, metric.values, strict=True))


VERSION = record(b"\x09" + bytes(8) + field_of(3, b"brain.Event:2"))


@pytest.mark.parametrize("step", [0, 1, 127, 128, 16383, 16384, 2**21, 2**35])
def test_a_step_of_any_size_is_read_the_first_time_and_later(folder, step):
    content = VERSION + event(step, simple("loss", 2.0)) + event(step + 1, simple("loss", 1.0))
    assert values(read(folder(content))) == [(step, 2.0), (step + 1, 1.0)]


@pytest.mark.parametrize(
    "value",
    [
        lambda number: tensor("loss", number),
        lambda number: tensor("loss", number, content=5),
        lambda number: tensor("loss", number, "<d", 2),
        lambda number: tensor("loss", number, "<d", 2, 6),
        lambda number: simple("loss", number),
    ],
)
def test_each_form_of_a_scalar_is_read(folder, value):
    content = b"".join(event(step, value(step / 2)) for step in range(5))
    assert values(read(folder(content))) == [(step, step / 2) for step in range(5)]


def test_tags_that_take_turns_and_several_values_of_one_event(folder):
    content = event(1, simple("loss", 1.0), tensor("accuracy", 0.5))
    content += event(2, simple("loss", 0.5)) + event(2, simple("accuracy", 0.75))
    run = read(folder(content))
    assert values(run) == [(1, 1.0), (2, 0.5)]
    assert values(run, "accuracy") == [(1, 0.5), (2, 0.75)]
    assert list(run.metrics["loss"].walls) == [1.7e9, 1.7e9]


def test_a_file_that_is_still_written_is_read_on(folder):
    whole = event(1, simple("loss", 1.0)) + event(2, simple("loss", 0.5))
    [path] = folder(whole[:-5])
    run = RunPoints("run")
    shares = read_event_files([path], run)
    assert any(share >= 1 for share in islice(shares, 10))
    assert values(run) == [(1, 1.0)]
    with path.open("ab") as file:
        file.write(whole[-5:])
    list(islice(shares, 10))
    assert values(run) == [(1, 1.0), (2, 0.5)]
    assert run.problem is None


def test_pictures_are_skipped_and_what_is_damaged_ends_the_file(folder):
    picture = record(b"\x09" + bytes(8) + field_of(5, bytes(3 << 20)))
    content = event(1, simple("loss", 1.0)) + picture + event(2, simple("loss", 0.5))
    assert values(read(folder(content))) == [(1, 1.0), (2, 0.5)]
    damaged = event(1, simple("loss", 1.0)) + b"\xff" * 100 + event(2, simple("loss", 0.5))
    run = read(folder(damaged))
    assert values(run) == [(1, 1.0)]
    assert "is damaged from byte" in run.problem


def test_a_run_may_have_several_files(folder):
    paths = folder(event(1, simple("loss", 1.0)), event(2, simple("loss", 0.5)))
    assert values(read(paths)) == [(1, 1.0), (2, 0.5)]


def test_what_is_no_number_stays_so_and_hostile_names_are_cleaned_and_capped(folder):
    content = event(1, simple("loss", math.nan)) + event(2, simple("loss", -math.inf))
    content += event(3, simple("a\x1b[31m\nb", 1.0)) + event(3, simple("x" * 60_000, 1.0))
    content += b"".join(event(4, simple(f"name {n}", 1.0)) for n in range(2 * MOST_NAMES))
    run = read(folder(content))
    assert math.isnan(run.metrics["loss"].values[0])
    assert run.metrics["loss"].values[1] == -math.inf
    assert not any("\x1b" in name or "\n" in name for name in run.metrics)
    assert max(map(len, run.metrics)) <= 200
    assert (len(run.metrics), run.names_left_out) == (MOST_NAMES, MOST_NAMES + 3)


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_are_read_without_an_error(folder, seed):
    import random

    random.seed(seed)
    content = bytearray(b"".join(event(s, tensor("loss", s), simple("a", s)) for s in range(50)))
    for _ in range(40):
        content[random.randrange(len(content))] = random.randrange(256)
    read(folder(bytes(content)))
