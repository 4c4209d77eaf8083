"""Records of batches in which nothing stands out: nearly all of a long log. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.records import Batches


class PlainBatches:
    """Steady batches of one epoch and one size, none of them long, from any number of records.

    What they come to are sums, so they are taken many records at once.

    Args:
        epoch: the one that goes on.
        samples: of each batch; None where that is not known.
        tokens: the same of tokens; None where batches hold none.
        longest_us: the most that one may take, or as many as end together.
        end_ns: when the last batch before them ended.
    """

    def __init__(
        self, epoch: int, samples: int | None, tokens: int | None, longest_us: float, end_ns: int
    ) -> None:
        self.samples, self.tokens = samples, tokens
        self.records: list[Batches] = []
        self.times_us: list[int] = []
        """How long the batches of each record took together."""
        self.ends_ns: list[int] = []
        """When the last batch of each record ended."""
        self._epoch, self._longest_us, self._end_ns = epoch, longest_us, end_ns

    def take(self, record: Batches) -> bool:
        """Take a record, unless something in it stands out; return whether it was taken."""
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
        """When the last batch ended, of them or before them."""
        return self._end_ns

    @property
    def dt_us(self) -> list[Sequence[int]]:
        """How long each batch took, record by record."""
        return [record.dt_us for record in self.records]

    @property
    def waits_us(self) -> list[int | None]:
        """How long the batches of each record waited for data; None where it was not measured."""
        return [record.wait_us for record in self.records]
