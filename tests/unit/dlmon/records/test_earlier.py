"""What dlmon 0.1.0 said in words only has the code that stands beside the words now."""

import json
from dataclasses import replace

import pytest
from fakes.sweeps import result_of

from dlmon.records import FailureKind, decode, encode


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


def test_a_code_wins_over_words():
    failed = result_of(None, status="failed", error="memory ran out", exit_code=1)
    reported = replace(failed, failure=FailureKind.EXCEPTION)
    assert decode(encode(reported)).failure == FailureKind.EXCEPTION


def test_words_of_a_newer_version_are_unknown():
    line = json.loads(encode(result_of(None, status="failed")))
    reported = decode(json.dumps({**line, "status": "paused", "failure": "frozen"}))
    assert (reported.status, reported.failure) == ("unknown", "unknown")
