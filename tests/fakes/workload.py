"""A workload without Keras that does what its options say, however bad.

It speaks as a real one does: the same phases, model, batches and epochs through
dlmon.instrument.emitter, the same stop signal, the same exit codes. Options, besides the
usual `epochs`, `steps` and `batch_size`:

    step_s, validation_steps        how long a batch takes; batches of validation
    ignore                          names of signals that it is deaf to
    script                          {moment: [[action, argument, ...], ...]}

The command may name, as JSON, options that stand where those of the run say nothing.

Moments are `start` (before the stop signal is handled), `importing`,
`building`, `epoch N` (its begin), `step N` (its end, in the first epoch),
`end of epoch N`, `trained` and `closed` (nothing is reported any more). Actions are
the functions of `Actions`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

from dlmon.instrument.emitter import Emitter
from dlmon.instrument.keras_data import BatchSizes
from dlmon.instrument.queued import EpochEnd, EpochStart
from dlmon.records import Failure, Model, Phase, Validation
from workloads.failure import kind_of

STOPPED = 75
SHORTEST_SLEEP_S = 0.0005


class Stopped(BaseException):
    """The stop signal came where there is no batch to wait for."""


class Actions:
    """What can be made to happen, by name."""

    def __init__(self, emitter: Emitter, records_fd: int) -> None:
        self.emitter = emitter
        self.records_fd = records_fd
        self.metrics = {"loss": 0.5, "accuracy": 0.75}

    def touch(self, path: str) -> None:
        """Make a file, for somebody who waits for it."""
        Path(path).touch()

    def wait_for(self, path: str) -> None:
        """Go on when a file is there."""
        while not Path(path).exists():
            time.sleep(0.01)

    def fail(self, text: str) -> None:
        raise RuntimeError(text)

    def run_out_of_memory(self, text: str) -> None:
        raise MemoryError(text)

    def leave(self, code: int) -> None:
        """End at once, without a word to anybody."""
        os._exit(code)

    def allocate(self) -> None:
        """Take memory, and use it, until somebody ends this."""
        taken = []
        while True:
            taken.append(b"x" * (8 << 20))

    def say(self, text: str, stream: str = "stdout") -> None:
        """Write text as it is, without a newline."""
        out = getattr(sys, stream)
        out.write(text)
        out.flush()

    def flood(self, lines: int) -> None:
        for number in range(lines):
            sys.stdout.write(f"line {number}\n")
        sys.stdout.flush()

    def send(self, *lines: str) -> None:
        """Write lines to the pipe of records, whatever they are."""
        for line in lines:
            os.write(self.records_fd, line.encode("utf-8", "surrogateescape") + b"\n")

    def fill_pipe(self) -> None:
        """Leave no room in the pipe of records, by records that every reader skips."""
        line = b'{"type":"padding"}\n' * 100
        try:
            while True:
                os.write(self.records_fd, line)
        except BlockingIOError:
            return

    def lose(self, name: str) -> None:
        """Have a metric become NaN."""
        self.metrics[name] = float("nan")

    def leave_helper(self, pid_path: str, own_session: bool) -> None:
        """Leave a process behind that holds all our pipes open, and its own child."""
        # dlmon closes the connection of records in a forked child; a helper need not be so kind.
        kept = os.dup(self.records_fd)
        if os.fork():
            os.close(kept)
            self.wait_for(pid_path)
            return
        os.set_inheritable(kept, True)
        if own_session:
            os.setsid()
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            part = Path(f"{pid_path}.part")
            part.write_text(f"{os.getppid()} {os.getpid()}")
            part.rename(pid_path)
        while True:
            time.sleep(60)


class Run:
    """One training run without a network."""

    def __init__(self, options: dict, actions: Actions) -> None:
        self.options = options
        self.actions = actions
        self.emitter = actions.emitter
        self.epochs = options.get("epochs", 2)
        self.steps = options.get("steps", 20)
        self.batch_size = options.get("batch_size", 32)
        self.validation_steps = options.get("validation_steps", 0)
        self.step_s = options.get("step_s", 0.001)
        self.script = options.get("script", {})
        self.fitting = False

    def stop(self, number: int, frame: object) -> None:
        self.emitter.reads.ask_to_stop()
        if not self.fitting:
            raise Stopped

    def reach(self, moment: str) -> None:
        for action, *arguments in self.script.get(moment, ()):
            getattr(self.actions, action)(*arguments)

    def train(self) -> None:
        self.enter("importing")
        self.reach("importing")
        self.enter("loading")
        self.enter("building")
        self.reach("building")
        samples = self.steps * self.batch_size
        self.emitter.send(
            Model(
                parameters=101_770,
                flops_per_sample=407_040,
                batch_size=self.batch_size,
                samples_per_epoch=samples,
                steps_per_epoch=self.steps,
                epochs=self.epochs,
                validation_steps=self.validation_steps or None,
                validation_samples=self.validation_steps * self.batch_size or None,
                data="synthetic",
                device="cpu",
                backend="fake",
            )
        )
        self.fitting = True
        self.enter("compiling")
        for epoch in range(self.epochs):
            if not self.emitter.reads.stop_requested:
                self.train_epoch(epoch, samples)
        self.reach("trained")

    def train_epoch(self, epoch: int, samples: int) -> None:
        if epoch:
            self.enter("training")
        begin = time.monotonic_ns()
        self.emitter.send(EpochStart(epoch, begin, BatchSizes.of_samples(samples, self.batch_size)))
        self.reach(f"epoch {epoch}")
        scripted = epoch == 0 and any(moment.startswith("step ") for moment in self.script)
        for step in range(self.steps):
            ahead_s = (step + 1) * self.step_s - (time.monotonic_ns() - begin) / 1e9
            if ahead_s > SHORTEST_SLEEP_S:
                time.sleep(ahead_s)
            self.emitter.batch_ended(time.monotonic_ns())
            if scripted:
                self.reach(f"step {step}")
            if self.emitter.reads.stop_requested:
                break
        validation = None
        if self.validation_steps and not self.emitter.reads.stop_requested:
            validation = self.validate()
        self.emitter.send(
            EpochEnd(
                epoch=epoch,
                t=time.monotonic_ns(),
                metrics=self.actions.metrics,
                cut=bool(self.validation_steps) and validation is None,
                validation=validation,
            )
        )
        self.reach(f"end of epoch {epoch}")

    def validate(self) -> Validation:
        self.enter("validating")
        begin = time.monotonic_ns()
        ends = []
        for _ in range(self.validation_steps):
            time.sleep(self.step_s)
            ends.append(time.monotonic_ns())
        return Validation(begin, ends[0], ends[-1], time.monotonic_ns(), len(ends))

    def enter(self, phase: str) -> None:
        self.emitter.send(Phase(t=time.monotonic_ns(), name=phase))


def main() -> int:
    records_fd = int(os.environ.pop("DLMON_RECORDS_FD"))
    emitter = Emitter(socket.socket(fileno=records_fd))
    options = json.loads(sys.argv[1]) if sys.argv[1:] else {}
    asked = json.loads(sys.stdin.readline())
    options |= {name: value for name, value in asked.items() if value is not None}
    run = Run(options, Actions(emitter, records_fd))
    deaf_to = [signal.Signals[name] for name in options.get("ignore", ())]
    for number in deaf_to:
        signal.signal(number, signal.SIG_IGN)
    run.reach("start")
    if signal.SIGUSR1 not in deaf_to:
        signal.signal(signal.SIGUSR1, run.stop)
    try:
        run.train()
    except Stopped:
        return STOPPED
    except Exception as error:  # noqa: BLE001 - as in the real one
        traceback.print_exc()
        words = f"{type(error).__name__}: {error}"
        emitter.send(Failure(time.monotonic_ns(), words, kind_of(error)))
        return 1
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        emitter.close()
        run.reach("closed")
    return STOPPED if emitter.reads.stop_requested else 0


if __name__ == "__main__":
    sys.exit(main())
