"""Training that goes on beyond its epochs until it was steady for so long (`--seconds`)."""

from __future__ import annotations

import pytest
from fakes.sessions import Session

from dlmon.records import Epoch, Evaluation, Model, Output

SMALL = "mnist-mlp-small"
# Batches of 2 ms: without more epochs, none of this would ever be steady.
OPTIONS = {
    "batch_size": 64,
    "epochs": 2,
    "steps": 20,
    "data": "synthetic",
    "interval": 1.0,
}


@pytest.fixture
def start_job(launch_workload):
    """Return a function that starts a session of a real workload with options of the child's."""
    return lambda **options: Session(launch_workload(SMALL, {**OPTIONS, **options}))


def test_epochs_follow_until_throughput_has_a_figure_and_a_band(start_job):
    session = start_job(seconds=2.5)
    result = session.wait_for_end()
    assert (result.status, result.error) == ("completed", None)
    assert result.samples_per_second.standard_error is not None
    epochs = session.records(Epoch)
    assert result.epochs == len(epochs) > 2
    assert {epoch.steps for epoch in epochs} == {20}
    assert not any(epoch.whole for epoch in epochs)
    first, *later = session.records(Model)
    assert (first.epochs, first.extra_epochs) == (2, None)
    # How many there were is the last word on it.
    assert later[-1].epochs_in_all == len(epochs)
    assert later[-1].epochs == 2
    # Not a word of the most that there could have been, and no line for each.
    said = "\n".join(output.text for output in session.records(Output))
    assert said.count("20/20") == 3
    assert "Epoch 2/2" in said
    assert len(session.records(Evaluation)) == 1


def test_a_stop_ends_it_beyond_the_epochs_that_were_asked_for(start_job):
    session = start_job(mode="inference", seconds=3600.0)
    session.wait_for(Epoch, lambda epoch: epoch.epoch >= 4)
    session.say("stop")
    result = session.wait_for_end()
    assert (result.status, result.exit_code, result.error) == ("stopped", 75, None)
    assert {epoch.steps for epoch in session.records(Epoch)[:4]} == {20}
    assert session.records(Evaluation) == []
    said = "\n".join(output.text for output in session.records(Output))
    assert (said.count("20/20"), "Epoch 2/2" in said) == (2, False)
