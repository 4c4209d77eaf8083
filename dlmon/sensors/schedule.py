"""When to take the next sample, and the commands that come over stdin meanwhile."""

from __future__ import annotations

LONGEST_LINE = 4096
FIRST_WINDOW_S = 0.25
"""Over how long the utilisation at the start is measured: long enough to judge a run by it."""
SHORT_WINDOW_S = 0.1
"""The same where somebody waits to see the machine, and nothing is judged by it."""
FIRST_SAMPLE_NS = 250_000_000
"""How soon after the facts the first sample comes, at most: a rate needs some time to be one."""


def first_tick(now: int, interval: int) -> int:
    """Return when to take the first sample, before a whole interval is over.

    All are in nanoseconds.
    """
    return now + min(interval, FIRST_SAMPLE_NS)


def next_tick(start: int, interval: int, now: int) -> int:
    """Return the first tick after `now`. Ticks that were missed are left out.

    Ticks lie at `start` plus whole intervals, so that lateness never adds up.
    All are in nanoseconds.
    """
    return start + interval * ((now - start) // interval + 1)


class LineSplitter:
    """Cut what comes over a pipe into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, text: bytes) -> list[list[str]]:
        *lines, rest = (self._rest + text).split(b"\n")
        self._rest = rest[-LONGEST_LINE:]
        return [line.decode("utf-8", "replace").split() for line in lines]


def watched_pid(words: list[str]) -> int | None:
    """Return the pid in `watch PID`, or None for any other line."""
    if len(words) == 2 and words[0] == "watch" and words[1].isdecimal() and int(words[1]) > 0:
        return int(words[1])
    return None
