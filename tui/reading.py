"""Read a log that is long, and answer keys meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dlmon.session.follower import Viewer

# How long the event loop is kept from everything else, and then left to it. A key goes through
# several queues before it is answered, so it needs more than one turn of the loop.
SLICE_S = 0.015
PAUSE_S = 0.004


async def read_to_end(viewer: Viewer, show: Callable[[str], None] = lambda text: None) -> None:
    """Read all that a log holds, and show how far that is whenever that changes."""
    shown = ""
    while viewer.read_share is not None:
        if (text := reading_text(viewer)) != shown:
            shown = text
            show(text)
        await asyncio.sleep(PAUSE_S)
        viewer.poll(SLICE_S)


def reading_text(viewer: Viewer) -> str:
    """Say how much of the log is read; nothing once it is read to its end."""
    share = viewer.read_share
    return "" if share is None else f"reading the log: {int(share * 100)} %"
