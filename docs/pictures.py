"""Draw the pictures of the documentation's pages that need no real run.

    python docs/pictures.py [NAME ...]

The screens are the real ones; what they show is invented, as in the tests (tests/fakes/states.py).
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fakes.screens import until
from fakes.states import STATES, Stage, staged
from textual.widgets import Input

from tui.drawing.themes import DARK, LIGHT
from tui.home.script_form import ScriptForm

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Picture:
    """A state on a screen, and what the picture is called."""

    view: str
    state: str
    title: str
    size: tuple[int, int] = (110, 34)
    theme: str = DARK
    form: bool = False


PICTURES = {
    "own-scripts": Picture(
        "home", "earlier-runs", "F8 on the home screen: a script of your own", form=True
    ),
    "hardware": Picture("gpus", "2-gpus-in-depth", "g on the live screen: every GPU in depth"),
    "measuring": Picture("live", "badges", "a run on a machine that was busy at the start"),
    "settings": Picture("live", "training", 'theme = "dlmon-light"', theme=LIGHT),
    "home": Picture("home", "earlier-runs", "dlmon", (120, 40)),
    "compare": Picture("live", "earlier-runs", "dlmon run cifar10-cnn", (120, 40)),
    "replay": Picture("replay", "completed", "dlmon replay last", (120, 40)),
    "alerts": Picture(
        "live", "stalled", "dlmon attach last: the message is at the flag", (110, 30)
    ),
    "why-slow": Picture("stacks", "stalled-and-over", "S: where every process is", (100, 16)),
    "commands": Picture("sessions", "earlier-runs", "dlmon attach last, then r", (110, 24)),
}


async def draw(picture: Picture) -> str:
    """Return a picture as SVG."""
    with staged(STATES[picture.state], picture.view, theme=picture.theme) as stage:
        async with stage.app.run_test(size=picture.size) as pilot:
            await stage.begin(pilot)
            if picture.form:
                await _fill_in(stage)
            return stage.app.export_screenshot(title=picture.title)


async def _fill_in(stage: Stage) -> None:
    """Open the form for a script, and type a command that is on any machine."""
    await stage.press("f8")
    await until(stage.pilot, lambda: isinstance(stage.app.screen, ScriptForm))
    typed = {"command": "python3 train.py --epochs 3", "name": "baseline"}
    for name, text in typed.items():
        stage.app.screen.query_one(f"#{name}", Input).value = text
    await stage.settle()


if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        text = asyncio.run(draw(PICTURES[name]))
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")
