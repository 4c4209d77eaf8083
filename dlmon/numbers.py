"""Read numbers that people type: options, values of a sweep, prices and intervals.

Only ASCII digits are read, without spaces. Python's own `int` and `float` also take Arabic-Indic
digits, underscores, spaces, infinities and "nan".
"""

from __future__ import annotations

import re

MAX_DIGITS = 15

_WHOLE = r"[+-]?([0-9]+|[0-9]{1,3}(,[0-9]{3})+)"
_DECIMAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"


def whole_number(text: str) -> int:
    """Return a whole number such as 64, +2 or 1,024.

    Raises:
        ValueError: the text is not a whole number.
        OverflowError: it has more than `MAX_DIGITS` digits.
    """
    if not re.fullmatch(_WHOLE, text):
        raise ValueError("not a whole number")
    digits = text.replace(",", "")
    if len(digits) > MAX_DIGITS:
        raise OverflowError("too many digits")
    return int(digits)


def decimal_number(text: str) -> float:
    """Return a number such as 0.5, 3. or 1e-05; infinity if it is too large.

    Raises:
        ValueError: the text is not a number.
    """
    if not re.fullmatch(_DECIMAL, text):
        raise ValueError("not a number")
    return float(text)
