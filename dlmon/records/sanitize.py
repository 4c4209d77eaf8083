"""Clean text that comes from outside, once, as it is read.

Process names, host names, output lines, GPU names and log files may contain escape sequences,
which a terminal would obey, and direction marks, which reorder text on screen. `records.decode`
passes every string through `clean`, so its callers need not. Markup is not removed: widgets show
foreign text as `Content`, never as markup.
"""

from __future__ import annotations

import os
import re
from functools import cache

LINE_LIMIT = 64 * 1024
SHOWN_LENGTH = 60
"""The most characters of a typed text that a sentence repeats."""
SHOWN_PATH_LENGTH = 200
"""The most characters of a wrong path that a sentence repeats."""

# CSI, then OSC / DCS / PM / APC / SOS strings, then the two-byte escapes (ECMA-48, 5.4 to 5.6).
# A string without its terminator ends with its line. No part may match past the next
# introducer, so that matching takes linear time.
_ESCAPE_SEQUENCES = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    r"(?:[^\x07\x18\x1a\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)|[^\x07\x18\x1a\x1b\x80-\x9f\r\n]*)"
    r"|\x1b[ -/]*[0-~]?"
)

# C0 and C1 controls, line and paragraph separators, lone surrogates, interlinear marks, and
# Unicode's Default_Ignorable_Code_Point: direction marks, zero-width characters, tags. The
# variation selectors FE00 to FE0F stay: emoji contain them.
_INVISIBLE = (
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    # Compiled on first use: that takes 1 % of the time to the first paint, which needs neither.
    return re.compile(_ESCAPE_SEQUENCES), re.compile(_INVISIBLE)


def clean(text: str, limit: int = LINE_LIMIT) -> str:
    """Return `text` as one printable line of at most `limit` characters.

    Tabs become spaces; escape sequences, other control characters, direction marks and zero-width
    characters are removed. Only the first `limit` characters are read, and
    cut text ends in an ellipsis.
    """
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    escapes, invisible = _patterns()
    cleaned = invisible.sub("", escapes.sub("", text[:limit]).replace("\t", "    "))
    if len(text) <= limit >= len(cleaned):
        return cleaned
    return cleaned[: max(limit - 1, 0)] + "…"[:limit]


def quoted(text: str) -> str:
    """Return a typed text for use in a sentence: quoted, cleaned and cut."""
    return f'"{clean(text, SHOWN_LENGTH)}"'


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path cleaned for display: its creator may have put anything into it."""
    return clean(os.fspath(path))
