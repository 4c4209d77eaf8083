"""What may be said of two times, going by their 95 % intervals. Pure."""

from __future__ import annotations

from dlmon.records import Word

ALIKE_WITHIN = 1.1
"""Times are about the same where no ratio that their intervals allow is larger than this."""

Interval = tuple[float, float]
"""The lowest and the highest that a time may be. One that counts as exact has both alike."""


class Claim(Word):
    """What two intervals allow to be said of the first."""

    FASTER = "faster"
    SLOWER = "slower"
    ALIKE = "about as fast"
    UNCLEAR = "no clear difference"
    UNKNOWN = "how sure is not known"


def claim_of(this: Interval | None, other: Interval | None) -> Claim:
    """Return what may be said of a time beside another; None is an interval that isn't known."""
    if this is None or other is None:
        return Claim.UNKNOWN
    if this[1] < other[0]:
        return Claim.FASTER
    if other[1] < this[0]:
        return Claim.SLOWER
    if max(this[1], other[1]) <= ALIKE_WITHIN * min(this[0], other[0]):
        return Claim.ALIKE
    return Claim.UNCLEAR
