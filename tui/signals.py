"""What a signal does while a loop runs."""

from __future__ import annotations

import asyncio
import os
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


def before_hang_up(say: Callable[[], None]) -> None:
    """Have `say` called when SIGHUP comes; the process then ends by it, as it would have."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        # Started by nohup: nothing ends.
        return

    def end() -> None:
        say()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGHUP)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, end)
