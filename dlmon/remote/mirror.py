"""Copies of other machines' logs, byte for byte, so that all that reads a log reads these.

They lie in the cache, a folder for each host, laid out as a log directory; what is there already
is not sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs

from dlmon.exit_codes import FAILED
from dlmon.log.directory import SessionEntry
from dlmon.log.folder import LogError, id_of, reason_of
from dlmon.log.index import CHECKED_BYTES, place_after
from dlmon.log.label import write_label
from dlmon.private_files import FILE_MODE, own_private_folder
from dlmon.records import Status
from dlmon.remote.connection import Answer
from dlmon.remote.link import Link, Standing
from dlmon.remote.ssh import RefusedRequest, SshError

# What a host sends is foreign. A session of a day takes 250 MB at most, at a sample a second.
LARGEST_LOG_BYTES = 8 << 30
LOOK_S = 0.05
_PLAIN = re.compile(r"[^A-Za-z0-9.-]+")


def mirror_directory(host: str) -> Path:
    """Return the log directory that holds copies of a host's sessions.

    Raises:
        LogError: there is no home directory to keep them in, or others could change them.
    """
    # Hosts of one name after another are told apart by the digest.
    name = f"{_PLAIN.sub('-', host)[:60]}-{hashlib.sha256(host.encode()).hexdigest()[:8]}"
    try:
        cache = Path(platformdirs.user_cache_path("dlmon", appauthor=False))
        for folder in (cache, cache / "hosts", cache / "hosts" / name):
            own_private_folder(folder)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "there is no home directory"
        raise LogError(f"copies of logs can't be kept: {why}; set XDG_CACHE_HOME") from None
    return cache / "hosts" / name


class Mirror:
    """The copy of one session's log, which grows as the log does.

    Args:
        link: the connection to its host.
        listed: the session, as its host lists it.
        log_dir: where sessions live there; None for where they do by default.

    Raises:
        LogError: it can't be kept here.
    """

    def __init__(
        self,
        link: Link,
        listed: SessionEntry,
        log_dir: str | None = None,
    ) -> None:
        self.link = link
        self.status: Status | None = None
        """How the session stands, once all that was there is copied."""
        self.loss: str | None = None
        """What happened to the log, where it is no longer where it was."""
        self.problem: str | None = None
        """Why it can't be copied."""
        self.refusal: str | None = None
        """Why the session could not be stopped, where a stop was asked for."""
        self._session = id_of(listed.path)
        self.log_dir = log_dir
        self._size = 0
        self._folder = mirror_directory(link.host) / self._session
        self._asked = Standing("follow", self._fields, self._take)
        try:
            own_private_folder(self._folder)
            self.path = self._folder / listed.path.name
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self.path, flags, FILE_MODE)
        except OSError as error:
            raise LogError(f"it can't be copied to {self._folder}: {reason_of(error)}") from None
        self._at = os.fstat(self._fd).st_size
        write_label(self.path, listed.label)

    @property
    def share(self) -> float | None:
        """How much of it is copied, 0 to 1; None once that is all."""
        if self.status is not None or self.problem is not None:
            return None
        return min(1.0, self._at / self._size) if self._size else 0.0

    def start(self) -> None:
        self.link.add(self._asked)

    def close(self) -> None:
        self.link.remove(self._asked)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def stop_session(self) -> None:
        """Ask for the session to be stopped; `refusal` says why it was not."""
        self.refusal = None
        self.link.send("stop", self._take_stop, session=self._session, log_dir=self.log_dir)

    def _take_stop(self, answer: Answer) -> None:
        if "lost" in answer:
            self.refusal = f"{self.link.host}: the connection was lost; stop it again"
        elif "error" in answer:
            self.refusal = f"{self.link.host}: {answer['error']}"

    async def wait_until_copied(self, show: Callable[[float], None] = lambda share: None) -> Path:
        """Return the copy once all that was there is in it.

        Args:
            show: is called with how much that is, 0 to 1.

        Raises:
            RefusedRequest: it can't be copied.
            SshError: the connection was lost before, and a person has to do something.
        """
        while (share := self.share) is not None:
            if self.link.needs_person:
                raise SshError(self.link.problem or "", may_pass=False)
            show(share)
            await asyncio.sleep(LOOK_S)
        if self.problem is not None:
            raise RefusedRequest(self.problem, FAILED)
        return self.path

    def _fields(self) -> dict[str, Any]:
        checked = min(self._at, CHECKED_BYTES)
        place = place_after(os.pread(self._fd, checked, self._at - checked), self._at)
        return {
            "session": self._session,
            "log_dir": self.log_dir,
            "file": self.path.name,
            **place._asdict(),
        }

    def _take(self, answer: Answer) -> None:
        if self.problem is not None:
            # It was sent before it was asked for no more.
            return
        try:
            self._follow(answer)
        except OSError as error:
            self._fail(f"the copy of the log can't be written: {reason_of(error)}")
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            self._fail(f"{self.link.host} sent no log that can be copied")

    def _follow(self, answer: Answer) -> None:
        if "error" in answer:
            self._fail(f"{self.link.host}: {answer['error']}")
        elif "file" in answer:
            at, size = int(answer["at"]), int(answer["size"])
            # It goes on where the copy is known to be right, or sends all of it.
            is_copied = 0 <= at <= min(size, os.fstat(self._fd).st_size)
            if answer["file"] != self.path.name or not is_copied:
                raise ValueError
            self._at, self._size = at, size
            if size > LARGEST_LOG_BYTES:
                self._fail(
                    f"the log of {self._session} on {self.link.host} has "
                    f"{size / (1 << 30):.1f} GiB, and no more than "
                    f"{LARGEST_LOG_BYTES >> 30} GiB of a log are copied: replay or report it there"
                )
        elif "text" in answer:
            self._write(int(answer["at"]), answer["text"].encode("latin-1"))
        elif "status" in answer:
            self.status = Status(str(answer["status"]))
            loss = answer.get("loss")
            self.loss = None if loss is None else str(loss)
            if self.status != Status.RUNNING:
                self.refusal = None

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self.link.remove(self._asked)

    def _write(self, at: int, data: bytes) -> None:
        """Put what arrived behind what is there; a copy of something else makes way."""
        if at != self._at or at > os.fstat(self._fd).st_size or at + len(data) > LARGEST_LOG_BYTES:
            raise ValueError
        there = os.pread(self._fd, len(data), at)
        if there != data:
            # Another viewer may copy the same, and be ahead or behind: what is right stays.
            if not data.startswith(there):
                os.ftruncate(self._fd, at)
            done = 0
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], at + done)
        self._at = at + len(data)
