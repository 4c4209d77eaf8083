"""Cost of a batch in dlmon's hooks, on top of hooks that do nothing: Keras's, then PyTorch's.

Measured of Keras: the time of `on_train_batch_begin` plus `on_train_batch_end`, called
by Keras's own CallbackList as `fit` does, and of the end-of-batch hook called
directly; once with dlmon's callback, whose emitter feeds a pipe that another
process drains, and once with an empty callback. Blocks of both sides alternate,
in random order within each pair; the figure is the median over the pairs of the
difference of the means per call. The emitter's side thread runs all the while,
so what it takes from the training thread is in the figures; its calls come
hundreds of times faster than real batches do, so that it has as much more to do.

The callback that `dlmon exec` puts into people's own scripts is measured in the same way: as it
is for arrays on TensorFlow, and as it is where batches pass through Python, which is on JAX and
Torch; there, what notes a batch as it is handed on counts too.

As context: the CPU time of the whole emitter (training thread and side thread)
for a batch, at a rate that a real training run could have.

Measured of PyTorch: fetching a batch and stepping, with a loader whose batches are there and an
optimiser that does nothing, so that little but the hooks takes time; in the same way, with dlmon's
hooks and with hooks that do nothing. What can't be imported here is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import emit_torch
import harness
from estimate import estimate_median, spread, verdict

from dlmon.instrument.emitter import FLUSH_S, Emitter

BAR_US, TORCH_BAR_US = 2.0, 5.0
BATCHES_AN_EPOCH = 1_000_000
PACED_RATE, PACED_S = 1000, 2.0
# Empties a pipe, and goes when nobody holds its other end any more.
DRAIN = "import os\nwhile os.read(0, 1 << 20): pass"
LOGS = {"loss": 0.5, "accuracy": 0.75}

# Calls a hook so many times and returns µs a batch.
Block = Callable[[int], float]


def main() -> None:
    arguments = _arguments()
    pairs = 30 if arguments.quick else arguments.pairs
    left_out = [
        f"{what} is left out: it is not installed for this Python"
        for what, measure in (
            ("Keras on TensorFlow", _measure_keras),
            ("PyTorch", _measure_torch),
        )
        if not measure(arguments, pairs)
    ]
    for sentence in left_out:
        print(sentence)
    if len(left_out) == 2:
        raise harness.CannotRun("neither Keras on TensorFlow nor PyTorch is installed")


def _measure_torch(arguments: argparse.Namespace, pairs: int) -> bool:
    if not _has("torch"):
        return False
    with emit_torch.sides(time.perf_counter_ns) as (dlmon, empty):
        _compare("loader and optimiser", dlmon, empty, TORCH_BAR_US, pairs, arguments)
    return True


def _has(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)


def _compare(
    what: str, dlmon: Block, empty: Block, bar: float, pairs: int, arguments: argparse.Namespace
) -> None:
    dlmon_us, empty_us = _alternate(dlmon, empty, pairs, arguments)
    differences = [one - other for one, other in zip(dlmon_us, empty_us, strict=True)]
    print(f"{what + ': dlmon':<44} {spread(dlmon_us)} µs a batch")
    print(f"{what + ': empty hooks':<44} {spread(empty_us)} µs a batch")
    print(verdict(f"{what}: difference", estimate_median(differences), bar, "µs"))


def _measure_keras(arguments: argparse.Namespace, pairs: int) -> bool:
    if not _has("keras", "tensorflow"):
        return False
    paced_pairs = 1 if arguments.quick else arguments.paced_pairs
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # Not the warnings of a TensorFlow without a GPU.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    model = _model()
    emitter, reader = _emitter()
    # Each side's batches are numbered through: the emitter takes one only after the one before.
    ours, ignored = itertools.count(), itertools.count()
    dlmon, empty = _callbacks(model, emitter)

    def compared() -> Iterator[tuple[str, Block, Block]]:
        yield "through CallbackList", _list_block(dlmon, ours), _list_block(empty, ignored)
        yield "end-of-batch hook alone", _hook_block(dlmon, ours), _hook_block(empty, ignored)
        # An epoch ends where another begins, so each is made when it is measured.
        yield "a script's arrays", *_script_blocks(model, emitter, handed=False)
        yield "a script's batches in Python", *_script_blocks(model, emitter, handed=True)

    for what, dlmon_block, empty_block in compared():
        _compare(what, dlmon_block, empty_block, BAR_US, pairs, arguments)
    dlmon, empty = _callbacks(model, emitter)
    ours = itertools.count()
    dlmon_us = [_paced_cpu_us(dlmon, ours) for _ in range(paced_pairs)]
    # While no batch comes, the emitter's thread looks where training is: not in the empty side.
    emitter.close()
    empty_us = median(_paced_cpu_us(empty, ignored) for _ in range(paced_pairs))
    paced_us = [us - empty_us for us in dlmon_us]
    what = f"CPU of emitter and its thread at {PACED_RATE:,}/s"
    share_pct = median(paced_us) * PACED_RATE / 1e4
    print(f"{what:<44} {spread(paced_us)} µs a batch, {share_pct:.2f} % of a core (context)")
    reader.wait()
    return True


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--calls", type=int, default=1000, help="batches in a block")
    parser.add_argument("--paced-pairs", type=int, default=8, help="of the context's figure")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="30 pairs")
    return parser.parse_args()


def _model() -> Any:
    """Import Keras and make a model, with interrupts held back: TensorFlow would swallow them.

    No other thread may run yet, or it would take them.
    """
    held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        import keras

        return keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)


def _emitter() -> tuple[Emitter, subprocess.Popen[bytes]]:
    read_end, write_end = os.pipe()
    reader = subprocess.Popen([sys.executable, "-c", DRAIN], stdin=read_end, start_new_session=True)
    os.close(read_end)
    return Emitter(write_end), reader


def _callbacks(model: Any, emitter: Any) -> tuple[Any, Any]:
    """Return both sides, each as Keras's list of callbacks within its first epoch."""
    from dlmon.instrument.fit_report import Known
    from dlmon.instrument.reporter import Reporter
    from workloads.callbacks import reporting_callback
    from workloads.data.feeds import Feed

    reporter = Reporter(None)
    reporter.attach(emitter)
    feed = Feed(None, None, 32, 32 * BATCHES_AN_EPOCH)
    callback = reporting_callback(reporter, Known(feed.data))
    return _within_an_epoch(callback, model), _within_an_epoch(_empty_callback(), model)


