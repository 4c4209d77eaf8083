"""Text can be read on what it stands on, as it is really drawn: on every screen, in both themes."""

import pytest
from fakes.states import on_stage

from tui.drawing.themes import DARK, LIGHT

# WCAG 2.2 asks that of text of the usual size.
LEAST = 4.5
SCREENS = [
    ("home", "earlier-runs"),
    ("live", "badges"),
    ("live", "failed"),
    ("live", "lost-gpu"),
    ("sessions", "earlier-runs"),
    ("processes", "2-gpus-in-depth"),
    ("compare", "earlier-runs"),
    ("replay", "training"),
    ("watch", "2-gpus"),
    ("watch", "16-gpus"),
    ("gpus", "in-depth"),
    ("gpus", "2-gpus-in-depth"),
    ("gpus", "8-gpus-in-depth"),
    ("metrics", "training"),
    ("ranks", "waiting-for-rank"),
]


def luminance(color):
    parts = [part / 255 for part in color]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def drawn_text(app):
    """Yield every text that has a letter or a digit, with its two colours."""
    for strip in app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if style is None or style.color is None or style.bgcolor is None:
                continue
            if any(character.isalnum() for character in text):
                front, back = style.color.get_truecolor(), style.bgcolor.get_truecolor()
                yield text.strip(), *((back, front) if style.reverse else (front, back))


@pytest.mark.parametrize(("view", "state"), SCREENS)
async def test_every_text_can_be_read(view, state):
    async with on_stage(state, view) as stage:
        for theme in (DARK, LIGHT):
            stage.app.theme = theme
            await stage.settle()
            drawn = list(drawn_text(stage.app))
            assert drawn
            faint = {text: round(contrast(front, back), 2) for text, front, back in drawn}
            assert {text: ratio for text, ratio in faint.items() if ratio < LEAST} == {}
