"""What a run that failed shows: its traceback or last output, and the last readings."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.states import STATES

from dlmon.figures.session.failure import LAST_OUTPUT, TRACEBACK, failure_rows
from dlmon.records import FailureKind, Output, Result


def failed(state, failure, *output, **changes):
    """Return the heading and the rows of a state that ended with other output."""
    session = folded(STATES[state].records)
    snapshot = session.snapshot()
    result = replace(snapshot.result, failure=failure)
    if output:
        lines = tuple(Output(result.t, "stderr", text) for text in output)
        changes = {"output": lines, **changes}
    heading, rows = failure_rows(replace(snapshot, result=result, **changes), session.learning)
    return heading, [(row.kind, row.text) for row in rows]


def test_an_exception_has_its_traceback_and_the_last_loss():
    heading, rows = failed("failed-with-traceback", FailureKind.EXCEPTION)
    assert heading == TRACEBACK
    assert rows[-3:] == [
        ("source", "    raise MissingImage(name) from error"),
        ("error", "data.MissingImage: n02119789_[b]4[/].JPEG is in no archive"),
        ("joint", "At the end: loss 1.0514"),
    ]


@pytest.mark.parametrize("failure", [FailureKind.SIGNAL, FailureKind.UNKNOWN])
def test_a_process_that_is_not_python_has_its_last_output(failure):
    output = [f"line {number}" for number in range(300)]
    heading, rows = failed("failed-with-traceback", failure, *output)
    assert (heading, rows[0]) == (LAST_OUTPUT, ("message", "line 284"))
    assert rows[-2:] == [("message", "line 299"), ("joint", "At the end: loss 1.0514")]


def test_memory_is_named_if_it_ran_out():
    # The headline says what the GPU held.
    readings = "loss 1.0514, host memory 5.1 of 32.0 GiB, of it this run 1.9 GiB"
    for message in ("killed", "a much longer message " * 10):
        _, rows = failed("failed", FailureKind.OUT_OF_MEMORY, message)
        assert rows == [("message", message), ("joint", f"At the end: {readings}")]


@pytest.mark.parametrize("length", [1, 300])
def test_a_message_that_the_headline_shows_in_full_is_not_repeated(length):
    error = "memory ran out " * length
    snapshot = folded(STATES["failed"].records).snapshot()
    said = replace(snapshot.result, error=error, failure=FailureKind.OUT_OF_MEMORY)
    session = folded(STATES["failed"].records)
    output = (Output(0, "stderr", error.strip()),)
    snapshot = replace(snapshot, result=said, output=output)
    heading, rows = failure_rows(snapshot, session.learning)
    if length == 1:
        # The charts have the loss and the memory.
        assert (heading, rows) == ("", ())
        return
    assert heading == LAST_OUTPUT
    assert error.strip() in [row.text for row in rows]
    assert "host memory 5.1 of 32.0 GiB" in rows[-1].text


def test_the_loss_before_nan_is_named():
    session = folded(recorded_session("training", ended=2, nan_loss=True))
    snapshot = session.snapshot()
    result = replace(folded(STATES["failed"].records).snapshot().result, failure=None)
    output = (Output(0, "stderr", "loss is NaN"),)
    snapshot = replace(snapshot, result=result, output=output)
    *_, last = failure_rows(snapshot, session.learning)[1]
    assert last.text.startswith("At the end: loss NaN, ")
    assert last.text.endswith(" before")


def test_nothing_is_shown_without_output_or_without_a_failure():
    assert failed("failed-with-traceback", FailureKind.SIGNAL, "")[1] == []
    session = folded(recorded_session())
    assert isinstance(session.result, Result)
    assert failure_rows(session.snapshot(), session.learning) == ("", ())
