"""Have warnings name the line of the script, or of a library, that they name without us.

A function that we stand around may warn of the line that called it (`stacklevel=2`), which is ours.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from types import FrameType
from typing import Any

from dlmon.instrument.reporter import hide_this_frame


def leave_out(*folders: str) -> None:
    """Count no frame of code in some folders among the callers that a warning is of."""
    following = warnings.warn

    def level_with_ours(frame: FrameType | None, level: int) -> int:
        """Return the level of a caller where our frames count too, the one of `warn` among them."""
        ours, left = 1, level
        while frame is not None and left > 1:
            frame = frame.f_back
            # Python passes over those of its imports itself.
            if frame is not None and not _is_of_import(frame):
                is_ours = frame.f_code.co_filename.startswith(folders)
                ours += is_ours
                left -= not is_ours
        return level + ours

    @wraps(following)
    def warn(
        message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **named: Any
    ) -> None:
        skipped = named.get("skip_file_prefixes")
        if skipped:
            # From Python 3.12 on.
            named["skip_file_prefixes"] = (*skipped, *folders)
            stacklevel = max(2, stacklevel) + 1
        elif isinstance(stacklevel, int):
            stacklevel = level_with_ours(sys._getframe(1), max(1, stacklevel))
        try:
            following(message, category, stacklevel, source, **named)
        except BaseException as error:
            # A filter makes errors of warnings.
            hide_this_frame(error)
            raise

    # What is pickled with it finds it there.
    warn.__module__ = "warnings"
    # `torch.compile` and TensorFlow's autograph call such a function as it is, without a word.
    warn._torchdynamo_disable = True  # type: ignore[attr-defined]
    warn.autograph_info__ = {}  # type: ignore[attr-defined]
    warnings.warn = warn


def _is_of_import(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return "importlib" in file and "_bootstrap" in file
