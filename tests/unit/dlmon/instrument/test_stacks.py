"""Looks at the threads of a process: where they are, and how often that is seen in a pause."""

import sys
import threading
import time

import pytest

from dlmon.instrument.stacks import (
    MOST_SHORT_REPORTS,
    PauseSampler,
    is_of_script,
    lines_of,
    stacks_of_threads,
)

MS = 1_000_000
S = 1000 * MS


class Training:
    """Looks at this very thread, on a clock that the test sets."""

    def __init__(self, step_us=10_000):
        self.sampler = PauseSampler()
        self.sampler.thread = threading.get_ident()
        self.step_us, self.reports = step_us, []

    def run(self, since, until, *, quiet_since=None):
        """Look as the side thread does from a moment to another; no batch comes meanwhile."""
        now = since
        while now < until:
            stack = self.sampler.take(
                since if quiet_since is None else quiet_since, self.steps, now
            )
            if stack is not None:
                self.reports.append(stack)
            now += int((self.sampler.wait_s or 0.25) * 1e9)
        return self.reports

    def steps(self):
        return [self.step_us] * 9

    def end(self, t):
        return self.sampler.take(t, self.steps, t + 10 * MS)


@pytest.mark.parametrize(
    ("file", "is_script"),
    [
        ("/home/ada/train.py", True),
        ("<stdin>", True),
        ("/tmp/ipykernel_1/123.py", True),
        ("/usr/lib/python3/dist-packages/yaml.py", False),
        ("/opt/venv/lib/python3.11/site-packages/torch/serialization.py", False),
        (threading.__file__, False),
        (sys.modules["dlmon.instrument.stacks"].__file__, False),
        ("<frozen importlib._bootstrap>", False),
        ("<eval_with_key>.0", False),
        ("/tmp/torchinductor_ada/zz/czz.py", False),
        ("/tmp/__autograph_generated_fileab.py", False),
    ],
)
def test_a_file_is_the_persons_own_or_it_is_not(file, is_script):
    assert is_of_script(file) is is_script


def test_the_line_of_the_script_and_the_innermost_of_all_are_told_apart():
    started, done = threading.Event(), threading.Event()

    def wait_for_a_lock():
        started.set()
        done.wait()

    thread = threading.Thread(target=wait_for_a_lock)
    thread.start()
    try:
        started.wait()
        while (inner := lines_of(sys._current_frames()[thread.ident])[0])[2] != "wait":
            time.sleep(0.001)
        _, script = lines_of(sys._current_frames()[thread.ident])
    finally:
        done.set()
        thread.join()
    assert inner[0] == threading.__file__
    assert (script[0], script[2]) == (__file__, "wait_for_a_lock")


def test_a_pause_is_reported_as_it_ends_with_the_line_that_was_seen_most():
    training = Training()
    training.run(0, int(2.8 * S))
    stack = training.end(int(2.8 * S))
    assert (stack.begin, stack.t, stack.goes_on) == (0, int(2.8 * S), None)
    assert 40 <= stack.looks <= stack.due <= 50
    [place] = stack.places
    assert (place.looks, place.script.function) == (stack.looks, "run")
    assert place.script == place.inner
    assert training.sampler.wait_s is None


def test_a_pause_that_goes_on_is_reported_ever_more_seldom_and_a_validation_ends_it():
    training = Training()
    reports = training.run(0, 300 * S)
    assert all(stack.goes_on for stack in reports)
    ages_s = [round(stack.t / 1e9) for stack in reports]
    assert ages_s[:6] == [1, 2, 4, 8, 16, 32]
    assert len(ages_s) <= 12
    assert training.sampler.take(None, training.steps, 300 * S).goes_on is None
    assert training.sampler.take(None, training.steps, 390 * S) is None


def test_a_pause_goes_on_after_an_epoch_that_is_only_later_known_to_have_ended():
    training = Training()
    training.run(0, 3 * S)
    # The end of the epoch is that of its last step.
    epoch_end = 2 * MS
    assert training.sampler.take(epoch_end, training.steps, 3 * S + 10 * MS) is None
    *_, newest = training.run(3 * S, 5 * S, quiet_since=epoch_end)
    assert (newest.begin, newest.goes_on) == (epoch_end, True)
    stack = training.end(5 * S)
    assert (stack.begin, stack.t) == (epoch_end, 5 * S)
    assert stack.looks > 80


def test_looks_that_did_not_come_are_counted():
    training = Training()
    training.run(0, 1 * S)
    # Something held the lock of Python for nine seconds.
    training.run(10 * S, 11 * S, quiet_since=0)
    stack = training.end(11 * S)
    assert stack.looks < 35
    assert stack.due > 190


def test_a_loop_that_pauses_all_the_time_does_not_fill_the_log():
    training = Training()
    ended = []
    for number in range(MOST_SHORT_REPORTS + 10):
        training.run(number * S, number * S + 600 * MS)
        ended.append(training.end(number * S + 700 * MS))
    assert sum(stack is not None for stack in ended) == MOST_SHORT_REPORTS


def test_every_thread_is_shown_with_the_one_that_trains_first():
    started, done = threading.Event(), threading.Event()

    def compute():
        started.set()
        done.wait()

    thread = threading.Thread(target=compute, name="trainer")
    thread.start()
    try:
        started.wait()
        stacks = stacks_of_threads(thread.ident, own_thread=0)
    finally:
        done.set()
        thread.join()
    assert (stacks[0].name, stacks[0].trains) == ("trainer", True)
    assert stacks[0].script.function == "compute"
    main = next(stack for stack in stacks if stack.name == "MainThread")
    assert main.trains is None
    # This function is the script's; what asks is ours, and is left out.
    assert main.frames[0].function == "test_every_thread_is_shown_with_the_one_that_trains_first"
