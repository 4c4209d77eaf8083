"""A sample's tables by column and by row again."""

from __future__ import annotations

import json
import zlib

import pytest
from fakes.recorded import recorded_session
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Gpu, GpuState, Machine, Process, decode, encode
from dlmon.records.codec import to_json
from dlmon.remote.columns import in_columns, in_rows

VALUE = st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
ROW = st.dictionaries(st.sampled_from("abcd"), VALUE, min_size=1)
TABLE = st.lists(ROW, max_size=5)
FIELDS = st.fixed_dictionaries(
    {"t": st.integers()}, optional={"gpus": TABLE, "processes": TABLE, "cores": TABLE}
)
SAMPLE = Machine(
    t=1,
    wall=2.0,
    gpus=(
        Gpu(0, utilization_pct=0, throttle=("power limit", "heat")),
        Gpu(1, power_w=7.25, throttle=(), why={"utilization_pct": "it is divided (MIG)"}),
    ),
    processes=(Process(7, user="ann", command="python train.py", gpus=(0, 1)), Process(8)),
)


@given(FIELDS)
def test_what_is_sent_by_column_comes_back_as_it_was(fields):
    assert in_rows(json.loads(json.dumps(in_columns(fields)))) == fields


@pytest.mark.parametrize(
    "sample",
    [
        SAMPLE,
        Machine(t=1, wall=2.0, gpus=(), processes=()),
        Machine(t=1, wall=2.0),
        Machine(t=1, wall=2.0, gpus_state=GpuState.NO_DRIVER, why={"gpus": "no driver"}),
    ],
)
def test_a_sample_keeps_all_that_it_says_and_why_the_rest_is_unknown(sample):
    sent = json.dumps(in_columns({"type": sample.TYPE, **to_json(sample)}))
    assert decode(json.dumps(in_rows(json.loads(sent)))) == sample


def test_columns_are_shorter_than_rows_when_they_are_compressed():
    samples = [record for record in recorded_session(gpus=8) if isinstance(record, Machine)]
    rows = [json.loads(encode(sample)) for sample in samples if sample.gpus]

    def compressed(each):
        return len(zlib.compress("".join(map(json.dumps, each)).encode()))

    assert compressed([in_columns(fields) for fields in rows]) < compressed(rows)


@pytest.mark.parametrize(
    "fields",
    [
        None,
        7,
        [],
        {"gpus": []},
        {"gpus": "index"},
        {"gpus": {"index": 0}},
        {"processes": {"pid": [1], "rss_mib": [1, 2]}},
        {"gpus": {"index": [0], "power_w": []}},
    ],
)
def test_what_holds_no_columns_is_refused(fields):
    with pytest.raises(ValueError, match=r"no object|no columns|no rows|zip"):
        in_rows(fields)
