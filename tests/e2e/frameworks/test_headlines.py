"""Scripts with one fault each: the headline names it, live and afterwards; of others it is calm."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.sessions import DEADLINE_S, eventually
from fakes.sshd import free_port

from dlmon.figures.session.headline import headline_of
from dlmon.log.directory import list_sessions, stop_session
from dlmon.session.follower import SessionFollower

SCRIPT = Path(__file__).parent / "scripts" / "headlines.py"
ACCUSING = {
    *("YOUR CODE", "DATA-BOUND", "OPTIMISER", "STALLED", "PAUSES", "REGULAR SLOW STEPS"),
    *("EPOCH STARTS", "VALIDATING", "CHECKPOINTS", "BETWEEN EPOCHS", "OUTSIDE TRAINING"),
    *("COPYING", "GARBAGE COLLECTION", "NAN LOSS"),
}


class Training:
    """A case under `dlmon exec --detach`, or with a standard input under `--plain`."""

    def __init__(self, interpreter, folder, cache, case, ranks, stdin=None):
        command = [interpreter, SCRIPT, case]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": cache}
        if ranks > 1:
            # As torchrun does, which would import PyTorch once more.
            each = shlex.join(map(str, command))
            starts = " & ".join(f"RANK={rank} LOCAL_RANK={rank} {each}" for rank in range(ranks))
            command = ["sh", "-c", f"{starts} & wait"]
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
            environment |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
        options = [
            "--detach" if stdin is None else "--plain",
            "--log-dir",
            folder / "logs",
            "--interval",
            "0.5",
        ]
        dlmon = [sys.executable, "-P", "-c", "from tui.start import main; main()", "exec"]
        self.viewer = subprocess.Popen(
            [*dlmon, *options, "--", *command],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
        )
        if stdin is None:
            assert self.viewer.wait(DEADLINE_S) == 0
        (self.session,) = eventually(lambda: list_sessions(folder / "logs"), "its log")
        self.follower = SessionFollower(self.session.path)

    @property
    def headline(self):
        self.follower.poll()
        return headline_of(self.follower.snapshot(), self.follower.running)

    def wait_for(self, *names):
        """Return the headline once it has one of these names."""

        def shown():
            now = self.headline
            return now if now is not None and now.name in names else None

        return eventually(shown, f"the headline {' or '.join(names)}")

    def wait_for_the_end(self):
        eventually(lambda: not self.follower.poll() and not self.follower.running, "its end")

    def stop(self):
        if self.follower.running:
            stop_session(self.session)
        self.wait_for_the_end()
        self.viewer.wait(DEADLINE_S)


@pytest.fixture
def train(interpreter, tmp_path, shared_cache):
    """Return a function that starts a case; it ends with the test."""
    begun = []

    def start(case, ranks=1, stdin=None):
        begun.append(Training(interpreter, tmp_path, shared_cache, case, ranks, stdin))
        return begun[-1]

    yield start
    for training in begun:
        training.stop()
        training.follower.close()


@pytest.mark.parametrize(
    ("case", "name", "reason"),
    [
        ("sleeps", "YOUR CODE", "headlines.py:"),
        ("slow-dataset", "DATA-BOUND", ""),
    ],
)
def test_what_takes_most_of_the_time_is_the_headline_live_and_afterwards(case, name, reason, train):
    training = train(case)
    live = training.wait_for(name)
    assert live.figure.endswith("%")
    assert reason in live.reason
    training.stop()
    assert training.headline.name == name


@pytest.mark.costly
def test_a_rank_that_stays_away_from_a_collective_is_the_one_that_is_named(train):
    training = train("a-rank-stays-away", ranks=2)
    training.wait_for("STALLED")
    eventually(lambda: "wait_for_lock" in training.headline.reason, "the line of rank 1")


@pytest.mark.costly
def test_a_rank_that_is_slow_in_backward_is_named_if_the_script_reduces_gradients_itself(train):
    training = train("slow-backward", ranks=2)
    headline = training.wait_for("WAITING FOR RANK 1")
    assert "more in backward" in headline.reason
    epochs = len(training.follower.snapshot().epochs)
    # What led in the first seconds is a small part of the run by then.
    eventually(
        lambda: training.headline and len(training.follower.snapshot().epochs) > epochs + 10,
        "ten more epochs",
    )
    training.stop()
    assert training.headline.name == "WAITING FOR RANK 1"


@pytest.mark.parametrize("case", ["healthy"])
def test_a_healthy_script_is_not_accused(case, train):
    training, seen = train(case), set()

    def is_judged():
        seen.add(training.headline.name)
        return not seen <= {"NOT YET KNOWN", "BEFORE TRAINING", "COMPILING"}

    eventually(is_judged, "a headline")
    training.stop()
    assert not {*seen, training.headline.name} & ACCUSING


def test_a_script_that_waits_for_its_terminal_says_so_until_it_is_answered(train):
    terminal, stdin = os.openpty()
    training = train("input", stdin=stdin)
    waits = training.wait_for("WAITS FOR INPUT")
    assert "in at_step_200" in waits.reason
    os.write(terminal, b"yes\n")
    eventually(lambda: training.headline.name != "WAITS FOR INPUT", "steps after the answer")
    training.stop()
    os.close(terminal)
    os.close(stdin)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("case", "ranks", "name"),
    [
        ("slow-rank", 2, "WAITING FOR RANK 1"),
        ("slow-rank-data", 2, "WAITING FOR RANK 1"),
        ("lock", 1, "STALLED"),
        ("hangs-at-first", 1, "STALLED"),
        ("nan", 1, "NAN LOSS"),
        ("exception", 1, "FAILED"),
        ("out-of-memory", 1, "OUT OF MEMORY"),
        ("input", 1, "FAILED"),
        ("debugger", 1, "FAILED"),
        ("recompiles", 1, "COMPILING"),
    ],
)
def test_each_other_fault_is_the_headline(case, ranks, name, train):
    headline = train(case, ranks).wait_for(name)
    assert ("--plain" in headline.advice) is (case in ("input", "debugger"))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("case", "name"), [("slow-validation", "VALIDATING"), ("checkpoints", "CHECKPOINTS")]
)
def test_what_else_takes_most_of_the_time_is_the_headline_too(case, name, train):
    test_what_takes_most_of_the_time_is_the_headline_live_and_afterwards(case, name, "", train)


@pytest.mark.costly
@pytest.mark.parametrize("case", ["validates", "saves", "item", "workers"])
def test_no_other_healthy_script_is_accused(case, train):
    test_a_healthy_script_is_not_accused(case, train)


@pytest.mark.costly
def test_a_script_that_reads_a_pipe_waits_for_no_person(train):
    read_end, write_end = os.pipe()
    os.write(write_end, b"1.0\n" * 300)
    training = train("reads-a-pipe", stdin=read_end)
    stalled = training.wait_for("STALLED", "WAITS FOR INPUT")
    assert stalled.name == "STALLED"
    eventually(lambda: "its standard input" in training.headline.reason, "what it waits for")
    os.close(write_end)
    os.close(read_end)
