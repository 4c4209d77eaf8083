"""A thread that stands still before its first step: at one line for 30 s, and not computing."""

import selectors

import pytest

from dlmon.instrument.first_step import StillThread

S = 10**9
LOOP = ("/home/a/train.py", 16, "main")
SELECT = (selectors.__file__, 415, "select")
COMPILER = ("/venv/lib/python3.11/site-packages/torch/_inductor/async_compile.py", 9, "wait")


def reports(samples, still=None):
    """Return the reports of samples of a stack and its CPU time in seconds, one a second."""
    still, cpu_s, stacks = still or StillThread(), 0.0, []
    for second, (lines, took_s) in enumerate(samples):
        cpu_s += took_s
        stacks.append(still.take(list(lines), round(cpu_s * S), second * S))
    return [stack for stack in stacks if stack is not None]


WAITS = ((SELECT, LOOP), 0.0)


def test_a_thread_that_waits_at_one_line_is_reported_after_30_s_and_when_that_time_doubles():
    first, second = reports([WAITS] * 70)
    assert [(s.begin, s.t, s.goes_on) for s in (first, second)] == [
        (0, 30 * S, True),
        (0, 60 * S, True),
    ]
    (place,) = first.places
    assert (place.inner.line, place.script.file, place.looks) == (415, LOOP[0], first.looks)


def test_its_end_is_reported_once_it_goes_on():
    first, last = reports([*[WAITS] * 40, ((("/home/a/train.py", 17, "main"),), 0.0)])
    assert (first.goes_on, last.goes_on, last.begin, last.t) == (True, None, 0, 39 * S)


@pytest.mark.parametrize(
    "sample", [((SELECT, LOOP), 0.5), ((SELECT, COMPILER, LOOP), 0.0)], ids=["computes", "compiles"]
)
def test_a_thread_that_computes_or_waits_for_a_compiler_does_not_stand_still(sample):
    assert reports([sample] * 90) == []


def test_a_rank_reports_its_number():
    assert reports([WAITS] * 40, StillThread(rank=1))[0].trainer == 1
    assert reports([WAITS] * 40, StillThread(rank=0))[0].trainer is None
