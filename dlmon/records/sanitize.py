"""Clean text that comes from outside, once, at the border.

Process names, host names, output lines, GPU names and log files may hold
escape sequences that a terminal would obey and direction marks that reorder
what a person reads. `records.decode` passes every string through `clean`, so
nothing behind it needs to think of this again. Markup is no concern here:
widgets show foreign text as `Content`, never as markup.
"""

from __future__ import annotations

import os
import re
from functools import cache

LINE_LIMIT = 64 * 1024
SHOWN_LENGTH = 60
"""How much a sentence repeats of a text that somebody typed."""
SHOWN_PATH_LENGTH = 200
"""How much a sentence repeats of a path that leads nowhere."""

# CSI, then OSC / DCS / PM / APC / SOS strings, then the two-byte escapes (ECMA-48, 5.4 to 5.6).
# A string without its terminator ends with its line. No part may run over the next
# introducer, so that a text full of them is read once and not once for each.
_ESCAPE_SEQUENCES = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    r"(?:[^\x07\x18\x1a\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)|[^\x07\x18\x1a\x1b\x80-\x9f\r\n]*)"
    r"|\x1b[ -/]*[0-~]?"
)

# C0 and C1 controls, line and paragraph separators, lone surrogates, interlinear marks, and
# what Unicode calls Default_Ignorable_Code_Point: direction marks, zero-width characters, tags.
# Of these the variation selectors FE00 to FE0F stay, since emoji are written with them.
_INVISIBLE = (
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    # To compile them takes a hundredth of the time until the first paint, which needs neither.
    return re.compile(_ESCAPE_SEQUENCES), re.compile(_INVISIBLE)


def clean(text: str, limit: int = LINE_LIMIT) -> str:
    """Return `text` as one printable line of at most `limit` characters.

    Escape sequences vanish whole, tabs become spaces, other control characters,
    direction marks and zero-width characters are dropped. Only the first `limit`
    characters are read. Text that was cut ends in an ellipsis.
    """
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    escapes, invisible = _patterns()
    cleaned = invisible.sub("", escapes.sub("", text[:limit]).replace("\t", "    "))
    if len(text) <= limit >= len(cleaned):
        return cleaned
    return cleaned[: max(limit - 1, 0)] + "…"[:limit]


def quoted(text: str) -> str:
    """Return what somebody typed as a sentence repeats it: in quotes, cleaned and not too long."""
    return f'"{clean(text, SHOWN_LENGTH)}"'


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path as it may be shown or printed: whoever made a folder chose its name."""
    return clean(os.fspath(path))
