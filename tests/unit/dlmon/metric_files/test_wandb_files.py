"""W&B's runs on disk: records over several blocks, cut, and still written."""

import json
import math
import struct
from itertools import islice

import pytest

from dlmon.metric_files.points import RunPoints
from dlmon.metric_files.wandb_files import read_wandb
from dlmon.trackers.client import field_of, varint_of

BLOCK = 32_768


def row(values, number=2):
    items = (
        field_of(1, field_of(2, name.encode()) + field_of(16, json.dumps(value).encode()))
        for name, value in values.items()
    )
    return field_of(number, b"".join(items))


def log(*records):
    """Write records as LevelDB does, behind the head of the file."""
    data = bytearray(b":W&B\xe1\xbe\x00")
    for content in records:
        is_first = True
        while is_first or content:
            left = BLOCK - len(data) % BLOCK
            if left < 7:
                data += bytes(left)
                continue
            part, content = content[: left - 7], content[left - 7 :]
            kind = (1 if not content else 2) if is_first else (4 if not content else 3)
            data += struct.pack("<IHB", 0, len(part), kind) + part
            is_first = False
    return bytes(data)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run-abc.wandb"


def read(path):
    run = RunPoints("run")
    for share in read_wandb(path, run):
        if share >= 1:
            return run
    return run


def test_history_over_many_blocks_with_its_steps_and_times(path):
    rows = [row({"_step": n, "_timestamp": 1.7e9 + n, "loss": 1 / (n + 1)}) for n in range(3000)]
    big = row({"_step": 3000, "loss": 0.0, "text": "x" * 100_000})
    path.write_bytes(log(*rows, big))
    loss = read(path).metrics["loss"]
    assert list(loss.steps) == list(range(3001))
    assert loss.values[1] == 0.5
    assert loss.walls[10] == 1.7e9 + 10


def test_the_script_own_steps_count_where_it_logs_them(path):
    path.write_bytes(log(row({"_step": 0, "trainer/global_step": 50, "train/loss": "NaN"})))
    metric = read(path).metrics["train/loss"]
    assert list(metric.steps) == [50]
    assert math.isnan(metric.values[0])


def test_the_name_of_the_run_and_readings_of_the_machine(path):
    stamp = field_of(2, b"\x08" + varint_of(1_700_000_000))
    item = field_of(3, field_of(1, b"gpu.0.temp") + field_of(16, b"61.5"))
    run = field_of(17, field_of(1, b"abc") + field_of(8, b"brave-sun-3"))
    path.write_bytes(log(run, field_of(7, stamp + item)))
    read_run = read(path)
    assert read_run.name == "brave-sun-3"
    reading = read_run.metrics["system/gpu.0.temp"]
    assert (list(reading.values), list(reading.walls)) == ([61.5], [1.7e9])


def test_a_file_that_is_still_written_is_read_on(path):
    whole = log(row({"_step": 1, "loss": 2.0}), row({"_step": 2, "loss": 1.0}))
    path.write_bytes(whole[:-3])
    run = RunPoints("run")
    shares = read_wandb(path, run)
    list(islice(shares, 3))
    assert list(run.metrics["loss"].values) == [2.0]
    path.write_bytes(whole)
    list(islice(shares, 3))
    assert list(run.metrics["loss"].values) == [2.0, 1.0]


def test_any_bytes_are_read_without_an_error(path):
    import random

    random.seed(1)
    content = bytearray(log(*(row({"_step": n, "loss": 1.0}) for n in range(3000))))
    for _ in range(300):
        content[random.randrange(7, len(content))] = random.randrange(256)
    path.write_bytes(bytes(content))
    read(path)
