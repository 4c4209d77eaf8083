"""Read logs in a thread, and end that with the screen that waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Read = TypeVar("Read")


async def read_in_thread(
    read: Callable[[Callable[[float], None]], Read], on_read: Callable[[float], None]
) -> Read:
    """Return what `read` does, in a thread.

    Args:
        read: takes a function that it calls with how much is read, 0 to 1. Where nobody waits any
            more, that function ends it by an exception.
        on_read: is called on the loop with the same.
    """
    loop, is_left = asyncio.get_running_loop(), threading.Event()

    def report(share: float) -> None:
        if is_left.is_set():
            raise asyncio.CancelledError
        loop.call_soon_threadsafe(on_read, share)

    try:
        return await asyncio.to_thread(read, report)
    finally:
        is_left.set()
