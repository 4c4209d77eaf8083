"""The screen of a recorded session, as `dlmon attach` opens it, with its delays measured.

LOG is the session's log. When the screen closes, the file WAITS gets the longest time that the
event loop was blocked, and the time that each key waited to be handled, in milliseconds.

With --seeks, it is the screen of `dlmon replay`. Once the log is read, the screen seeks this many
random moments; WAITS also gets the time until each was drawn, in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from pathlib import Path

from textual import events

import tui.app
from dlmon.cli.start import Start
from dlmon.session.replay import SEEKING_S
from tui.app import DlmonApp
from tui.live.replay_screen import ReplayScreen
from tui.start import collect_seldom

LOOK_S = 0.002
SOUGHT = "all moments were gone to"


class WatchedApp(DlmonApp):
    """The app, with the delays of its event loop measured."""

    # Textual looks for a style sheet beside the class.
    CSS_PATH = Path(tui.app.__file__).with_name("dlmon.tcss")
    longest_block_ms = 0.0

    def __init__(self, log: Path, seeks: int = 0) -> None:
        """Show a log, or play it and seek `seeks` moments."""
        directory = log.parent.parent
        start = Start(directory, replayed=(log,)) if seeks else Start(directory, log=log)
        super().__init__(start)
        self._seeks = seeks
        self.key_waits_ms: list[float] = []
        self.seeks_s: list[float] = []

    def on_mount(self) -> None:
        """Start measuring with the first screen."""
        self.run_worker(self._watch_loop())
        if self._seeks:
            self.run_worker(self._seek())

    async def on_event(self, event: events.Event) -> None:
        """Note how long a key waited since it was read from the terminal."""
        if isinstance(event, events.Key):
            self.key_waits_ms.append((time.monotonic() - event.time) * 1000)
        await super().on_event(event)

    async def _seek(self) -> None:
        """Seek random moments of the session."""
        screen = self.screen
        assert isinstance(screen, ReplayScreen)
        source = screen.source
        while source.ahead_share is not None:
            await source.pause()
        source.stop_clock()
        vary = random.Random(1)
        for _ in range(self._seeks):
            drawn = asyncio.Event()
            began = time.monotonic()
            moment = vary.random() * (source.end_ns - source.start_ns)
            source.seek(source.start_ns + int(moment), SEEKING_S)
            screen.tick()
            while source.read_share is not None:
                await source.pause()
            screen.call_after_refresh(drawn.set)
            await drawn.wait()
            self.seeks_s.append(time.monotonic() - began)
        self.show_notice(SOUGHT)

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
    parser.add_argument("--seeks", type=int, default=0)
    arguments = parser.parse_args()
    # As the command does.
    collect_seldom()
    app = WatchedApp(arguments.log, arguments.seeks)
    code = app.run_to_exit_code()
    waits = {
        "longest_block_ms": app.longest_block_ms,
        "key_waits_ms": app.key_waits_ms,
        "seeks_s": app.seeks_s,
    }
    arguments.waits.write_text(json.dumps(waits))
    return code


if __name__ == "__main__":
    sys.exit(main())
