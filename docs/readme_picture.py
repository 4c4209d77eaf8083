"""Record a real run in a terminal, as an animated SVG for the README.

    python docs/readme_picture.py OUT.svg -- run cifar10-cnn --steps 45 --epochs 3

What follows -- are the arguments of dlmon. tmux is the terminal: nothing else has to be installed,
and nothing reaches the network. The SVG holds each row of the screen once for as long as it stood
unchanged, moves by CSS alone, and has a background of its own: it is as readable on a light page
as on a dark one.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

MOST_BYTES = 1_000_000
_CELL_WIDTH, _CELL_HEIGHT, _FONT_SIZE = 8.4, 18, 14
_BACKGROUND = "#121416"
_FOREGROUND = "#dfe4ea"
_LOOKS = re.compile(r"\x1b\[[0-9;:]*m")
_STILL_S = 4.0
"""How long the last picture stands before the animation begins again."""

Row = tuple[tuple[str, Style], ...]


@dataclass(frozen=True)
class Frame:
    """What the terminal showed from a time on, as rows with escape sequences for colours."""

    at_s: float
    rows: tuple[str, ...]


@contextmanager
def terminal(command: Sequence[str], width: int, height: int) -> Iterator[Callable[..., str]]:
    """Run a command in a terminal of that size; yield what asks tmux for something."""
    with tempfile.TemporaryDirectory(prefix="dlmon-picture-") as folder:
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}

        def tmux(*arguments: str) -> str:
            return subprocess.run(
                ["tmux", "-u", "-f", os.devnull, "-S", f"{folder}/tmux", *arguments],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout

        size = ("-x", str(width), "-y", str(height))
        tmux("new-session", "-d", *size, "env", "COLORTERM=truecolor", *command)
        # What ended is still to be seen.
        tmux("set-option", "-g", "remain-on-exit", "on")
        tmux("set-option", "-g", "status", "off")
        tmux("resize-window", *size)
        try:
            yield tmux
        finally:
            tmux("kill-server")


def self_contained(rows: Sequence[str]) -> tuple[str, ...]:
    """Return rows that each begin with the look that tmux goes on with from the row before."""
    found, carried = [], ""
    for row in rows:
        found.append(carried + row)
        for sequence in _LOOKS.findall(row):
            resets = sequence[2:-1].partition(";")[0] in ("", "0")
            carried = sequence if resets else carried + sequence
    return tuple(found)


def record(
    command: Sequence[str], width: int, height: int, every_s: float, most_s: float, until: str
) -> list[Frame]:
    """Return what a terminal shows, one frame for each change, until a word stands in it."""
    frames: list[Frame] = []
    with terminal(command, width, height) as tmux:
        begin = time.monotonic()
        seen_at = None
        while (now := time.monotonic() - begin) < most_s:
            rows = self_contained(tmux("capture-pane", "-e", "-p").split("\n")[:height])
            plain = Text.from_ansi("\n".join(rows)).plain
            if plain.strip() and (not frames or frames[-1].rows != rows):
                frames.append(Frame(now, rows))
            if seen_at is None and until in plain:
                seen_at = now
            if seen_at is not None and now > seen_at + 2 * every_s:
                break
            time.sleep(every_s)
    return frames


def styled(row: str) -> Row:
    """Return the runs of a row that look alike."""
    segments = Text.from_ansi(row).render(Console())
    return tuple((part.text, part.style or Style.null()) for part in segments if part.text != "\n")


def _hex(color: Color | None, otherwise: str, foreground: bool = True) -> str:
    if color is None or color.is_default:
        return otherwise
    return color.get_truecolor(DIMMED_MONOKAI, foreground).hex


def drawn_row(row: str, y: int, name_of: Callable[[str], str]) -> str:
    """Return a row as SVG: what lies behind its text, and its text."""
    behind, texts, x = [], [], 0
    for text, style in styled(row):
        cells = cell_len(text)
        front, back = _hex(style.color, _FOREGROUND), _hex(style.bgcolor, _BACKGROUND, False)
        if style.reverse:
            front, back = back, front
        left, width = round(x * _CELL_WIDTH, 1), round(cells * _CELL_WIDTH, 1)
        if back != _BACKGROUND:
            behind.append(
                f'<rect x="{left:g}" y="{y * _CELL_HEIGHT}" width="{width:g}" '
                f'height="{_CELL_HEIGHT}" class="{name_of(f"fill:{back}")}"/>'
            )
        if text.strip():
            bold = ";font-weight:bold" if style.bold else ""
            stripped = text.lstrip()
            left = round((x + cells - cell_len(stripped)) * _CELL_WIDTH, 1)
            stripped = stripped.rstrip()
            length = round(cell_len(stripped) * _CELL_WIDTH, 1)
            texts.append(
                f'<text x="{left:g}" y="{y * _CELL_HEIGHT + _FONT_SIZE}" textLength="{length:g}" '
                f'class="{name_of(f"fill:{front}{bold}")}">{html.escape(stripped)}</text>'
            )
        x += cells
    return "".join((*behind, *texts))


def animated(frames: Sequence[Frame], width: int, height: int, title: str) -> str:
    """Return frames as an SVG that plays them again and again, without a script."""
    begin = frames[0].at_s
    lasts_s = frames[-1].at_s - begin + _STILL_S
    names: dict[str, str] = {}

    def name_of(style: str) -> str:
        return names.setdefault(style, f"c{len(names)}")

    starts = [frame.at_s - begin for frame in frames] + [lasts_s]
    groups, rules = [], []
    for y in range(height):
        # Each stretch of time in which the row stood unchanged.
        first = 0
        for number in range(1, len(frames) + 1):
            same = number < len(frames) and frames[number].rows[y] == frames[first].rows[y]
            if same:
                continue
            body = drawn_row(frames[first].rows[y], y, name_of)
            shown, hidden = (100 * starts[at] / lasts_s for at in (first, number))
            if body and (shown, hidden) == (0, 100):
                groups.append(f"<g>{body}</g>")
            elif body:
                name = f"k{len(rules)}"
                before = "" if shown == 0 else "0%{visibility:hidden}"
                rules.append(
                    f"@keyframes {name}{{{before}{shown:.2f}%{{visibility:visible}}"
                    f"{hidden:.2f}%,100%{{visibility:"
                    f"{'visible' if hidden == 100 else 'hidden'}}}}}"
                )
                groups.append(f'<g style="animation-name:{name}" class="a">{body}</g>')
            first = number
    across, down = round(width * _CELL_WIDTH + 16), height * _CELL_HEIGHT + 16
    classes = "".join(f".{name}{{{style}}}" for style, name in names.items())
    font = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across} {down}" role="img">'
        f"<title>{html.escape(title)}</title><style>"
        f"text{{font:{_FONT_SIZE}px {font};white-space:pre}}"
        f".a{{visibility:hidden;animation:{lasts_s:.2f}s step-end infinite}}"
        f"{classes}{''.join(rules)}</style>"
        f'<rect width="{across}" height="{down}" rx="8" fill="{_BACKGROUND}"/>'
        f'<g transform="translate(8 8)">{"".join(groups)}</g></svg>\n'
    )


def main() -> None:
    """Record, and write what is asked for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--size", default="110x32", metavar="WIDTHxHEIGHT")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--most", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--until", default=" completed", help="what stands there at the end")
    parser.add_argument("arguments", nargs="+", metavar="-- ARGUMENTS")
    asked = parser.parse_args()
    width, height = map(int, asked.size.split("x"))
    title = shlex.join(["dlmon", *asked.arguments])
    command = [sys.executable, "-c", "from tui.start import main; main()", *asked.arguments]
    frames = record(command, width, height, asked.every, asked.most, asked.until)
    picture = animated(frames, width, height, title)
    asked.svg.write_text(picture, encoding="utf-8")
    size = len(picture.encode())
    print(f"{len(frames)} frames, {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES:,} bytes: record less, or at a smaller size")


if __name__ == "__main__":
    main()
