"""Let a test of a screen go on when the screen has nothing more to do, however slow the machine is.

Textual's own pilot takes a process for idle that used no CPU time for 20 ms: so does one that
got none, beside other programs. And it waits these 20 ms each time, for each key twice. Before
that it sends a message to every widget, several times a key, and waits for all of them.
"""

from __future__ import annotations

import asyncio

import textual.app
import textual.pilot
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

# A timer that is due so soon belongs to what a test has just done, such as Textual's own before
# it lays out a screen of another size.
SOON_S = 0.02
MOST_ROUNDS = 50


async def until_idle(min_sleep: float = 0, max_sleep: float = 5.0) -> None:
    """Wait until no callback is ready, and no timer due soon but one that comes again and again."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max_sleep
    waited_s = 0.0
    while loop.time() < deadline and waited_s < 2 * SOON_S:
        await asyncio.sleep(0)
        if loop._ready:  # type: ignore[attr-defined]
            continue
        timers = [timer.when() for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        left_s = min(timers, default=deadline) - loop.time()
        if left_s > SOON_S:
            return
        waited_s += max(0.001, left_s)
        await asyncio.sleep(max(0.0, left_s))


async def _once_idle(pilot: Pilot[object]) -> bool:
    """Wait until all messages are handled: then no callback is ready."""
    await until_idle()
    return pilot.app._exception is None


_textuals_pause = Pilot.pause


async def pause(pilot: Pilot[object], delay: float | None = None) -> None:
    """Pause as the pilot does; without a delay, until the screen is painted."""
    await _textuals_pause(pilot, delay)
    if delay is not None:
        return
    for _ in range(MOST_ROUNDS):
        await until_idle()
        if not pilot.app.is_running or not _has_work(pilot.app.screen):
            return
        pilot.app.screen._on_timer_update()


def _has_work(screen: Screen[object]) -> bool:
    return bool(
        screen._callbacks
        or screen._layout_required
        or screen._repaint_required
        or screen._dirty_widgets
    )


def install(monkeypatch) -> None:
    """Have every pilot wait so, and no cursor blink."""
    monkeypatch.setattr(Input.cursor_blink, "_default", False)
    for module in (textual.app, textual.pilot):
        monkeypatch.setattr(module, "wait_for_idle", until_idle)
    monkeypatch.setattr(Pilot, "_wait_for_screen", _once_idle)
    monkeypatch.setattr(Pilot, "pause", pause)
