"""What the fixtures see to: tests that fail, or are killed, leave nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from fakes.sessions import DEADLINE_S, eventually, is_alive, wait_until_gone
from fakes.sshd import Network, lacks_sshd

IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def run_this_file(chosen, **options):
    """Start a pytest of its own for one test of this file."""
    command = [sys.executable, "-m", "pytest", __file__, "-k", chosen, "-s"]
    environment = {**os.environ, "DLMON_TEST_OF_A_TEST": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


of_another_test = pytest.mark.skipif(
    "DLMON_TEST_OF_A_TEST" not in os.environ, reason="another test runs it"
)


@of_another_test
def test_one_that_is_killed(start):
    session = start(detached=True, script={"epoch 0": [["hang"]]})
    left = (session.supervisor_pid, session.workload_pid, tempfile.gettempdir())
    print("\n", *left, "are left", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_tests_that_are_killed_have_started_ends():
    tests = run_this_file("test_one_that_is_killed")
    left = next(line for line in tests.stdout if line.endswith("are left\n"))
    tests.communicate(timeout=DEADLINE_S)
    supervisor, workload, folder, *_ = left.split()
    for pid in (supervisor, workload):
        wait_until_gone(int(pid))
    eventually(lambda: not Path(folder).exists(), "their temporary files to be removed")


def test_nothing_that_a_test_starts_ignores_a_signal():
    numbers = [int(number) for number in IGNORED]
    code = f"import signal; print([signal.getsignal(n) == signal.SIG_IGN for n in {numbers}])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert said == "[False, False, False]\n"


def test_nor_does_it_where_the_tests_ignore_them():
    def ignore():
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)

    tests = run_this_file("test_nothing_that_a_test_starts", preexec_fn=ignore)
    said, _ = tests.communicate(timeout=DEADLINE_S)
    assert tests.returncode == 0, said


@pytest.mark.skipif(lacks_sshd() is not None, reason=str(lacks_sshd()))
def test_what_runs_on_a_host_ends_with_its_network(tmp_path):
    network = Network(tmp_path, sys.executable)
    network.add("box")
    environment = {**os.environ, **network.environment()}
    command = ["ssh", "box", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"]
    started = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    pid = int(started.stdout)
    eventually(lambda: is_alive(pid) and "sleep" in psutil.Process(pid).cmdline(), "it to run")
    network.close()
    assert not is_alive(pid)
