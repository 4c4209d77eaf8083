"""What we change of Textual: as long as it is needed, and that it does what it should."""

import asyncio
import itertools
import random
import re
from typing import ClassVar

import pytest
from fakes.recorded import folded, recorded_session
from fakes.screens import of_this_boot, screen_text
from rich.cells import cell_len
from textual.app import App
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen

from dlmon.records import Output
from tui.textual_internals import PunctualApp, SteadyScreen

SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([^\x1b])")


class Grid:
    """A terminal of one-cell and two-cell characters that knows how to place them, no more."""

    def __init__(self, text, width, height):
        lines = text.split("\n")
        self.cells = [[" "] * width for _ in range(height)]
        for y, line in enumerate(lines):
            self.write(0, y, line)

    def write(self, x, y, text):
        for character in text:
            self.cells[y][x] = character
            if cell_len(character) == 2:
                self.cells[y][x + 1] = ""
            x += cell_len(character)
        return x

    def take(self, sequence):
        x = y = 0
        for numbers, letter, character in SEQUENCE.findall(sequence):
            if letter == "H":
                y, x = (int(number) - 1 for number in numbers.split(";"))
            elif letter:
                assert letter == "m"
            else:
                assert character not in "\r\n"
                x = self.write(x, y, character)

    @property
    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)


@pytest.fixture
def written(monkeypatch):
    """Return a function that notes what an app writes from now on."""

    def note(app):
        sequences = []

        def display(screen, renderable):
            if renderable is not None:
                sequences.append(renderable.render_segments(app.console))

        monkeypatch.setattr(app, "_display", display)
        return sequences

    return note


async def test_what_is_written_gives_the_picture(show_session, written, clock):
    size = (80, 24)
    records = of_this_boot(recorded_session("training", gpus=2, foreign=True))
    clock.now_ns = folded(records).last_t
    draw = random.Random(1)
    keys = ["left", "shift+left", "right", "escape", "minus", "plus", "comma", "f", "up", "home"]
    async with show_session(records, size=size) as shown:
        sequences = written(shown.app)
        grid = Grid(screen_text(shown.app), *size)
        for number in range(10):
            clock.advance(draw.uniform(0.2, 3))
            text = draw.choice(["漢字", "e\u0301", "plain ", "漢"]) * draw.randint(1, 40)
            if number % 3 == 0:
                shown.log.write(Output(shown.follower.now(), "stdout", text))
            await shown.tick()
            await shown.press(draw.choice(keys))
            sequence = "".join(sequences)
            sequences.clear()
            grid.take(sequence)
            assert without_marks(grid.text) == without_marks(screen_text(shown.app))


def without_marks(text):
    """Leave out what takes no cell: the grid above has no place for it."""
    return "".join(character for character in text if cell_len(character) or character == "\n")


@pytest.mark.parametrize("kind", [App, PunctualApp])
async def test_a_timer_fires_though_its_start_was_held_up(kind, monkeypatch):
    fired = asyncio.Event()
    async with kind().run_test() as pilot:
        # Between any two looks at the clock, more time passes than the timer waits.
        seconds = itertools.count()
        monkeypatch.setattr("textual.timer._time.get_time", lambda: float(next(seconds)))
        timer = pilot.app.set_timer(0.001, fired.set)
        await asyncio.wait([timer._task], timeout=60)
        await pilot.pause()
        # Where Textual's own fires as well, ours is not needed any more.
        assert fired.is_set() == (kind is PunctualApp)


MANY = 30


@pytest.mark.parametrize("kind", [Screen, SteadyScreen])
async def test_two_sizes_that_wait_for_a_screen_do_not_follow_each_other_for_ever(kind):
    class Sized(kind):
        heard: ClassVar[list[Size]] = []

        async def on_event(self, event):
            if isinstance(event, Resize):
                self.heard.append(event.size)
            await super().on_event(event)
            if isinstance(event, Resize) and len(self.heard) < MANY:
                # Anything that stands between two of them has both be answered.
                self.call_later(lambda: None)

    async with App().run_test(size=(80, 24)) as pilot:
        screen = Sized()
        await pilot.app.push_screen(screen)
        await pilot.pause()
        screen.heard.clear()
        for size in (Size(90, 30), Size(100, 20)):
            pilot.app._size = size
            screen.post_message(Resize(size, size))
            screen.call_later(lambda: None)
        await pilot.pause()
        # Where Textual's own are few as well, ours is not needed any more.
        assert (len(screen.heard) < MANY) == (kind is SteadyScreen)
        assert screen.size == (100, 20)
