"""How long a run waited for data, where that is measured. Pure."""

from __future__ import annotations

from collections import deque
from typing import Any

from dlmon.records import Batches, BatchSummary
from dlmon.session.limits.find import WINDOW_S

MAX_RECORDS = 4096

_BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


def unmeasured_wait(backend: str | None) -> str:
    """Say that the wait for data is not measured; `backend` is what Keras runs on."""
    where = f" with Keras on {_BACKENDS.get(backend, backend)}" if backend else ""
    return f"waiting for data is not measured{where}"


class DataWait:
    """Folds batches of which is known how long each waited for its data.

    Args:
        kept_s: for how long before the newest `share_before` is to know it.
    """

    def __init__(self, kept_s: float = WINDOW_S) -> None:
        self._kept_ns = int(kept_s * 1e9)
        self.waited_us: int | None = None
        """Of all batches; None where it was not measured."""
        self._recent = deque[tuple[int, int, int]](maxlen=MAX_RECORDS)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the newest: who goes on from an index reads them again."""
        return vars(self) | {"_recent": deque(maxlen=MAX_RECORDS)}

    def fold(self, record: Batches | BatchSummary) -> None:
        if record.wait_us is None:
            return
        took_us, end = record.time_us, record.t_last
        waited_us = min(record.wait_us, took_us)
        self.waited_us = (self.waited_us or 0) + waited_us
        self._recent.append((end, took_us, waited_us))
        while self._recent[0][0] < end - self._kept_ns:
            self._recent.popleft()

    def share_before(self, at_ns: int) -> float | None:
        """Return the share (0 to 1) of the half minute of batches that ended before a moment.

        None where it isn't known.
        """
        before = [record for record in self._recent if record[0] <= at_ns]
        oldest_ns = before[-1][0] - int(WINDOW_S * 1e9) if before else 0
        recent = [(took, waited) for end, took, waited in before if end >= oldest_ns]
        took_us = sum(took for took, _ in recent)
        return sum(waited for _, waited in recent) / took_us if took_us else None
