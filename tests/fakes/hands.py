"""A person at a terminal: keys, clicks, the wheel and sizes, as fast as they come."""

from __future__ import annotations

import random
import string

from textual import events
from textual.app import App
from textual.geometry import Size

SMALLEST, LARGEST = Size(60, 16), Size(200, 60)

_ENTERING = ("enter", "escape", "tab", "shift+tab", "backspace", "space", "delete")
_MOVING = ("up", "down", "left", "right", "pageup", "pagedown", "home", "end")
_OTHERS = ("ctrl+p", "ctrl+s", "ctrl+r", "ctrl+y", *(f"f{n}" for n in range(1, 10)))
_KEYS = (*string.ascii_letters, *string.digits, *"?/:,.<>+-=[]é漢", *_OTHERS)
_LEAVING = ("q", "ctrl+q", "ctrl+c")


class Hands:
    """Sends what a terminal would send, and waits for nothing."""

    def __init__(self, app: App[object], seed: int = 0) -> None:
        self._app = app
        self._draw = random.Random(seed)

    def press(self, *keys: str) -> None:
        for key in keys:
            self._send(events.Key(key, key if len(key) == 1 else None))

    def click(self, x: int, y: int, times: int = 1, button: int = 1) -> None:
        for _ in range(times):
            self._send(self._mouse(events.MouseDown, x, y, button))
            self._send(self._mouse(events.MouseUp, x, y, button))

    def scroll(self, x: int, y: int, up: bool) -> None:
        self._send(self._mouse(events.MouseScrollUp if up else events.MouseScrollDown, x, y))

    def move(self, x: int, y: int, button: int = 0) -> None:
        self._send(self._mouse(events.MouseMove, x, y, button))

    def resize(self, size: Size) -> None:
        self._app._driver._size = size
        self._app.post_message(events.Resize(size, size))

    def do_anything(self) -> str:
        """Do something at random; return what it was."""
        draw, (width, height) = self._draw, self._app.size
        x, y = draw.randrange(width), draw.randrange(height)
        kind = draw.choices(("key", "click", "wheel", "move", "size"), (60, 20, 10, 4, 6))[0]
        if kind == "click":
            times = draw.choice((1, 1, 2, 3))
            self.click(x, y, times, draw.choice((1, 1, 1, 3)))
            return f"{times} clicks at {x},{y}"
        if kind == "wheel":
            up = draw.random() < 0.5
            for _ in range(draw.randint(1, 3)):
                self.scroll(x, y, up)
            return f"wheel at {x},{y}"
        if kind == "move":
            self.move(x, y, draw.choice((0, 1)))
            return f"mouse to {x},{y}"
        if kind == "size":
            size = Size(*map(draw.randint, SMALLEST, LARGEST))
            self.resize(size)
            return f"{size.width}x{size.height}"
        key = self._any_key()
        times = draw.choice((1, 1, 1, 2, 5))
        self.press(*[key] * times)
        return f"{times} {key}"

    def _any_key(self) -> str:
        """Return a key that does something here, or any; seldom one that leaves."""
        draw = self._draw
        if draw.random() < 0.02:
            return draw.choice(_LEAVING)
        here = [key for key in self._app.screen.active_bindings if key not in _LEAVING]
        known = draw.choice((here or _MOVING, _MOVING, _ENTERING, _KEYS))
        key = draw.choice(known)
        return "x" if key == "ctrl+z" else key

    def _mouse(self, kind, x, y, button=0):
        return kind(None, x, y, 0, 0, button, False, False, False, x, y)

    def _send(self, event: events.Event) -> None:
        self._app._driver.process_message(event)
