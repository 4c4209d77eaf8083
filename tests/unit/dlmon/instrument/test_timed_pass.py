"""Which openings of epochs are said to be TensorFlow's, and how long threads wait to run."""

import subprocess
import sys
from pathlib import Path

import pytest

from dlmon.instrument import timed_pass
from dlmon.instrument.timed_pass import PipelineTeardowns, run_delay_ns

MS = 1_000_000
TAKEN_DOWN = "TensorFlow takes down the last epoch's input pipeline"
# Two processes on one processor: each waits for about half the time.
CROWDED = """
import os, sys, time
from dlmon.instrument.timed_pass import run_delay_ns
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
rival = os.fork()
if rival == 0:
    while True:
        pass
begin, waited = time.monotonic_ns(), run_delay_ns()
while run_delay_ns() - waited < 100_000_000 and time.monotonic_ns() - begin < 60_000_000_000:
    pass
os.kill(rival, 9)
print(run_delay_ns() - waited >= 100_000_000)
"""


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(),
    reason="this kernel does not count how long a thread waits",
)
def test_a_process_that_shares_its_processor_waits_for_it():
    answer = subprocess.run(
        [sys.executable, "-c", CROWDED], capture_output=True, text=True, check=False
    )
    assert answer.stdout == "True\n", answer.stderr


def test_where_the_kernel_does_not_count_it_is_zero(monkeypatch, tmp_path):
    monkeypatch.setattr(timed_pass, "_TASKS", str(tmp_path))
    (tmp_path / "1").mkdir()
    assert run_delay_ns() == 0
    (tmp_path / "1" / "schedstat").write_text("nothing\n")
    assert run_delay_ns() == 0
    monkeypatch.setattr(timed_pass, "_TASKS", str(tmp_path / "no such"))
    assert run_delay_ns() == 0


class Openings:
    """Openings of epochs, each with a time and what the process did meanwhile."""

    def __init__(self):
        self.cpu = self.waited = self.number = 0
        clocks = (lambda: self.cpu, "epoch", "epochs", lambda: self.waited)
        self.found = PipelineTeardowns(*clocks)

    def open(self, wall_ms, cpu_ms=10, waited_ms=100):
        self.number += 1
        self.found.mark_start()
        self.cpu += cpu_ms * MS
        self.waited += waited_ms * MS
        return self.found.explain(str(self.number), wall_ms * MS)


def test_the_cause_of_a_short_pause_is_named_once_and_then_counted():
    openings = Openings()
    assert openings.open(900) == f"0.9 s at the start of epoch 1: {TAKEN_DOWN}"
    assert [openings.open(ms) for ms in (0, 900, 900)] == [""] * 3
    assert openings.found.summary() == (
        "2.7 s in all at the start of 3 epochs: "
        "TensorFlow took down the input pipelines of the epochs before"
    )


def test_a_few_long_pauses_are_named_and_any_that_is_longer_yet():
    openings = Openings()
    named = [bool(openings.open(ms)) for ms in (2_100,) * 8 + (3_000,)]
    assert named == [True] * 5 + [False] * 3 + [True]


def test_no_cause_is_named_where_the_process_worked_or_others_had_the_processors_or_not_for_long():
    openings = Openings()
    assert openings.open(2_100, cpu_ms=500) == openings.open(2_000, waited_ms=900) == ""
    assert openings.open(499, waited_ms=0) == ""
    assert openings.found.count == 0
