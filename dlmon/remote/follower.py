"""Follow a session of another host: its log is copied as it grows, and the copy is followed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dlmon.control import NotControlled
from dlmon.log.directory import NoSuchLog, SessionEntry, SeveralLogs
from dlmon.log.folder import id_of, place_options
from dlmon.records import Record, Status, read_record
from dlmon.remote.link import Link
from dlmon.remote.listing import listed_sessions
from dlmon.remote.mirror import Mirror
from dlmon.remote.ssh import RefusedRequest, SshError
from dlmon.session.follower import SessionFollower


class RemoteFollower(SessionFollower):
    """A session of another host, as seen from the copy of its log; a `SessionSource`.

    Args:
        mirror: the copy, which has to hold the session's first record.
        clock: CLOCK_MONOTONIC in nanoseconds, of this machine.

    Raises:
        LogError: not a log that can be read.
    """

    def __init__(self, mirror: Mirror, clock: Callable[[], int] = time.monotonic_ns) -> None:
        super().__init__(mirror.path, clock, by_index=True)
        self._mirror = mirror
        self.host = mirror.link.host
        self.log_dir_there = mirror.log_dir

    @property
    def link(self) -> Link:
        return self._mirror.link

    @property
    def failure(self) -> str | None:
        """Why its log can't be copied any further, whatever becomes of the connection."""
        return self._mirror.problem

    def status_without_result(self) -> Status:
        # What was copied until the connection was lost says nothing of what became of it since.
        return self._mirror.status or Status.RUNNING

    def now(self) -> int:
        times = self.link.times
        if self.running and self.read_share is None and self.link.is_up and times is not None:
            return max(self.session.last_t, self._clock() + times.monotonic_ns)
        return self.session.last_t

    def stop(self) -> bool:
        """Have it stopped; where its host refuses that, `why_not_stopped` says why."""
        if not self.link.is_up:
            return False
        self._mirror.stop_session()
        return True

    async def ask(self, request: Mapping[str, Any]) -> Sequence[Record]:
        if not self.running:
            return await super().ask(request)
        try:
            session = self.session.header.id
            return await asked_records(self.link, session, request, self.log_dir_there)
        except (RefusedRequest, SshError) as error:
            raise NotControlled(f"{self.host}: {error}") from None

    @property
    def why_not_stopped(self) -> str | None:
        return self._mirror.refusal

    def close(self) -> None:
        self._mirror.close()
        super().close()

    def _find_problem(self) -> str | None:
        if self.running and self._mirror.problem is not None:
            return self._mirror.problem
        if self.running and not self.link.is_up:
            self._without_seconds = _what_is_lost(self.link)
            return lost_text(self.link, self._clock())
        self.loss = self._mirror.loss
        return super()._find_problem() or self._mirror.refusal


def lost_text(link: Link, now_ns: int) -> str:
    """Say since when a host is not connected, and when it is tried again."""
    problem = _what_is_lost(link)
    lost_s = 0 if link.lost_at_ns is None else round((now_ns - link.lost_at_ns) / 1e9)
    if lost_s > 0:
        problem += f", for {lost_s} s"
    if link.retry_at_ns is None:
        return f"{problem}; connecting"
    return f"{problem}; next try in {max(0.0, (link.retry_at_ns - now_ns) / 1e9):.0f} s"


def _what_is_lost(link: Link) -> str:
    return link.problem or f"{link.host} is not connected yet"


async def asked_records(
    link: Link, session: str, request: Mapping[str, Any], log_dir: str | None = None
) -> list[Record]:
    """Return what a session that runs on the host of a link answers to a request.

    Raises:
        RefusedRequest: it refuses, or can't be asked.
        SshError: there is no connection, or it was lost.
    """
    asked = link.ask("control", session=session, request=request, log_dir=log_dir)
    read = [read_record(answer["record"]) async for answer in asked if "record" in answer]
    return [record for record in read if record is not None]


async def find_remote(link: Link, meant: str, log_dir: str | None = None) -> SessionEntry:
    """Return the one session of a host that is meant.

    Raises:
        NoSuchLog: several are meant, or none that can be copied.
        RefusedRequest: none is meant.
        SshError: the connection was lost.
    """
    where = place_options(log_dir, link.host)
    found = await listed_sessions(link, log_dir, meant, where)
    if not found:
        raise NoSuchLog(f"{link.host} lists no session of that name that can be copied")
    if len(found) > 1:
        ids = ", ".join(id_of(session.path) for session in found[:4])
        raise SeveralLogs(f"{len(found)} sessions of {link.host} match: {ids}")
    return found[0]


async def follow_remote(
    link: Link,
    meant: str,
    log_dir: str | None = None,
    show: Callable[[float], None] = lambda share: None,
) -> RemoteFollower:
    """Return the session of a host that is meant, once all that there is of it is copied.

    Args:
        link: the connection to the host.
        meant: its id, its name, a unique prefix of the id, or last.
        log_dir: where sessions live there; None for where they do by default.
        show: is called with how much is copied, 0 to 1.

    Raises:
        NoSuchLog: several are meant, or none that can be copied.
        RefusedRequest: none is meant, or it can't be copied.
        LogError: the copy can't be kept, or is no log.
        SshError: the connection was lost.
    """
    mirror = Mirror(link, await find_remote(link, meant, log_dir), log_dir)
    mirror.start()
    try:
        await mirror.wait_until_copied(show)
        return RemoteFollower(mirror)
    except BaseException:
        mirror.close()
        raise
