"""The PyTorch side of `emit.py`: a loader and an optimiser, watched and with empty hooks."""

from __future__ import annotations

import contextlib
import importlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

from dlmon.instrument.reporter import Reporter

# Empties a socket, and goes when nobody holds its other end any more.
DRAIN = """
import socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.bind(sys.argv[1])
server.listen()
print(flush=True)
connection = server.accept()[0]
while connection.recv(1 << 20): pass
"""
BATCH_SIZE = 32

# Calls the hooks so many times and returns µs a batch.
Block = Callable[[int], float]


class Side:
    """The hooks of one side, which are put in place for each block."""

    def __init__(self, loaders: Any, optimizers: Any) -> None:
        self._loaders, self._optimizers = loaders, optimizers
        base = loaders._BaseDataLoaderIter
        self._methods = (loaders.DataLoader.__iter__, base.__next__)
        self._hooks = [dict(hooks) for hooks in self._all_hooks()]

    def _all_hooks(self) -> list[dict[int, Any]]:
        module = self._optimizers
        return [module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks]

    def enter(self) -> None:
        """Put these hooks in place of all others."""
        self._loaders.DataLoader.__iter__, self._loaders._BaseDataLoaderIter.__next__ = (
            self._methods
        )
        for present, hooks in zip(self._all_hooks(), self._hooks, strict=True):
            present.clear()
            present.update(hooks)


@contextlib.contextmanager
def sides(clock: Callable[[], int]) -> Iterator[tuple[Block, Block]]:
    """Yield blocks of both sides: dlmon's hooks, and hooks that do nothing.

    Raises:
        ImportError: PyTorch is not there.
    """
    loaders = importlib.import_module("torch.utils.data.dataloader")
    optimizers = importlib.import_module("torch.optim.optimizer")
    bare = Side(loaders, optimizers)
    with _reporter() as reporter:
        _hook_nothing(loaders, optimizers)
        empty = Side(loaders, optimizers)
        bare.enter()
        # It needs no PyTorch, and names none: what it watches is handed in.
        from dlmon.instrument.pytorch import watch_loaders, watch_optimizers

        watch_loaders(loaders, reporter)
        watch_optimizers(optimizers, reporter)
        watched = Side(loaders, optimizers)
        yield _block(watched, clock), _block(empty, clock)
        bare.enter()


def _hook_nothing(loaders: Any, optimizers: Any) -> None:
    following = loaders._BaseDataLoaderIter.__next__

    @wraps(following)
    def __next__(self: Any) -> Any:
        return following(self)

    def nothing(optimizer: Any, arguments: Any, named: Any) -> None:
        pass

    loaders._BaseDataLoaderIter.__next__ = __next__
    optimizers.register_optimizer_step_pre_hook(nothing)
    optimizers.register_optimizer_step_post_hook(nothing)


def _block(side: Side, clock: Callable[[], int]) -> Block:
    """Return a block that fetches a batch and steps, as a loop does that computes nothing."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    batch = (torch.zeros(BATCH_SIZE, 4), torch.zeros(BATCH_SIZE, 1))

    class Endless(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            while True:
                yield batch

    class Still(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            pass

    optimizer = Still([torch.zeros(1, requires_grad=True)], {})
    side.enter()
    batches = iter(DataLoader(Endless(), batch_size=None, collate_fn=_as_it_is))

    def block(calls: int) -> float:
        side.enter()
        started = clock()
        for _ in range(calls):
            next(batches)
            optimizer.step()
        return (clock() - started) / calls / 1000

    return block


def _as_it_is(batch: Any) -> Any:
    return batch


@contextlib.contextmanager
def _reporter() -> Iterator[Reporter]:
    """Yield a reporter whose records another process takes."""
    with tempfile.TemporaryDirectory(prefix="dlmon") as folder:
        path = str(Path(folder) / "socket")
        reader = subprocess.Popen(
            [sys.executable, "-c", DRAIN, path],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert reader.stdout is not None
        reader.stdout.readline()
        reporter = Reporter(path)
        try:
            yield reporter
        finally:
            reporter.close()
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as last:
                # Where nothing was reported, it still waits for the first.
                last.connect(path)
            reader.wait()
            reader.stdout.close()
