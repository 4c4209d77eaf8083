"""dlmon's screen of a recorded session, as `dlmon attach` opens it, and what it kept waiting.

LOG is the session's log. WAITS is a file that takes, when the screen closes, the
longest time in which the event loop did nothing else, and how long each key
that was pressed waited until it was handled, in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from textual import events

import tui.app
from tui.app import DlmonApp

LOOK_S = 0.002


class WatchedApp(DlmonApp):
    """The app, with its event loop watched."""

    # Textual looks for a style sheet beside the class.
    CSS_PATH = Path(tui.app.__file__).with_name("dlmon.tcss")
    longest_block_ms = 0.0

    def __init__(self, log: Path) -> None:
        """Show a log."""
        super().__init__(log.parent.parent, log)
        self.key_waits_ms: list[float] = []

    def on_mount(self) -> None:
        """Watch from the first screen on."""
        self.run_worker(self._watch_loop())

    async def on_event(self, event: events.Event) -> None:
        """Note how long a key has waited since it was read from the terminal."""
        if isinstance(event, events.Key):
            self.key_waits_ms.append((time.monotonic() - event.time) * 1000)
        await super().on_event(event)

    async def _watch_loop(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(LOOK_S)
            block_ms = (time.monotonic() - before - LOOK_S) * 1000
            self.longest_block_ms = max(self.longest_block_ms, block_ms)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, metavar="LOG")
    parser.add_argument("waits", type=Path, metavar="WAITS")
    arguments = parser.parse_args()
    app = WatchedApp(arguments.log)
    code = app.run_to_exit_code()
    waits = {"longest_block_ms": app.longest_block_ms, "key_waits_ms": app.key_waits_ms}
    arguments.waits.write_text(json.dumps(waits))
    return code


if __name__ == "__main__":
    sys.exit(main())
