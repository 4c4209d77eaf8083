"""Follow all sessions that run, such as those of a log directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from dlmon.log.directory import log_paths, read_entry
from dlmon.log.folder import LogError
from dlmon.records import SessionHeader, Status
from dlmon.session.follower import SessionFollower
from dlmon.session.source import SLICE_S


def running_logs(directory: Path, over: set[Path]) -> list[Path]:
    """Return the logs of running sessions; skip those in `over`, and add finished ones to it."""
    running = []
    for path in log_paths(SessionHeader, directory):
        # A log that has just begun may be unreadable until the next time.
        with contextlib.suppress(LogError, OSError):
            if path in over:
                continue
            status = read_entry(path).status
            if status == Status.RUNNING:
                running.append(path)
            elif status != Status.QUEUED:
                over.add(path)
    return running


class RunningSessions:
    """Running sessions, each followed by its log."""

    def __init__(self) -> None:
        self._by_path: dict[Path, SessionFollower] = {}

    @property
    def followers(self) -> list[SessionFollower]:
        return list(self._by_path.values())

    @property
    def are_read(self) -> bool:
        """True if all logs are read to their ends."""
        return all(follower.read_share is None for follower in self._by_path.values())

    def follow(self, logs: Iterable[Path]) -> None:
        """Read on in these logs, in their order, and leave all others."""
        before, self._by_path = self._by_path, {}
        for path in logs:
            with contextlib.suppress(LogError):
                follower = before.pop(path, None) or SessionFollower(path, by_index=True)
                self._by_path[path] = follower
                follower.poll(SLICE_S)
        for follower in before.values():
            follower.close()

    def close(self) -> None:
        self.follow(())
