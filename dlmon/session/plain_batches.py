"""Records of unremarkable batches: nearly all of a long log. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.records import Batches


class PlainBatches:
    """Steady batches of one epoch and one size, none of them long, from any number of records.

    Only their sums matter, so the records are added together.

    Args:
        epoch: the current epoch.
        samples: of each batch; None if not known.
        tokens: of each batch; None if it holds none.
        longest_us: the limit for a batch, or for batches that end together.
        end_ns: the end of the last batch before them.
    """

    def __init__(
        self, epoch: int, samples: int | None, tokens: int | None, longest_us: float, end_ns: int
    ) -> None:
        self.samples, self.tokens = samples, tokens
        self.records: list[Batches] = []
        self.times_us: list[int] = []
        """The time of all batches of each record."""
        self.ends_ns: list[int] = []
        """The end of the last batch of each record."""
        self._epoch, self._longest_us, self._end_ns = epoch, longest_us, end_ns

    def take(self, record: Batches) -> bool:
        """Add a record if all its batches are plain; return whether it was added."""
        dt_us = record.dt_us
        if (
            record.epoch != self._epoch
            or record.first == 0
            or record.samples != self.samples
            or record.tokens != self.tokens
            or record.opening_us is not None
            or max(dt_us) * (record.per_execution or 1) > self._longest_us
            or record.trainer
            or record.profiled
        ):
            return False
        time_us = sum(dt_us)
        end_ns = record.t + (time_us - dt_us[0]) * 1000
        if end_ns < self._end_ns:
            return False
        self.records.append(record)
        self.times_us.append(time_us)
        self.ends_ns.append(end_ns)
        self._end_ns = end_ns
        return True

    @property
    def end_ns(self) -> int:
        """The end of the last batch, of these or before them."""
        return self._end_ns

    @property
    def dt_us(self) -> list[Sequence[int]]:
        """The time of each batch, record by record."""
        return [record.dt_us for record in self.records]

    @property
    def waits_us(self) -> list[int | None]:
        """The wait for data of the batches of each record; None if not measured."""
        return [record.wait_us for record in self.records]
