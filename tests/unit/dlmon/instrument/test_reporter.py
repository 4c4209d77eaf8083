import sys
from types import SimpleNamespace

import pytest
from fakes.listener import Listener
from fakes.loops import KeptReporter

from dlmon.instrument.reporter import Reporter, guarded
from dlmon.records import Model, Notice


@pytest.fixture
def listener():
    with Listener() as listening:
        yield listening


def test_the_first_that_takes_it_counts_until_it_lets_go():
    reporter = Reporter("/nowhere/socket")
    assert reporter.take("keras")
    assert reporter.take("keras")
    assert not reporter.may_take("torch")
    assert not reporter.take("torch")
    reporter.let_go("torch")
    assert not reporter.take("torch")
    reporter.let_go("keras")
    assert reporter.take("torch")


def test_what_holds_the_reporter_ends_when_another_asks():
    reporter = Reporter("/nowhere/socket")
    ended = []

    def end():
        ended.append("keras")
        reporter.let_go("keras")

    reporter.take("keras", end)
    assert reporter.take("torch")
    assert ended == ["keras"]
    # Nothing holds it now that it is taken in earnest.
    assert not reporter.take("keras")


def test_a_loop_is_described_again_without_becoming_another():
    reporter = KeptReporter()
    reporter.begin_loop(batch_size=32, epochs=2, why={"parameters": "not built yet"})
    reporter.describe_loop(parameters=19)
    first, second = reporter.queue
    assert isinstance(second, Model)
    assert (first.loop, second.loop) == (0, 0)
    assert (second.batch_size, second.epochs, second.parameters) == (32, 2, 19)
    assert "parameters" in first.why
    assert "parameters" not in second.why
    reporter.begin_loop()
    assert reporter.queue[-1].loop == 1


NOT_COUNTED = "a script's operations are not counted"
BY_TOKEN = "a script's operations are known by token"


@pytest.mark.parametrize(
    ("known", "why", "said"),
    [
        ({}, {}, NOT_COUNTED),
        ({"flops_per_token": 600}, {}, BY_TOKEN),
        ({}, {"flops_per_token": "several networks"}, "several networks"),
    ],
)
def test_operations_by_sample_are_unknown_for_the_reason_that_is_true(known, why, said):
    reporter = KeptReporter()
    reporter.begin_loop(why=why, **known)
    assert reporter.queue[-1].why["flops_per_sample"] == said
    reporter.describe_loop(flops_per_token=700)
    assert reporter.queue[-1].why == {"flops_per_sample": BY_TOKEN}
    reporter.describe_loop(flops_per_sample=9, flops_per_token=None)
    assert "flops_per_sample" not in reporter.queue[-1].why


@pytest.mark.parametrize(
    ("launcher", "is_initialized", "said"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4"}, True, (3, 4)),
        ({}, True, (1, 2)),
        ({}, False, (None, None)),
    ],
)
def test_a_rank_is_what_the_launcher_says_else_pytorch(
    listener, monkeypatch, launcher, is_initialized, said
):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: is_initialized,
        get_rank=lambda: 1,
        get_world_size=lambda: 2,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    reporter = Reporter(listener.path)
    reporter.start("torch", "2.13")
    reporter.close()
    [process] = listener.reported()
    assert (process.trainer.rank, process.trainer.world_size) == said


def test_an_error_in_a_hook_turns_it_off_and_the_log_says_why(listener):
    reporter = Reporter(listener.path)
    reporter.start("torch", "2.13")

    @guarded(reporter)
    def hook():
        raise ValueError("not this one")

    assert hook() is None
    assert not reporter.is_on
    [process] = listener.reported()
    [notice] = process.of(Notice)
    assert "ValueError: not this one" in notice.text
