"""What a signal to end does while a loop runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Mapping

from dlmon.exit_codes import FAILED, INTERRUPTED_BY_USER

EXIT_CODES: Mapping[signal.Signals, int] = {
    signal.SIGINT: INTERRUPTED_BY_USER,
    signal.SIGTERM: FAILED,
    signal.SIGHUP: FAILED,
}
"""What to exit with after a signal."""


def on_signals(
    end: Callable[[int], object], numbers: Iterable[signal.Signals] = tuple(EXIT_CODES)
) -> None:
    """Call `end` with the exit code of each of these signals; call this on the loop.

    One that is ignored (by nohup, or behind `&` in a script) stays ignored.
    """
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, EXIT_CODES[number])
