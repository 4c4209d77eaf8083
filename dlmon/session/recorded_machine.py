"""The readings of a machine from the log that records them."""

from __future__ import annotations

from dlmon.session.source import SLICE_S, MachineSource, SessionSource


class RecordedMachine(MachineSource):
    """The machine of a session, as far as its log is read.

    To start and stop it is to read on, or not: who records goes on either way.

    Args:
        session: where the readings come from.
    """

    def __init__(self, session: SessionSource) -> None:
        self._source = session
        self.host = session.host
        self._since_t = session.session.last_t
        self._noticed = frozenset(session.snapshot().notices)
        self._take()

    def _take(self) -> None:
        """Take what is read by now: a replay that goes back in time folds another session."""
        session = self._source.session
        self.history, self.facts, self.start_ns = session.machine, session.facts, session.header.t
        self.interval_s, self.goes_on = session.machine.interval_s, self._source.running

    @property
    def age_s(self) -> float | None:
        """How old the newest sample is, or was at the end."""
        latest = self.history.latest
        return None if latest is None else max(0, self.now() - latest.t) / 1e9

    def now(self) -> int:
        return self._source.now()

    def poll(self) -> list[str]:
        """Read on; return the notices that came since the last call."""
        self._source.poll(SLICE_S)
        self._take()
        notices = self._source.snapshot().notices
        # A notice may be read after a sample of the same moment, or of a later one.
        new = [n.text for n in notices if n not in self._noticed and n.t >= self._since_t]
        self._noticed = frozenset(notices)
        return list(dict.fromkeys(new))
