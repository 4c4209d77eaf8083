"""One page with a picture of every state of a screen, dark beside light, to be looked at."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Sequence
from pathlib import Path

from tui.drawing.themes import DARK, LIGHT

from .states import STATES, Size, staged

_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>dlmon: {title}</title>
<style>
body {{ margin: 1em; font: 15px sans-serif; background: #888; }}
nav a {{ margin-right: 1em; color: #000; }}
section > div {{ display: grid; grid-template-columns: 1fr 1fr; gap: 1em; }}
svg {{ width: 100%; height: auto; }}
</style>
<h1>{title}</h1>
<nav>{links}</nav>
{sections}
"""


async def picture(name: str, view: str, size: Size, theme: str) -> str:
    """Return a state on a screen as SVG."""
    with staged(STATES[name], view, theme=theme) as stage:
        async with stage.app.run_test(size=size) as pilot:
            await stage.begin(pilot)
            return stage.app.export_screenshot(title=f"{view} {name} {theme}")


def write_gallery(path: Path, names: Sequence[str], view: str, sizes: Sequence[Size]) -> None:
    """Write the page; a link for each state leads to its pictures."""
    sections = []
    for name in names:
        for size in sizes:
            drawn = [asyncio.run(picture(name, view, size, theme)) for theme in (DARK, LIGHT)]
            title = html.escape(f"{name}, {size[0]}×{size[1]}")
            body = "".join(drawn)
            sections.append(f'<section id="{name}"><h2>{title}</h2><div>{body}</div></section>')
    links = " ".join(f'<a href="#{name}">{html.escape(name)}</a>' for name in names)
    page = _PAGE.format(title=html.escape(view), links=links, sections="\n".join(sections))
    path.write_text(page, encoding="utf-8")