def _empty_callback() -> Any:
    import keras

    class Empty(keras.callbacks.Callback):  # type: ignore[misc]
        """Does nothing at the end of a batch."""

        async_safe = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing."""

    return Empty()


def _within_an_epoch(callback: Any, model: Any) -> Any:
    """Return Keras's list of callbacks, within its first epoch."""
    import keras

    callbacks = keras.callbacks.CallbackList([callback], add_history=True, model=model)
    callbacks.on_train_begin()
    callbacks.on_epoch_begin(0)
    return callbacks


class _EpochIterator:
    """Stands for Keras's own, of so many batches."""

    num_batches = BATCHES_AN_EPOCH


def _script_blocks(model: Any, emitter: Any, handed: bool) -> tuple[Block, Block]:
    """Return both sides for a person's script: its callback and the empty one."""
    import keras
    import numpy as np

    from dlmon.instrument.batch_plan import plan_of_arrays
    from dlmon.instrument.fits import callback_class
    from dlmon.instrument.keras_data import Data, NotedData, keep_data
    from dlmon.instrument.keras_iterators import HandingIterator
    from dlmon.instrument.reporter import Reporter

    reporter = Reporter("the pipe of this benchmark")
    reporter.attach(emitter)
    batches = itertools.repeat((np.zeros((32, 8)), np.zeros(32)))
    iterator = _EpochIterator()
    plan = plan_of_arrays(32, BATCHES_AN_EPOCH, None)
    data = NotedData(iterator, plan, is_waited_for=True) if handed else Data(iterator, plan)
    keep_data(iterator, data)
    ours = _within_an_epoch(callback_class(keras.callbacks.Callback, reporter)(), model)
    empty = _within_an_epoch(_empty_callback(), model)
    if not isinstance(data, NotedData):
        return _list_block(ours, itertools.count()), _list_block(empty, itertools.count())
    noting = HandingIterator(batches, data, reporter)
    return (
        _list_block(ours, itertools.count(), noting),
        _list_block(empty, itertools.count(), batches),
    )


def _list_block(
    callbacks: Any, numbers: Iterator[int], batches: Iterator[Any] | None = None
) -> Block:
    """Return a block that calls a list's hooks as `fit` does, and may read batches."""
    begin, end = callbacks.on_train_batch_begin, callbacks.on_train_batch_end

    def block(calls: int) -> float:
        started = time.perf_counter_ns()
        for batch in itertools.islice(numbers, calls):
            begin(batch)
            end(batch, LOGS)
        return (time.perf_counter_ns() - started) / calls / 1000

    def reading_block(calls: int) -> float:
        assert batches is not None
        started = time.perf_counter_ns()
        for batch in itertools.islice(numbers, calls):
            next(batches)
            begin(batch)
            end(batch, LOGS)
        return (time.perf_counter_ns() - started) / calls / 1000

    return block if batches is None else reading_block


def _hook_block(callbacks: Any, numbers: Iterator[int]) -> Block:
    """Return a block that calls the first callback's end-of-batch hook."""
    hook = callbacks.callbacks[0].on_train_batch_end

    def block(calls: int) -> float:
        started = time.perf_counter_ns()
        for batch in itertools.islice(numbers, calls):
            hook(batch, LOGS)
        return (time.perf_counter_ns() - started) / calls / 1000

    return block


def _alternate(
    dlmon: Block, empty: Block, pairs: int, arguments: argparse.Namespace
) -> tuple[list[float], list[float]]:
    """Return both sides' times of each pair, in µs a batch."""
    order = random.Random(arguments.seed)
    times: dict[Block, list[float]] = {dlmon: [], empty: []}
    for number in range(pairs + 1):
        for side in order.sample((dlmon, empty), 2):
            took_us = side(arguments.calls)
            # The first pair only warms up.
            if number:
                times[side].append(took_us)
    return times[dlmon], times[empty]


def _paced_cpu_us(callbacks: Any, numbers: Iterator[int]) -> float:
    """Return this process's CPU time for a batch when they end at `PACED_RATE`."""
    hook = callbacks.callbacks[0].on_train_batch_end
    calls = int(PACED_S * PACED_RATE)
    # The emitter's thread still has work from before.
    time.sleep(2 * FLUSH_S)
    start, before_s = time.monotonic(), time.process_time()
    for sent, batch in enumerate(itertools.islice(numbers, calls)):
        # Ten batches at each wake-up, so that sleeping is not what is measured.
        if sent % 10 == 0:
            time.sleep(max(0.0, start + sent / PACED_RATE - time.monotonic()))
        hook(batch, LOGS)
    return (time.process_time() - before_s) / calls * 1e6


if __name__ == "__main__":
    harness.run(main)
