"""A word that only a newer version knows costs a reader no record."""

from __future__ import annotations

import json

import pytest

from dlmon.records import Result, decode
from dlmon.records.words import (
    AccountPart,
    Doubt,
    FailureKind,
    GpuState,
    Requirement,
    RunStatus,
    Status,
    StopCause,
)

WORDS = [
    Status,
    FailureKind,
    GpuState,
    Requirement,
    AccountPart,
    Doubt,
    RunStatus,
    StopCause,
]

RESULT = {
    "type": "result",
    "status": "completed",
    "session": "20261120-145600-cifar10-cnn-7f3a",
    "log": "session.jsonl",
    "workload": "cifar10-cnn",
    "device": "cpu",
    "options": {},
    "wall_s": 1.0,
}


@pytest.mark.parametrize("words", WORDS)
def test_a_word_of_a_newer_version_is_unknown(words):
    assert words("of 2030") is words.UNKNOWN
    assert words(words.UNKNOWN.value) is words.UNKNOWN


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("status", "of 2030", Status.UNKNOWN),
        ("failure", "of 2030", FailureKind.UNKNOWN),
        ("lacking", {"seconds_per_epoch": "of 2030"}, {"seconds_per_epoch": Requirement.UNKNOWN}),
    ],
)
def test_a_result_with_such_a_word_is_read(key, value, read):
    result = decode(json.dumps(RESULT | {key: value}))
    assert isinstance(result, Result)
    assert getattr(result, key) == read
