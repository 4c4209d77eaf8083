"""What is to be shown of a host: a session that is there, or one that is started there first."""

from __future__ import annotations

from dlmon.launch.job import Job
from dlmon.records.record import record


@record(frozen=True)
class RemoteStart:
    """A session of a host.

    Attributes:
        host: the host.
        session: its id, its name, a unique prefix of the id, or last.
        log_dir: where sessions live there; None for where they do by default.
        job: what is started there first; `session` is then of no account.
    """

    host: str
    session: str = "last"
    log_dir: str | None = None
    job: Job | None = None
