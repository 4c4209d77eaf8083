"""The process that sends a running session to a tracker: `python -m dlmon.trackers LOG TO`.

The supervisor writes the result to stdin, and reads notices from stdout. When stdin closes
without a result, what was read is sent. The exit code is 1 if not all was sent.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from pathlib import Path

from dlmon.records import Notice, Result, decode, encode
from dlmon.trackers.sink import GRACE_S, Sink
from dlmon.trackers.tracker_address import address_of_tracker

_POLL_S = 1.0
# Training comes first.
_NICENESS = 10


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write(encode(Notice(time.monotonic_ns(), text)))
        sys.stdout.buffer.flush()


def main() -> None:
    """Send the session until its result comes."""
    os.nice(_NICENESS)
    log, to = sys.argv[1:]
    sink = Sink(Path(log), address_of_tracker(to), _say)
    busy = False
    while not select.select([sys.stdin], [], [], 0 if busy else _POLL_S)[0]:
        busy = sink.step()
    line = sys.stdin.buffer.readline()
    record = decode(line) if line.strip() else None
    is_whole = sink.end(record if isinstance(record, Result) else None, GRACE_S)
    if (text := sink.left_out_text) is not None:
        _say(text)
    sys.exit(not is_whole)


if __name__ == "__main__":
    main()
