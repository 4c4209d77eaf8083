"""A workload without a network that reports batches at a given rate, through dlmon.instrument.

The supervisor starts it like any other. Its options: `rate` (batches a second), `seconds` (the
training time), `steps` (batches an epoch), `batch_size`, `validation_steps`, `last_batch` (samples
of each epoch's short last batch), and `truth` (a file that gets, as JSON, the numbers of batches,
samples and epochs that were sent). The rate varies a little over time, as in a real training.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from dlmon.instrument.emitter import Emitter
from dlmon.instrument.keras_data import BatchSizes
from dlmon.instrument.queued import EpochEnd, EpochStart
from dlmon.records import Model, Phase, Validation

STOPPED = 75
# The shortest pause; at a high rate, several batches are due after it.
WAKE_S = 0.005
PACE_LOW, PACE_HIGH = 0.93, 1.07


class PacedRun:
    """Epochs until the training time is over."""

    def __init__(self, options: dict[str, Any], emitter: Emitter) -> None:
        self.emitter = emitter
        self.steps = int(options.get("steps", 500))
        self.batch_size = int(options.get("batch_size", 100))
        self.last_batch = int(options.get("last_batch", self.batch_size))
        self.validation_steps = int(options.get("validation_steps", 0))
        rate, train_s = float(options["rate"]), float(options.get("seconds", 3600))
        self.epochs = max(1, round(train_s * rate / self.steps))
        self.samples_per_epoch = (self.steps - 1) * self.batch_size + self.last_batch
        self.period_ns = self.usual_ns = 1e9 / rate
        self.varies = bool(options.get("vary", True))
        self.batches = self.samples = self.epochs_done = 0

    def train(self) -> None:
        """Send the phases and the model, then train."""
        for phase in ("importing", "loading", "building"):
            self._enter(phase)
        self.emitter.send(
            Model(
                parameters=1_337_002,
                flops_per_sample=236_000_000,
                batch_size=self.batch_size,
                samples_per_epoch=self.samples_per_epoch,
                steps_per_epoch=self.steps,
                epochs=self.epochs,
                validation_steps=self.validation_steps or None,
                validation_samples=self.validation_steps * self.batch_size or None,
                data="synthetic",
                device=os.environ.get("BENCH_DEVICE", "cpu"),
                backend="none",
            )
        )
        self._enter("compiling")
        draw, drawn_at = random.Random(1), 0.0
        for epoch in range(self.epochs):
            if self.varies and time.monotonic() > drawn_at + 1:
                drawn_at = time.monotonic()
                self.period_ns = self.usual_ns * draw.uniform(PACE_LOW, PACE_HIGH)
            if not self.emitter.reads.stop_requested:
                self._train_epoch(epoch)

    def _train_epoch(self, epoch: int) -> None:
        if epoch:
            self._enter("training")
        begin = time.monotonic_ns()
        data = BatchSizes.of_samples(self.samples_per_epoch, self.batch_size)
        self.emitter.send(EpochStart(epoch, begin, data))
        batch_ended, step = self.emitter.batch_ended, 0
        end = begin + int(self.period_ns)
        while step < self.steps and not self.emitter.reads.stop_requested:
            now = time.monotonic_ns()
            while end <= now and step < self.steps:
                batch_ended(end)
                self.samples += self.batch_size if step + 1 < self.steps else self.last_batch
                step += 1
                end += int(self.period_ns)
            time.sleep(max(WAKE_S, (end - time.monotonic_ns()) / 1e9))
        self.batches += step
        validation = self._validate() if self.validation_steps else None
        metrics = {"loss": 2.3 / (epoch + 1), "accuracy": 1 - 0.9 / (epoch + 1)}
        is_cut, t = step < self.steps, time.monotonic_ns()
        self.emitter.send(EpochEnd(epoch, t, metrics, cut=is_cut, validation=validation))
        self.epochs_done += 1
        print(f"{step}/{self.steps} - loss: {metrics['loss']:.4f}", flush=True)

    def _validate(self) -> Validation:
        self._enter("validating")
        begin = time.monotonic_ns()
        ends = []
        for _ in range(self.validation_steps):
            time.sleep(0.01)
            ends.append(time.monotonic_ns())
        return Validation(begin, ends[0], ends[-1], time.monotonic_ns(), len(ends))

    def _enter(self, phase: str) -> None:
        self.emitter.send(Phase(t=time.monotonic_ns(), name=phase))


def main() -> int:
    emitter = Emitter(socket.socket(fileno=int(os.environ.pop("DLMON_RECORDS_FD"))))
    options = json.loads(sys.stdin.readline())
    run = PacedRun(options, emitter)
    signal.signal(signal.SIGUSR1, lambda number, frame: emitter.reads.ask_to_stop())
    run.train()
    emitter.close()
    if "truth" in options:
        truth = {"batches": run.batches, "samples": run.samples, "epochs": run.epochs_done}
        Path(options["truth"]).write_text(json.dumps(truth))
    return STOPPED if emitter.reads.stop_requested else 0


if __name__ == "__main__":
    sys.exit(main())
