"""Training loops without PyTorch: loaders and optimisers that call what its hooks call."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections import deque
from collections.abc import Iterator

from fakes import listener

from dlmon.instrument.collector import BatchCollector
from dlmon.instrument.loaders import Loader
from dlmon.instrument.loop_reports import LoopReports
from dlmon.instrument.pytorch import calls_next
from dlmon.instrument.reporter import Reporter
from dlmon.instrument.step_counter import StepCounter
from dlmon.records import Batches, Model

MS = 1_000_000


class KeptReporter(Reporter):
    """Keeps what is reported."""

    def __init__(self):
        super().__init__("/nowhere/socket")
        self.queue = deque()
        self.batch_ended = self.queue.append

    def start(self, framework, version, backend=None):
        return True

    def send(self, item):
        self.queue.append(item)

    send_or_keep = send


class Script:
    """A process with its own clock; `took` goes on in time."""

    def __init__(self):
        self.now = 1000 * MS
        self.gradients = True
        self.reporter = KeptReporter()
        self.steps = StepCounter(LoopReports(self.reporter, clock=lambda: self.now))

    def took(self, ms):
        self.now += ms * MS

    @contextlib.contextmanager
    def no_grad(self):
        before, self.gradients = self.gradients, False
        yield
        self.gradients = before

    def loader(self, samples=100, batch_size=10, **options):
        return FakeLoader(self, samples, batch_size, **options)

    def step(self, optimizer, ms=1):
        self.steps.step_began(optimizer)
        self.took(ms)
        self.steps.step_ended(optimizer)

    def backward(self, ms=1):
        began = self.now
        self.took(ms)
        self.steps.went_backward("cpu", began)

    def reported(self) -> Reported:
        """Return what was reported; the process ends."""
        self.reporter.close()
        collector = BatchCollector()
        collector.take(self.reporter.queue)
        return Reported(list(collector.records(finish=True)))


class Optimizer:
    """Has a name, and no more."""


class FakeLoader:
    def __init__(
        self,
        script,
        samples,
        batch_size,
        *,
        says=True,
        wait_ms=2,
        opens_ms=0,
        stops_ms=0,
        length=None,
        kept=None,
    ):
        """Make one whose samples have so many tokens each, and whose batches go into `kept`."""
        self.script, self.length, self.kept = script, length, kept
        self.sizes = [min(batch_size, samples - at) for at in range(0, samples, batch_size)]
        self.wait_ms, self.opens_ms, self.stops_ms = wait_ms, opens_ms, stops_ms
        self.facts = Loader(batch_size, samples, len(self.sizes)) if says else Loader()

    def __len__(self):
        return len(self.sizes)

    def __iter__(self):
        return FakeIterator(self)

    def ahead(self) -> Iterator[int]:
        """Read one batch ahead."""
        batches = iter(self)
        held = next(batches)
        for batch in batches:
            yield held
            held = batch
        yield held


class FakeIterator:
    def __init__(self, loader):
        script = self.script = loader.script
        created = script.now
        script.took(loader.opens_ms)
        is_again = isinstance(sys.exception(), StopIteration)
        self.iteration = (script.steps.begin_again(loader, created) if is_again else None) or (
            script.steps.new(loader.facts, created, weakref.ref(loader))
        )
        self.iteration.iterator = self.key = object()
        self.sizes, self.wait_ms = iter(loader.sizes), loader.wait_ms
        self.stops_ms = loader.stops_ms
        self.length, self.kept = loader.length, loader.kept

    def __iter__(self):
        return self

    def __next__(self):
        steps = self.script.steps
        steps.fetch(self.iteration, self.script.gradients)
        self.script.took(self.wait_ms)
        try:
            size = next(self.sizes)
        except StopIteration:
            steps.exhausted(self.iteration, calls_next(sys._getframe(1)))
            raise
        batch = None
        if self.kept is not None:
            self.kept.append(batch := set())
        steps.fetched(self.iteration, size, self.length and self.length * size, batch)
        return size

    def __del__(self):
        self.script.took(self.stops_ms)
        if self.iteration.iterator is self.key:
            self.script.steps.abandoned(self.iteration)


class Reported(listener.Reported):
    """What one script reported."""

    @property
    def counts(self) -> list[tuple]:
        """The samples, batches and steps of an optimiser of each epoch."""
        return [(epoch.samples, epoch.steps, epoch.updates) for epoch in self.epochs]

    @property
    def batches(self) -> list[Batches]:
        return self.of(Batches)

    @property
    def dt_ms(self) -> list[int]:
        return [took // 1000 for batches in self.batches for took in batches.dt_us]

    @property
    def took_ms(self) -> list[float]:
        return [took / 1000 for batches in self.batches for took in batches.dt_us]

    @property
    def wait_ms(self) -> int:
        return sum(batches.wait_us or 0 for batches in self.batches) // 1000

    @property
    def models(self) -> list[Model]:
        return self.of(Model)
