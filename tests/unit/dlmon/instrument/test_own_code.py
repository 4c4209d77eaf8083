import sys
import threading
import time

from dlmon.instrument.own_code import REPORT_NS, OwnCodeSampler


class Sleeper:
    """A thread that runs a function until the test ends."""

    def __init__(self, function):
        self._over = threading.Event()
        self._thread = threading.Thread(target=function, args=(self._over,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self._thread.ident

    def __exit__(self, *error):
        self._over.set()
        self._thread.join()


def rest(over):
    while not over.is_set():
        over.wait(0.01)


def line_of_rest():
    return rest.__code__.co_firstlineno + 2


def test_the_line_is_named_at_which_the_script_runs_its_own_code():
    sampler = OwnCodeSampler()
    with Sleeper(rest) as thread:
        wait_for("rest", thread)
        (report,) = sampler.take(thread, REPORT_NS)
    (place,) = report.places
    assert report.samples == place.looks == 1
    assert (place.script.file, place.script.function) == (__file__, "rest")
    assert place.script.line in (line_of_rest() - 1, line_of_rest())


def test_samples_are_reported_every_two_seconds_and_add_up():
    sampler = OwnCodeSampler()
    with Sleeper(rest) as thread:
        assert sampler.take(thread, REPORT_NS)
        late = [sampler.take(thread, REPORT_NS + n) for n in range(1, 5)]
        (report,) = sampler.take(thread, 2 * REPORT_NS)
    assert not any(late)
    assert report.samples == 5


def test_what_runs_within_a_measured_part_of_a_step_is_not_the_scripts_own_code():
    # As a module of PyTorch that calls the script's network.
    source = "def call(over, rest):\n    rest(over)\n"
    scope = {}
    exec(compile(source, "/venv/torch/nn/modules/module.py", "exec"), scope)
    sampler = OwnCodeSampler()
    with Sleeper(lambda over: scope["call"](over, rest)) as thread:
        wait_for("call", thread)
        (report,) = sampler.take(thread, REPORT_NS)
    # It counts among all samples, so that no other line seems to take its time.
    assert (report.samples, report.places) == (1, ())


def wait_for(function, thread):
    """Wait until a thread is within a function."""
    deadline = time.monotonic() + 20
    while function not in names_of(thread):
        assert time.monotonic() < deadline


def names_of(thread):
    frame, names = sys._current_frames().get(thread), []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names
