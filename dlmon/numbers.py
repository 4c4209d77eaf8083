"""Read numbers as people type them: one rule for every option, sweep, price and interval. Pure.

ASCII digits and no blanks around them. Python's own `int` and `float` take Arabic-Indic
digits, underscores, blanks, infinities and "nan" as well.
"""

from __future__ import annotations

import re

MAX_DIGITS = 15

_WHOLE = r"[+-]?([0-9]+|[0-9]{1,3}(,[0-9]{3})+)"
_DECIMAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"


def whole_number(text: str) -> int:
    """Return a whole number such as 64, +2 or 1,024.

    Raises:
        ValueError: it is none.
        OverflowError: it has more than `MAX_DIGITS` digits.
    """
    if not re.fullmatch(_WHOLE, text):
        raise ValueError("not a whole number")
    digits = text.replace(",", "")
    if len(digits) > MAX_DIGITS:
        raise OverflowError("too many digits")
    return int(digits)


def decimal_number(text: str) -> float:
    """Return a number such as 0.5, 3. or 1e-05; infinite where it is too large.

    Raises:
        ValueError: it is none.
    """
    if not re.fullmatch(_DECIMAL, text):
        raise ValueError("not a number")
    return float(text)
