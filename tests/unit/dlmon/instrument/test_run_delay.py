"""How long threads wait for a processor, as the kernel counts it."""

import subprocess
import sys
from pathlib import Path

import pytest

from dlmon.instrument import run_delay
from dlmon.instrument.run_delay import run_delay_ns
from dlmon.instrument.timed_pass import PipelineTeardowns

# Two processes on one processor: each waits for about half the time.
CROWDED = """
import os, sys, time
from dlmon.instrument.run_delay import run_delay_ns
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
    monkeypatch.setattr(run_delay, "_TASKS", str(tmp_path))
    (tmp_path / "1").mkdir()
    assert run_delay_ns() == 0
    (tmp_path / "1" / "schedstat").write_text("nothing\n")
    assert run_delay_ns() == 0
    monkeypatch.setattr(run_delay, "_TASKS", str(tmp_path / "no such"))
    assert run_delay_ns() == 0


def teardowns(waited_ns):
    """Return one whose process was idle, and waited so long for a processor in the pause."""
    delays = iter((5_000_000_000, 5_000_000_000 + waited_ns))
    found = PipelineTeardowns(lambda: 0, "epoch", "epochs", lambda: next(delays))
    found.mark_start()
    return found


def test_an_idle_pause_is_a_teardown():
    assert "TensorFlow takes down" in teardowns(100_000_000).explain("2", 2_000_000_000)


def test_a_pause_in_which_others_had_the_processors_is_not_called_one():
    found = teardowns(900_000_000)
    assert found.explain("2", 2_000_000_000) == ""
    assert found.count == 0
