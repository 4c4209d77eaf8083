"""Profiles of some steps: begun and ended where training queues its batches."""

import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlmon.instrument import profiles
from dlmon.instrument.profiles import WAIT_NS, Profiles
from dlmon.instrument.queued import Interruption, ProfiledSteps
from dlmon.instrument.requests import RefusedRequest
from dlmon.records import Profile

S = 10**9


class FakeTorch:
    """PyTorch's profiler as far as it is used: it says what is called, and fails where it is to."""

    def __init__(self):
        self.calls, self.fails = [], set()
        self.profiler = SimpleNamespace(profile=lambda **named: self)
        self.cuda = SimpleNamespace(
            is_initialized=lambda: True, synchronize=lambda: self._called("wait")
        )

    def _called(self, name):
        self.calls.append(name)
        if name in self.fails:
            raise RuntimeError(f"{name} failed")

    def start(self):
        self._called("start")

    def stop(self):
        self._called("stop")

    def export_chrome_trace(self, path):
        self._called("export")
        Path(path).touch()


class Training:
    """A loop that queues its batches as training does."""

    def __init__(self, monkeypatch, tmp_path):
        for name in profiles.PROFILERS:
            monkeypatch.delitem(sys.modules, name, raising=False)
        self.torch = FakeTorch()
        monkeypatch.setitem(sys.modules, "torch", self.torch)
        self.queued, self.sent = [], []
        self.batch_ended = self.first = self.queued.append
        self.path = tmp_path / "profile-1.part.gz"
        self.paused_since = None
        self.profiles = Profiles(self.sent.append, lambda: self, self.pause_ns)

    def pause_ns(self, now):
        return 0 if self.paused_since is None else now - self.paused_since

    def ask(self, steps=2, number=7):
        self.profiles.begin(number, {"steps": steps, "path": str(self.path)})

    def step(self, count):
        for _ in range(count):
            self.batch_ended(0)
        for thread in threading.enumerate():
            if thread.name == "dlmon-trace":
                thread.join()

    @property
    def made(self):
        return [item for item in self.sent if isinstance(item, Profile)]


@pytest.fixture
def training(monkeypatch, tmp_path):
    return Training(monkeypatch, tmp_path)


def test_the_next_steps_are_profiled_and_nothing_stays_of_it(training):
    training.ask(steps=2)
    assert training.torch.calls == []
    training.step(1)
    # What was queued before is none of these steps.
    assert training.torch.calls == ["wait", "start"]
    training.step(2)
    assert training.torch.calls == ["wait", "start", "wait", "stop", "export"]
    assert training.batch_ended is training.first
    assert len(training.queued) == 3
    on, off, stopping, made = training.sent
    assert (on, off) == (ProfiledSteps(True), ProfiledSteps(False))
    # What it takes to stop is no part of a step.
    assert isinstance(stopping, Interruption)
    assert (made.request, made.steps, made.profiler, made.why) == (7, 2, "torch", {})
    assert training.path.exists()


@pytest.mark.parametrize(("has_gpu", "calls"), [(True, []), (False, ["start"])])
def test_beside_the_training_no_profiler_of_a_gpu_is_started(training, has_gpu, calls):
    training.torch.cuda.is_initialized = lambda: has_gpu
    training.ask(steps=2)
    thread = threading.Thread(target=training.batch_ended, args=(0,))
    thread.start()
    thread.join()
    assert training.torch.calls == calls
    if has_gpu:
        [made] = training.made
        assert (made.why, made.begin) == ({"file": profiles.BESIDE_A_GPU}, None)
        assert training.batch_ended is training.first


@pytest.mark.parametrize("name", ["start", "stop", "export"])
def test_a_profiler_that_fails_ends_the_profile_alone(training, name):
    training.torch.fails = {name}
    training.ask(steps=1)
    training.step(5)
    assert len(training.queued) == 5
    assert training.batch_ended is training.first
    [made] = training.made
    assert f"RuntimeError: {name} failed" in made.why["file"]
    assert not training.path.exists()
    marks = [item.on for item in training.sent if isinstance(item, ProfiledSteps)]
    assert marks[-1:] in ([], [False]), "steps stay marked for ever"
    training.torch.fails = set()
    training.ask(steps=1)


def test_a_second_one_meanwhile_is_refused(training):
    training.ask()
    training.step(1)
    with pytest.raises(RefusedRequest, match="being made already"):
        training.ask()


@pytest.mark.parametrize("steps", [0, -1, 10**9, "5", None, True, 1.5])
def test_a_number_of_steps_that_makes_no_sense_is_refused_and_so_is_it_without_a_profiler(
    training, monkeypatch, steps
):
    with pytest.raises(RefusedRequest, match="1 to 1,000 steps"):
        training.ask(steps=steps)
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(RefusedRequest, match="none of PyTorch, JAX and TensorFlow"):
        training.ask()
    assert training.batch_ended is training.first


def test_a_script_that_never_steps_again_is_told_after_a_while(training):
    training.ask()
    began = training.profiles._profile._last
    training.profiles.tick(began + WAIT_NS - 1)
    assert training.made == []
    training.profiles.tick(began + WAIT_NS)
    assert training.made[0].why == {"file": "no step has come for 120 s: ask again once steps come"}
    assert training.made[0].begin is None
    assert training.batch_ended is training.first


def test_in_a_pause_it_is_told_within_two_seconds(training):
    training.ask()
    began = training.profiles._profile._last
    training.paused_since = began - 60 * S
    training.profiles.tick(began + S)
    assert training.made == []
    training.profiles.tick(began + 2 * S)
    [told] = training.made
    assert told.why == {"file": "no step has come for 62 s: ask again once steps come"}
    # A short one, such as to save a checkpoint, changes nothing.
    training.ask()
    training.profiles.tick(training.profiles._profile._last + S)
    training.paused_since = None
    training.profiles.tick(training.profiles._profile._last + 2 * S)
    training.step(3)
    assert [each.steps for each in training.made] == [0, 2]


def test_one_that_stops_stepping_in_the_middle_ends_with_the_steps_it_has(training):
    training.ask(steps=5)
    training.step(3)
    training.profiles.tick(training.profiles._profile._last + WAIT_NS)
    training.step(0)
    assert [(made.steps, made.why) for made in training.made] == [(2, {})]


def test_a_reporter_that_was_turned_off_meanwhile_stays_off(training):
    training.ask(steps=1)
    training.step(1)
    ended, training.batch_ended = training.batch_ended, print
    ended(0)
    assert training.batch_ended is print
