"""Follow the log of a session, and send what it holds to a tracker.

The log is the queue: while a tracker is down or slow, no more is read than fits a few messages.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from dlmon.log.label import read_label
from dlmon.log.log_follower import LogFollower
from dlmon.records import Batches, BatchSummary, Record, Result, TrackerRun
from dlmon.trackers.points import Row, SessionRows, facts_of
from dlmon.trackers.tracker_address import TrackerAddress
from dlmon.trackers.tracker_connection import TrackerError, TrackerProcess, python_with, pythons_of

NO_STEP_S = 600.0
"""The time after which a script without a step is sent, too."""
GRACE_S = 15.0
"""The time after the end of a run for what is not sent yet."""
BEGIN_S, ANSWER_S = 90.0, 30.0
PAUSES_S = (2.0, 5.0, 15.0, 60.0, 120.0, 300.0)
"""The pauses before further tries; the last one is repeated while the run goes on."""
_MOST_ROWS, _MOST_WAITING = 200, 2000
_AT_ONCE = 256
_LONGEST_ID = 100
_ONE_WRITER = "wandb"
"""The tracker to whose run only one process may write at a time."""


class Sink:
    """Sends the rows of one session to one tracker.

    Args:
        path: the log.
        to: the tracker.
        say: is called with a sentence when sending fails, or works again.
        retries: try again after a failure.
        clock: `time.monotonic`.
        start: starts the process that talks to the tracker.

    Raises:
        LogError: the log can't be read.
    """

    def __init__(
        self,
        path: Path,
        to: TrackerAddress,
        say: Callable[[str], None],
        retries: bool = True,
        clock: Callable[[], float] = time.monotonic,
        start: Callable[[str, str | None], TrackerProcess] = TrackerProcess,
    ) -> None:
        self._path, self._to, self._say, self._clock = path, to, say, clock
        self._retries, self._start = retries, start
        self._follower = LogFollower(path)
        self._header = self._follower.header
        self._rows = SessionRows(self._header)
        self._waiting: deque[Row] = deque()
        self._last: Row | None = None
        self._own_run: TrackerRun | None = None
        """The script's own run in the tracker."""
        self._has_trained = self._is_over = False
        self._process: TrackerProcess | None = None
        self._python: str | None = None
        self._has_begun = False
        self.failures = 0
        """The number of failed tries since the last success."""
        self._next_try_s = 0.0
        self._until_s: float | None = None
        self.sent = 0
        """The number of rows that were sent."""
        self.why_not: str | None = None
        """Why nothing can be sent any more."""

    def step(self) -> bool:
        """Read and send some; return whether there may be more at once."""
        self._read()
        if not self._may_send or (not self._waiting and self._process is not None):
            return not self._is_full and self._follower.read_share is not None
        return self._send(self._send_rows) and bool(self._waiting)

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= _MOST_WAITING

    @property
    def _may_send(self) -> bool:
        """Is it known which run the rows go to, and may it be written to now?"""
        if self._own_run is not None:
            return self._is_over or self._to.tracker != _ONE_WRITER
        if self._has_trained or self._is_full:
            return True
        has_waited = self._waiting and self._waiting[-1].wall - self._header.wall >= NO_STEP_S
        return bool(has_waited) and not self._is_over

    def _read(self) -> None:
        if not self._is_full:
            for record in islice(self._follower.new_records(), _AT_ONCE):
                self._look_for_run(record)
                self._waiting.extend(self._rows.add(record))

    def _look_for_run(self, record: Record) -> None:
        """Note the script's own run in the tracker; most are open before the first step."""
        if isinstance(record, (Batches, BatchSummary)):
            self._has_trained = True
        elif isinstance(record, TrackerRun) and self._own_run is None and not self._has_begun:
            if record.trainer or not self._to.holds(record, self._header.directory):
                return
            self._own_run = record
            if record.tracker == _ONE_WRITER and not self._is_over:
                self._say(
                    f"what is measured goes into the script's own W&B run {record.id} when the "
                    "script has ended: a run takes one writer at a time"
                )

    def end(self, result: Result | None = None, grace_s: float | None = None) -> bool:
        """Send the rest and the final figures; return whether all was sent.

        Args:
            result: the result, if it isn't in the log.
            grace_s: the time for it, of which a tracker that is down gets nothing.
        """
        self._until_s = None if grace_s is None else self._clock() + grace_s
        self._is_over = True
        is_whole = not self.failures and self._send_rest(result)
        if self._process is not None:
            self._process.close()
        self._follower.close()
        return is_whole

    def _send_rest(self, result: Result | None) -> bool:
        is_read = False
        while not is_read or self._waiting:
            self._read()
            if not is_read and self._follower.read_share is None and not self._waiting:
                is_read = True
                if result is not None:
                    self._waiting.extend(self._rows.add(result))
                self._waiting.extend(self._rows.finish())
            may_send = self._may_send or self._follower.read_share is None
            has_to = self._waiting or self._process is None
            if may_send and has_to and not self._send(self._send_rows):
                return False
        return self._send(self._send_outcome)

    def _send(self, send: Callable[[], None]) -> bool:
        """Begin if that wasn't done, and send; return whether it worked."""
        if self.why_not is not None or self._clock() < self._next_try_s:
            return False
        try:
            if self._process is None:
                self._begin()
            send()
        except TrackerError as error:
            self._failed(error)
            return False
        if self.failures:
            self._say(f"{self._to} takes what is measured again")
        self.failures = 0
        return True

    def _begin(self) -> None:
        command, directory = self._header.command or (), self._header.directory
        if self._python is None:
            self._python = python_with(self._to.library, pythons_of(command, directory))
        if self._python is None:
            library = self._to.library
            why = f"neither the script's Python nor dlmon's has it: pip install {library}"
            raise TrackerError(why, lasts=True)
        self._process = self._start(self._python, directory)
        # It names a folder and a run, and a log may be forged.
        id = re.sub(r"[^A-Za-z0-9_-]", "_", self._header.id)[:_LONGEST_ID]
        run = self._own_run
        message = {
            "tracker": self._to.tracker,
            "place": self._to.place,
            "id": id,
            "name": read_label(self._path).name or id,
            "wall": self._header.wall,
            "facts": facts_of(self._header),
            "again": self._has_begun,
            "own": None if run is None else {"id": run.id, "place": run.place, "name": run.name},
        }
        self._ask(message, BEGIN_S)
        self._has_begun = True

    def _send_rows(self) -> None:
        rows = list(islice(self._waiting, _MOST_ROWS))
        if rows:
            self._ask({"rows": rows}, ANSWER_S)
            self._last = rows[-1]
            self.sent += len(rows)
            for _ in rows:
                self._waiting.popleft()

    def _send_outcome(self) -> None:
        outcome, last = self._rows.outcome(), self._last
        message = {
            "figures": outcome.figures,
            "facts": outcome.facts,
            "status": outcome.status,
            "wall": self._header.wall if last is None else last.wall,
            "step": 0 if last is None else last.step,
        }
        self._ask(message, BEGIN_S)

    def _ask(self, message: Mapping[str, Any], most_s: float) -> None:
        assert self._process is not None
        until_s = self._clock() + most_s
        self._process.ask(
            message, until_s if self._until_s is None else min(until_s, self._until_s)
        )

    def _failed(self, error: TrackerError) -> None:
        """Say it the first time, and set the time of the next try."""
        if self._process is not None:
            self._process.close(0.0)
            self._process = None
        if error.lasts or not self._retries:
            self.why_not = str(error)
        if self.why_not is not None or not self.failures:
            for_now = "" if self.why_not is not None or self._until_s is not None else " for now"
            self._say(f"nothing is sent to {self._to}{for_now}: {error}")
        pause_s = PAUSES_S[min(self.failures, len(PAUSES_S) - 1)]
        self._next_try_s = self._clock() + pause_s
        self.failures += 1

    @property
    def left_out_text(self) -> str | None:
        """The sentence about names that are in no row; None if there are none."""
        if not self._rows.names_left_out:
            return None
        return f"{self._to} got the first {len(self._rows.names)} metrics; the others are left out"
