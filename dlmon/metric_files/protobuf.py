"""The encoding of protobuf, as far as fields are read from it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

BYTES = 2
_SIZES = {1: 8, 5: 4}


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte, and the place behind it."""
    number = shift = 0
    while data[at] > 0x7F and shift < 63:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | (data[at] & 0x7F) << shift, at + 1


def fields_of(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number and the kind of each field, a value, and the begin of its content.

    The value is a number (kind 0), the place of 8 or 4 bytes (1 and 5), or the end of the content
    (2). Fields after a damaged one are left out.
    """
    at = begin
    while at < end:
        try:
            key, at = varint(data, at)
            kind, content = key & 7, at
            if kind in _SIZES:
                value, at = at, at + _SIZES[kind]
            else:
                value, at = varint(data, at)
                content = at
        except IndexError:
            return
        if kind == BYTES:
            value = at = at + value
        if at > end or kind in (3, 4, 6, 7):
            return
        yield key >> 3, kind, value, content
