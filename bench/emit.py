"""Measure the cost of dlmon's hooks per batch, beyond empty hooks: Keras's, then PyTorch's.

Keras: the time of `on_train_batch_begin` plus `on_train_batch_end`, called by Keras's own
CallbackList as in `fit`; once with dlmon's callback, whose emitter writes to a socket that another
process reads, and once with an empty callback. Blocks of calls come in pairs, in random order
within each pair; the figure is the median over the pairs of the difference of the means per call.
The emitter's thread runs too, so the time that it takes from the training thread is included; it
gets batches hundreds of times faster than in training.

PyTorch: fetching a batch and stepping, with a loader whose batches exist already and an optimiser
that does nothing, so that most of the time is the hooks'; measured in the same way with dlmon's
hooks and with empty hooks. A framework that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import harness
from estimate import estimate_median, spread, verdict

from dlmon.instrument.emitter import Emitter
from dlmon.instrument.reporter import Reporter

BAR_US, TORCH_BAR_US = 2.0, 5.0
BATCHES_AN_EPOCH = 1_000_000
BATCH_SIZE = 32
# Reads from a socket until its other end is closed.
DRAIN = "import os\nwhile os.read(0, 1 << 20): pass"
LOGS = {"loss": 0.5, "accuracy": 0.75}

# Calls a hook this many times and returns µs per batch.
Block = Callable[[int], float]


def main() -> None:
    arguments = _arguments()
    reporter = _reporter()
    if has_keras := _has("keras", "tensorflow"):
        _compare("Keras's hooks", *_keras_blocks(reporter), BAR_US, arguments)
    if has_torch := _has("torch"):
        _compare("loader and optimiser", *_torch_blocks(reporter), TORCH_BAR_US, arguments)
    for name, is_there in (("Keras on TensorFlow", has_keras), ("PyTorch", has_torch)):
        if not is_there:
            print(f"{name} is left out: it is not installed for this Python")


def _arguments() -> argparse.Namespace:
    parser = harness.parser(__doc__)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--calls", type=int, default=1000, help="batches in a block")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="30 pairs")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.pairs = 30
    return arguments


def _has(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)


def _compare(
    name: str, dlmon: Block, empty: Block, bar: float, arguments: argparse.Namespace
) -> None:
    order = random.Random(arguments.seed)
    times: dict[Block, list[float]] = {dlmon: [], empty: []}
    for number in range(arguments.pairs + 1):
        for side in order.sample((dlmon, empty), 2):
            took_us = side(arguments.calls)
            # The first pair only warms up.
            if number:
                times[side].append(took_us)
    differences = [a - b for a, b in zip(times[dlmon], times[empty], strict=True)]
    print(f"{name + ': dlmon':<44} {spread(times[dlmon])} µs a batch")
    print(f"{name + ': empty hooks':<44} {spread(times[empty])} µs a batch")
    print(verdict(f"{name}: difference", estimate_median(differences), bar, "µs"))


def _reporter() -> Reporter:
    """Return a reporter whose records another process reads."""
    ours, theirs = socket.socketpair()
    subprocess.Popen([sys.executable, "-c", DRAIN], stdin=theirs, start_new_session=True)
    theirs.close()
    reporter = Reporter(None)
    reporter.attach(Emitter(ours))
    return reporter


def _timed(calls_of: Callable[[int], None]) -> Block:
    def block(calls: int) -> float:
        started = time.perf_counter_ns()
        calls_of(calls)
        return (time.perf_counter_ns() - started) / calls / 1000

    return block


# Keras


def _keras_blocks(reporter: Reporter) -> tuple[Block, Block]:
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # Hide TensorFlow's warnings that there is no GPU.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    # While it is imported, TensorFlow swallows interrupts.
    blocked = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    import keras

    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    from dlmon.instrument.fit_report import FitPlan
    from workloads.callbacks import reporting_callback
    from workloads.data.feed import Feed

    class Empty(keras.callbacks.Callback):  # type: ignore[misc]
        """Does nothing at the end of a batch."""

        async_safe = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing."""

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    feed = Feed(None, None, BATCH_SIZE, BATCH_SIZE * BATCHES_AN_EPOCH)
    callback = reporting_callback(reporter, FitPlan(feed.sizes))
    return _keras_block(callback, model), _keras_block(Empty(), model)


def _keras_block(callback: Any, model: Any) -> Block:
    """Return a block that calls a callback as `fit` does within its first epoch."""
    import keras

    callbacks = keras.callbacks.CallbackList([callback], add_history=True, model=model)
    callbacks.on_train_begin()
    callbacks.on_epoch_begin(0)
    begin, end = callbacks.on_train_batch_begin, callbacks.on_train_batch_end
    # Numbers go on from block to block, because the emitter takes batches only in order.
    numbers = itertools.count()

    def calls_of(calls: int) -> None:
        for batch in itertools.islice(numbers, calls):
            begin(batch)
            end(batch, LOGS)

    return _timed(calls_of)


# PyTorch


class Hooks:
    """The hooks that are set now, to be set again for each block."""

    def __init__(self, loaders: Any, optimizers: Any) -> None:
        self._iterator, self._loader = loaders._BaseDataLoaderIter, loaders.DataLoader
        self._methods = self._loader.__iter__, self._iterator.__next__
        self._optimizer_hooks = (
            optimizers._global_optimizer_pre_hooks,
            optimizers._global_optimizer_post_hooks,
        )
        self._copies = [dict(hooks) for hooks in self._optimizer_hooks]

    def enter(self) -> None:
        """Replace all hooks by these."""
        self._loader.__iter__, self._iterator.__next__ = self._methods
        for hooks, copy in zip(self._optimizer_hooks, self._copies, strict=True):
            hooks.clear()
            hooks.update(copy)


def _torch_blocks(reporter: Reporter) -> tuple[Block, Block]:
    loaders = importlib.import_module("torch.utils.data.dataloader")
    optimizers = importlib.import_module("torch.optim.optimizer")
    # This module imports no PyTorch: the modules to watch are passed.
    from dlmon.instrument.pytorch import watch_loaders, watch_optimizers

    bare = Hooks(loaders, optimizers)
    original = loaders._BaseDataLoaderIter.__next__

    @wraps(original)
    def __next__(self: Any) -> Any:
        return original(self)

    def nothing(optimizer: Any, arguments: Any, named: Any) -> None:
        pass

    loaders._BaseDataLoaderIter.__next__ = __next__
    optimizers.register_optimizer_step_pre_hook(nothing)
    optimizers.register_optimizer_step_post_hook(nothing)
    empty = Hooks(loaders, optimizers)
    bare.enter()
    watch_loaders(loaders, reporter)
    watch_optimizers(optimizers, reporter)
    return _torch_block(Hooks(loaders, optimizers)), _torch_block(empty)


def _torch_block(hooks: Hooks) -> Block:
    """Return a block that fetches a batch and steps, without computing anything."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    batch = (torch.zeros(BATCH_SIZE, 4), torch.zeros(BATCH_SIZE, 1))

    class Endless(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return itertools.repeat(batch)

    class Still(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            pass

    optimizer = Still([torch.zeros(1, requires_grad=True)], {})
    hooks.enter()
    batches = iter(DataLoader(Endless(), batch_size=None, collate_fn=lambda batch: batch))

    def calls_of(calls: int) -> None:
        for _ in range(calls):
            next(batches)
            optimizer.step()

    def block(calls: int) -> float:
        hooks.enter()
        return _timed(calls_of)(calls)

    return block


if __name__ == "__main__":
    harness.run(main)
