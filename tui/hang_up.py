"""Say a last word when the terminal is closed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable


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
