"""How long a run waited for data, where that is measured. Pure."""

from __future__ import annotations

from collections import deque

from dlmon.records import Batches, BatchSummary
from dlmon.session.limits.find import WINDOW_S

MAX_RECORDS = 4096

_BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


def unmeasured_wait(backend: str | None) -> str:
    """Say that the wait for data is not measured; `backend` is what Keras runs on."""
    where = f" with Keras on {_BACKENDS.get(backend, backend)}" if backend else ""
    return f"waiting for data is not measured{where}"


class DataWait:
    """Folds batches of which is known how long each waited for its data."""

    def __init__(self) -> None:
        self.waited_us: int | None = None
        """Of all batches; None where it was not measured."""
        self._recent: deque[tuple[int, int, int]] = deque(maxlen=MAX_RECORDS)

    def fold(self, record: Batches | BatchSummary) -> None:
        """Take consecutive batches."""
        if record.wait_us is None:
            return
        if isinstance(record, Batches):
            took_us = sum(record.dt_us)
            end = record.t + (took_us - record.dt_us[0]) * 1000
        else:
            took_us, end = record.time_us, record.t_last
        waited_us = min(record.wait_us, took_us)
        self.waited_us = (self.waited_us or 0) + waited_us
        self._recent.append((end, took_us, waited_us))
        while self._recent[0][0] < end - int(WINDOW_S * 1e9):
            self._recent.popleft()

    @property
    def recent_share(self) -> float | None:
        """The share (0 to 1) of the last half minute of batches; None where it isn't known."""
        took_us = sum(took for _, took, _ in self._recent)
        return sum(waited for *_, waited in self._recent) / took_us if took_us else None
