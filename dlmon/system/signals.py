"""Handle signals, and a closed terminal, on an asyncio loop."""

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
from dlmon.system.this_host import IS_MACOS

EXIT_CODES: Mapping[signal.Signals, int] = {
    signal.SIGINT: INTERRUPTED_BY_USER,
    signal.SIGTERM: FAILED,
    signal.SIGHUP: FAILED,
}
"""The exit code of our process by the signal that ends it."""

_SIGNAL_COMES_WITHIN_S = 0.5
_Result = TypeVar("_Result")


def on_signals(
    end: Callable[[int], object], numbers: Iterable[signal.Signals] = tuple(EXIT_CODES)
) -> None:
    """Call `end` with the exit code when one of these signals arrives; call this on the loop.

    An ignored signal (by nohup, or after `&` in a script) stays ignored.
    """
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, EXIT_CODES[number])


async def done_or_signalled(coroutine: Coroutine[Any, Any, _Result]) -> tuple[_Result | None, int]:
    """Run a coroutine until it is done or a signal ends it; return its result and an exit code.

    Without a signal, the exit code is 0; after one, the result is None.
    """
    task, exit_code = asyncio.ensure_future(coroutine), 0

    def end(code: int) -> None:
        nonlocal exit_code
        exit_code = code
        task.cancel()

    on_signals(end)
    try:
        return await task, 0
    except asyncio.CancelledError:
        if not exit_code:
            raise
        return None, exit_code


def end_with_terminal(report: Callable[[], None]) -> None:
    """Call `report` and end the process once its terminal is closed; call this on the loop.

    A process that does not lead its terminal's session gets no SIGHUP: without this thread it
    would go on painting, and Textual would read the closed terminal in a busy loop.
    """

    def end() -> None:
        report()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGHUP)

    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup ignores it
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, end)

    def watch() -> None:
        terminal = select.poll()
        terminal.register(sys.stdin.fileno(), 0)  # a hang-up is always reported
        terminal.poll()
        # Don't use the loop: it may be blocked by a write to the closed terminal.
        time.sleep(_SIGNAL_COMES_WITHIN_S)
        report()
        os._exit(FAILED)

    # A Mac can't poll a terminal (poll(2)), and sends SIGHUP.
    if not IS_MACOS:
        threading.Thread(target=watch, name="terminal", daemon=True).start()
