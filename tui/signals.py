"""What a signal to end does while a loop runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping


def on_signals(end: Callable[[int], object], exit_codes: Mapping[signal.Signals, int]) -> None:
    """Call `end` with the exit code of each of these signals; call this on the loop.

    One that is ignored (by nohup, or behind `&` in a script) stays ignored.
    """
    for number, exit_code in exit_codes.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, exit_code)
