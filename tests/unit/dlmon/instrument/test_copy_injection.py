"""Copies from pinned memory to a GPU don't wait, and all others are the script's own."""

import json
from types import SimpleNamespace

import pytest
from fakes.loops import KeptReporter

from dlmon.instrument.copy_injection import NOTHING_PINNED, into_copies
from dlmon.instrument.injections import VARIABLE, injections_of
from dlmon.records import Injection


class Tensor:
    """A tensor that notes what its copies are asked for."""

    def __init__(self, device="cpu", pinned=False, said=None):
        self.device, self.pinned, self.said = device, pinned, said

    @property
    def is_cpu(self):
        return self.device == "cpu"

    @property
    def is_cuda(self):
        return self.device == "cuda"

    def is_pinned(self):
        return self.pinned

    def to(self, device, *arguments, **named):
        if device == "nowhere":
            raise ValueError("no such device")
        return Tensor(device, said=(arguments, named))

    def cuda(self, **named):
        return Tensor("cuda", said=((), named))


@pytest.fixture
def copies(monkeypatch):
    """Return the kind of tensors with the hook, and a function that returns what was reported."""
    monkeypatch.setenv(VARIABLE, json.dumps({"non_blocking": "on"}))
    reporter, kind = KeptReporter(), type("Copy", (Tensor,), {"to": Tensor.to, "cuda": Tensor.cuda})
    into_copies(SimpleNamespace(Tensor=kind), injections_of(reporter))

    def reported():
        reporter.begin_loop()
        last = [record for record in reporter.queue if isinstance(record, Injection)][-1]
        return last.applied, last.times, last.reason

    return kind, reported


def test_a_copy_from_pinned_memory_to_a_gpu_does_not_wait(copies):
    kind, reported = copies
    batch = kind(pinned=True)
    assert batch.to("cuda").said == ((), {"non_blocking": True})
    assert batch.cuda().said == ((), {"non_blocking": True})
    assert reported() == (True, 2, None)


def test_other_copies_are_those_of_the_script(copies):
    kind, reported = copies
    assert kind().to("cuda").said == ((), {})
    # The CPU would read what has yet to come.
    assert kind("cuda").to("cpu").said == ((), {})
    pinned = kind(pinned=True)
    assert pinned.to("cuda", non_blocking=False).said == ((), {"non_blocking": False})
    assert pinned.to("cuda", "float32", False).said == (("float32", False), {})
    assert reported() == (False, 0, NOTHING_PINNED)
    pinned.to("cpu")
    assert reported() == (False, 0, NOTHING_PINNED)


def test_an_error_of_the_scripts_own_is_its_own(copies):
    kind, _ = copies
    with pytest.raises(ValueError, match="no such device"):
        kind(pinned=True).to("nowhere")
