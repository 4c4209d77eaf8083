"""The readings of a machine from the log that records them."""

from __future__ import annotations

from dlmon.records import MachineFacts
from dlmon.session.machine_history import MachineHistory
from dlmon.session.source import SLICE_S, SessionSource


class RecordedMachine:
    """The machine of a session, as far as its log is read; a `MachineSource`.

    To start and stop it is to read on, or not: who records goes on either way.

    Args:
        session: where the readings come from.
    """

    status = ""

    def __init__(self, session: SessionSource) -> None:
        self._source = session
        self.is_on = False
        self._since_t = session.session.last_t
        self._noticed = frozenset(session.snapshot().notices)

    @property
    def host(self) -> str | None:
        return self._source.host

    @property
    def interval_s(self) -> float:
        return self.history.interval_s

    @property
    def history(self) -> MachineHistory:
        return self._source.session.machine

    @property
    def facts(self) -> MachineFacts:
        return self._source.session.facts

    @property
    def goes_on(self) -> bool:
        return self._source.running

    @property
    def start_ns(self) -> int:
        return self._source.session.header.t

    @property
    def age_s(self) -> float | None:
        """How old the newest sample is, or was at the end."""
        latest = self.history.latest
        return None if latest is None else max(0, self.now() - latest.t) / 1e9

    def now(self) -> int:
        return self._source.now()

    def start(self) -> None:
        self.is_on = True

    def stop(self) -> None:
        self.is_on = False

    def poll(self) -> list[str]:
        """Read on; return the notices that came since the last call."""
        self._source.poll(SLICE_S)
        notices = self._source.snapshot().notices
        # A notice may be read after a sample of the same moment, or of a later one.
        new = [n.text for n in notices if n not in self._noticed and n.t >= self._since_t]
        self._noticed = frozenset(notices)
        return list(dict.fromkeys(new))
