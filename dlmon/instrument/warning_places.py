"""Make warnings name the same line of the script or a library as without dlmon.

A function that we wrap may warn of the line that called it (`stacklevel=2`), which is ours.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from types import FrameType
from typing import Any

from dlmon.instrument.reporter import hide_this_frame, uncompiled


def leave_out(*folders: str) -> None:
    """Make warnings skip the frames of code in these folders."""
    original_warn = warnings.warn

    def level_with_ours(frame: FrameType | None, level: int) -> int:
        """Return a level raised by our frames below it, including the frame of `warn`."""
        own_frames, frames_left = 1, level
        while frame is not None and frames_left > 1:
            frame = frame.f_back
            # Python itself skips the frames of imports.
            if frame is not None and not _is_of_import(frame):
                is_own = frame.f_code.co_filename.startswith(folders)
                own_frames += is_own
                frames_left -= not is_own
        return level + own_frames

    @uncompiled
    @wraps(original_warn)
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
            original_warn(message, category, stacklevel, source, **named)
        except BaseException as error:
            # A filter turned the warning into an error.
            hide_this_frame(error)
            raise

    # So that it can be pickled by its name.
    warn.__module__ = "warnings"
    # TensorFlow's autograph calls such a function unchanged, without a warning.
    warn.autograph_info__ = {}  # type: ignore[attr-defined]
    warnings.warn = warn


def _is_of_import(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return "importlib" in file and "_bootstrap" in file
