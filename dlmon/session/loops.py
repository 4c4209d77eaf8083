"""The loops of a process that trains: what each came to, unlike ones apart. Pure."""

from __future__ import annotations

import re
from copy import copy

from dlmon.records import Batches, BatchSummary, Epoch, Model
from dlmon.statistics.projection import ValidationPasses
from dlmon.statistics.steady_state import SteadyState

MAX_LOOPS = 1000
"""Once there are so many, whatever else trains counts as the last of them."""
ABOUT = 0.01
"""Loops whose samples differ by no more than this share are alike, as the folds of one set are."""
# Keras builds a network, and so knows its parameters, with the first batch.
_MOST_HELD = 8
# Keras numbers the networks that were given no name.
_NUMBER = re.compile(r"_\d+$")


def network_of(model: Model) -> str | None:
    """Return what a network is called, without the number that tells it from others of its kind."""
    if model.network is None or model.parameters is None:
        return model.network
    return _NUMBER.sub("", model.network)


def are_alike(one: Model, other: Model) -> bool:
    """Return whether two loops do the same: network, batch and samples are the same."""
    if one.samples_per_epoch is None or other.samples_per_epoch is None:
        same_length = one.samples_per_epoch == other.samples_per_epoch
        same_length = same_length and one.steps_per_epoch == other.steps_per_epoch
    else:
        most = max(one.samples_per_epoch, other.samples_per_epoch)
        apart = abs(one.samples_per_epoch - other.samples_per_epoch)
        same_length = apart <= max(1, ABOUT * most)
    return same_length and (
        (network_of(one), one.parameters, one.batch_size)
        == (network_of(other), other.parameters, other.batch_size)
    )


class Loop:
    """Loops that are alike: what their batches and epochs came to."""

    def __init__(self, model: Model | None = None) -> None:
        self.model = model
        """As it was described last."""
        self.count = 1
        """So many of the script's loops it is."""
        self.steady = SteadyState()
        self.validations = ValidationPasses()
        self.epochs: dict[int, Epoch] = {}
        """By when each began."""
        self.held: list[tuple[Batches | BatchSummary, bool]] = []
        """The first batches, as long as the network isn't known."""
        self.compiling = {0 if model is None else model.first_epoch or 0}
        """The epochs in which it compiles."""
        self._validations_before = self.validations

    def again(self, model: Model) -> None:
        """Go on as another of the script's loops; another network compiles anew."""
        if self.model is not None and self.model.network != model.network:
            self.steady.compile_again()
            self.compiling.add(model.first_epoch or 0)
        self.model = model
        self.count += 1

    def add(self, record: Batches | BatchSummary, opening: bool = False) -> None:
        """Take batches; `opening` as `SteadyState.add` takes it."""
        if (self.model is None or self.model.parameters is None) and len(self.held) < _MOST_HELD:
            self.held.append((record, opening))
        if isinstance(record, BatchSummary):
            self.steady.add_summary(record, opening)
            return
        self.steady.add(
            *(record.samples, record.dt_us, opening),
            *(record.opening_us, record.per_execution or 1, record.first),
            wait_us=record.wait_us,
        )

    def add_epoch(self, epoch: Epoch) -> None:
        """Take an epoch that has ended, or that is known to have been validated."""
        before = self.epochs.get(epoch.begin)
        known = None if before is None else before.validation
        self.epochs[epoch.begin] = epoch
        if epoch.validation is None or epoch.validation == known:
            return
        if known is not None:
            # There is more of it now.
            self.validations = self._validations_before
        self._validations_before = copy(self.validations)
        self.validations.add(epoch.validation)

    @property
    def compile_s(self) -> float | None:
        """What compiled, that of validations included; None before the first batch."""
        compile_us = self.steady.compile_us()
        return None if compile_us is None else compile_us / 1e6 + self.validations.compile_s

    def whole_s(self, without: Epoch | None = None) -> tuple[list[float], list[float]]:
        """Return what the whole epochs took: those in which it compiled, and the others.

        Args:
            without: one that is not over yet.
        """
        compiled: list[float] = []
        others: list[float] = []
        for epoch in self.epochs.values():
            if epoch.whole and epoch.end > epoch.begin and epoch is not without:
                took_s = (epoch.end - epoch.begin) / 1e9
                (compiled if epoch.epoch in self.compiling else others).append(took_s)
        return compiled, others


class Loops:
    """All loops of one process. The records of models alone say which of them runs."""

    def __init__(self) -> None:
        self.all = [Loop()]
        self.now = self.all[0]
        """The one that runs, or ran last."""

    def begin(self, model: Model) -> None:
        """Take a loop that begins, or what more is known of the one that runs."""
        now = self.now
        if now.model is None:
            now.model, now.compiling = model, {model.first_epoch or 0}
            return
        is_the_same = model.loop is None or model.loop == now.model.loop
        if is_the_same and (model.loop is None or are_alike(now.model, model)):
            now.model = model
            return
        alike = self.alike(model)
        if is_the_same and now.count == 1:
            if alike is None:
                now.model, now.held = model, []
                return
            # It was not known yet that it is like an earlier one.
            self.all.remove(now)
        if alike is not None:
            alike.again(model)
        elif len(self.all) < MAX_LOOPS:
            alike = Loop(model)
            self.all.append(alike)
        self.now = alike or self.all[-1]
        if is_the_same:
            for record, opening in now.held:
                self.now.add(record, opening)

    def alike(self, model: Model) -> Loop | None:
        known = ((loop, loop.model) for loop in self.all)
        return next((loop for loop, its in known if its and are_alike(its, model)), None)

    def of(self, epoch: Epoch) -> Loop:
        return next((loop for loop in self.all if epoch.begin in loop.epochs), self.now)

    @property
    def number(self) -> int:
        return self.all.index(self.now)

    @property
    def longest(self) -> Loop:
        return max(self.all, key=lambda loop: loop.steady.time_us)

    @property
    def seen(self) -> list[Loop]:
        return [loop for loop in self.all if loop.steady.batches or loop.epochs]
