"""The processes of a script that train together, beside the one that is shown in full. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from dlmon.records import Batches, BatchSummary, Epoch, Model, SamplesPerSecond, Trainer
from dlmon.records.record import record
from dlmon.session.loops import Loop, Loops

MAX_TRAINERS = 1024


@record(frozen=True)
class TrainerRate:
    """A process that trains, and its own steady throughput; None before it is steady."""

    trainer: Trainer
    samples_per_second: float | None


class Trainers:
    """Folds what the processes of a script report that train beside number 0."""

    def __init__(self) -> None:
        self.known: dict[int, Trainer] = {}
        self.loops: defaultdict[int, Loops] = defaultdict(Loops)
        """Of each but number 0."""
        self._epochs: defaultdict[int, dict[int, Epoch]] = defaultdict(dict)

    def fold(self, record: Trainer | Model | Batches | BatchSummary | Epoch) -> None:
        if isinstance(record, Trainer):
            if record.number in self.known or len(self.known) < MAX_TRAINERS:
                self.known[record.number] = record
            return
        number = record.trainer or 0
        if number not in self.known:
            return
        if isinstance(record, Epoch):
            self._epochs[record.epoch][number] = record
        elif isinstance(record, Model):
            self.loops[number].begin(record)
        else:
            self.loops[number].now.add(record)

    def with_samples(self, epoch: Epoch) -> Epoch:
        """Return an epoch of number 0 with the samples of all of them."""
        others = self._epochs.get(epoch.epoch)
        if not others or epoch.samples is None:
            return epoch
        samples = sum(other.samples or 0 for other in others.values())
        return replace(epoch, samples=epoch.samples + samples)

    def _like(self, loop: Loop) -> dict[int, Loop]:
        """Return the loop of each but number 0 that is like one of number 0."""
        found = {}
        for number, loops in self.loops.items():
            # Without a description of both, there is no telling them apart.
            described = loop.model if loops.now.model is not None else None
            alike = loops.now if described is None else loops.alike(described)
            if alike is not None:
                found[number] = alike
        return found

    def samples_of_all(self, loop: Loop) -> int | None:
        """Return the samples of a whole epoch of a loop, those of all processes that share it."""
        models = (one.model for one in (loop, *self._like(loop).values()))
        known = [model.samples_per_epoch for model in models if model is not None]
        return None if None in known or not known else sum(each or 0 for each in known)

    def together(self, own: SamplesPerSecond | None, loop: Loop) -> SamplesPerSecond | None:
        """Return the throughput of all of them in a loop, of which `own` is that of number 0.

        They step together, so what makes one slow makes all: errors add up.
        """
        others = [one.steady.samples_per_second() for one in self._like(loop).values()]
        known = [other for other in others if other is not None]
        if own is None or not known:
            return own
        everyone = [own, *known]
        errors = [one.standard_error for one in everyone if one.standard_error is not None]
        bands = [one.band for one in everyone if one.band is not None]
        return SamplesPerSecond(
            median=sum(one.median for one in everyone),
            mean=sum(one.mean for one in everyone),
            standard_error=sum(errors) if len(errors) == len(everyone) else None,
            jitter=sum(one.jitter for one in everyone),
            band=sum(bands) if len(bands) == len(everyone) else None,
        )

    def rates(self, own: SamplesPerSecond | None, loop: Loop) -> tuple[TrainerRate, ...]:
        """Return each process, with its throughput in a loop; `own` is that of number 0."""
        found, others = [], self._like(loop)
        for number, trainer in sorted(self.known.items()):
            like = others.get(number)
            rate = own if number == 0 else like.steady.samples_per_second() if like else None
            found.append(TrainerRate(trainer, None if rate is None else rate.mean))
        return tuple(found)
