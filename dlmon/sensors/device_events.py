"""What is worth a record of its own between two samples: GPUs lost, back, or found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from dlmon.records import Facts, MachineFacts, Notice
from dlmon.sensors.provider import Provider, merge


@runtime_checkable
class NewsSource(Protocol):
    """A provider whose devices come and go."""

    def later_facts(self) -> MachineFacts | None:
        """Tell the devices anew if one was found since they were told last, else None."""

    def notices(self) -> list[str]:
        """Return a sentence for each loss and each return since the last call."""


class News:
    """What the providers have to tell beside their readings; `facts` is what was told at first."""

    def __init__(
        self,
        providers: Sequence[Provider],
        facts: Facts,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._sources = [provider for provider in providers if isinstance(provider, NewsSource)]
        self._facts = facts
        self._clock, self._wall = clock, wall

    def since(self) -> Iterator[Facts | Notice]:
        """Yield the records that the last sample gave rise to."""
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
