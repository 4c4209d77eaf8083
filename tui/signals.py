"""What a signal does while a loop runs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping


def on_signals(end: Callable[[int], object], exit_codes: Mapping[signal.Signals, int]) -> None:
    """Call `end` with the exit code of each of these signals; call this on the loop.

    One that is ignored (by nohup, or behind `&` in a script) stays ignored.
    """
    for number, exit_code in exit_codes.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, exit_code)


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
