"""Records between two samples: GPUs that were lost, came back, or were found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from dlmon.records import Facts, MachineFacts, Notice
from dlmon.sensors.provider import Provider, merge


@runtime_checkable
class DeviceEventSource(Protocol):
    """A provider whose devices come and go."""

    def later_facts(self) -> MachineFacts | None:
        """Return the facts again if a device was found since they were last returned, else None."""

    def notices(self) -> list[str]:
        """Return a sentence for each loss and each return since the last call."""


class DeviceEvents:
    """What the providers report beside their readings; `facts` are those sent at the start."""

    def __init__(
        self,
        providers: Sequence[Provider],
        facts: Facts,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._sources = [
            provider for provider in providers if isinstance(provider, DeviceEventSource)
        ]
        self._facts = facts
        self._clock, self._wall = clock, wall

    def drain(self) -> Iterator[Facts | Notice]:
        """Yield the records of what happened since the last call."""
        for source in self._sources:
            later = source.later_facts()
            if later is not None:
                machine = merge(self._facts.machine, later)
                self._facts = replace(
                    self._facts, t=self._clock(), wall=round(self._wall(), 2), machine=machine
                )
                yield self._facts
            for text in source.notices():
                yield Notice(self._clock(), text)
