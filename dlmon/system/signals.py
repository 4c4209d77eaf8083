"""What a signal does while a loop runs."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from dlmon.exit_codes import FAILED, INTERRUPTED_BY_USER

EXIT_CODES: Mapping[signal.Signals, int] = {
    signal.SIGINT: INTERRUPTED_BY_USER,
    signal.SIGTERM: FAILED,
    signal.SIGHUP: FAILED,
}
"""What to exit with after a signal."""

_SIGNAL_COMES_WITHIN_S = 0.5
_Done = TypeVar("_Done")


def on_signals(
    end: Callable[[int], object], numbers: Iterable[signal.Signals] = tuple(EXIT_CODES)
) -> None:
    """Call `end` with the exit code of each of these signals; call this on the loop.

    One that is ignored (by nohup, or behind `&` in a script) stays ignored.
    """
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, EXIT_CODES[number])


async def done_or_signalled(waited_for: Coroutine[Any, Any, _Done]) -> tuple[_Done | None, int]:
    """Wait for something, or for a signal that ends that; return what came of it, and an exit code.

    The code is 0 where no signal came.
    """
    waiting, signalled = asyncio.ensure_future(waited_for), [0]

    def end(exit_code: int) -> None:
        signalled[0] = exit_code
        waiting.cancel()

    on_signals(end)
    try:
        return await waiting, 0
    except asyncio.CancelledError:
        if not signalled[0]:
            raise
        return None, signalled[0]


def end_with_terminal(say: Callable[[], None]) -> None:
    """Call `say` and end the process where its terminal is closed; call this on the loop.

    Where SIGHUP comes, it ends by that. A process that does not lead its terminal's session
    gets none: it would paint into the void, and Textual would read from it without a pause.
    """

    def end() -> None:
        say()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGHUP)

    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # which nohup has it be
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, end)

    def watch() -> None:
        terminal = select.poll()
        terminal.register(sys.stdin.fileno(), 0)  # of a hang-up it says so unasked
        terminal.poll()
        # The loop may wait for a writer that is gone, so it is not asked for anything.
        time.sleep(_SIGNAL_COMES_WITHIN_S)
        say()
        os._exit(FAILED)

    threading.Thread(target=watch, name="terminal", daemon=True).start()
