"""Record the moving picture of the README: a script waits for data, and is mended.

    python docs/readme_picture.py [--python .frameworks/bin/python] [docs/run.svg]

It runs `dlmon exec -- python train.py` twice in tmux, the second time with loader workers, then
`dlmon compare`. The script is a real one of PyTorch, its disk a slow one. Nothing else has to be
installed, and nothing reaches the network. The SVG holds each row of the screen once for as long
as it stood unchanged, moves by CSS alone, and has a background of its own: it is as readable on a
light page as on a dark one.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

MOST_BYTES = 300_000
WIDTH, HEIGHT = 100, 30
PROMPT = "$ "
SCRIPT = '''\
import argparse
import time
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore", message="This DataLoader will create")


class Digits(Dataset):
    """Random digits on a slow disk: each read takes 3 ms."""

    def __len__(self):
        return 2_048

    def __getitem__(self, index):
        time.sleep(0.003)
        label = index % 10
        return torch.randn(784) + label / 5, label


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
torch.set_num_threads(1)
loader = DataLoader(
    Digits(),
    batch_size=32,
    num_workers=args.workers,
    persistent_workers=args.workers > 0,
)
layers = nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
network = nn.Sequential(*layers)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
for epoch in range(args.epochs):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
'''
_CELL_WIDTH, _CELL_HEIGHT, _FONT_SIZE = 8.4, 18, 14
_BACKGROUND = "#121416"
_FOREGROUND = "#dfe4ea"
_LOOKS = re.compile(r"\x1b\[[0-9;:]*m")

Row = tuple[tuple[str, Style], ...]


@dataclass(frozen=True)
class Frame:
    """What the terminal showed, as rows with escape sequences for colours, and for how long."""

    shown_s: float
    rows: tuple[str, ...]


class Terminal:
    """A shell in tmux, and the frames that were kept of it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._socket, self._environment = folder / "tmux", environment
        self.frames: list[Frame] = []
        size = ("-x", str(WIDTH), "-y", str(HEIGHT))
        shell = ("env", "COLORTERM=truecolor", f"PS1={PROMPT}", "bash", "--norc", "--noprofile")
        self.tmux("new-session", "-d", *size, "-c", str(folder), *shell)
        self.tmux("set-option", "-g", "status", "off")
        self.tmux("resize-window", *size)

    def tmux(self, *arguments: str) -> str:
        """Return what tmux prints for a command."""
        return subprocess.run(
            ["tmux", "-u", "-f", os.devnull, "-S", str(self._socket), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def wait_for(self, text: str, most_s: float = 120.0) -> None:
        """Wait until a text stands on the screen.

        Raises:
            TimeoutError: it doesn't come.
        """
        end = time.monotonic() + most_s
        while text not in self.tmux("capture-pane", "-p"):
            if time.monotonic() > end:
                raise TimeoutError(f"{text!r} is not in:\n{self.tmux('capture-pane', '-p')}")
            time.sleep(0.1)

    def wait_for_prompt(self) -> None:
        """Wait until the last line is the shell's prompt."""
        while self.tmux("capture-pane", "-p").rstrip().rpartition("\n")[2] != PROMPT.rstrip():
            time.sleep(0.1)

    def keep(self, shown_s: float, command: str = "") -> None:
        """Keep what stands there now as the next frame, below the command that it comes from."""
        rows = self.tmux("capture-pane", "-e", "-p").split("\n")[:HEIGHT]
        above = [f"\x1b[1m{PROMPT}{command}\x1b[0m"] if command else []
        self.frames.append(Frame(shown_s, self_contained([*above, *rows, ""][: HEIGHT + 1])))

    def run(self, command: str) -> None:
        """Run a command on an empty screen."""
        self.tmux("send-keys", "clear", "Enter")
        time.sleep(0.5)
        self.tmux("send-keys", "-l", command)
        self.tmux("send-keys", "Enter")


def recorded(terminal: Terminal) -> list[Frame]:
    """Return the frames of the two runs and of their comparison."""
    slow, mended = "dlmon exec -- python train.py", "dlmon exec -- python train.py --workers 8"
    terminal.run(slow)
    terminal.wait_for("DATA-BOUND")
    for _ in range(3):
        time.sleep(4)
        terminal.keep(1.5, slow)
    terminal.wait_for(" completed")
    terminal.keep(2, slow)
    terminal.tmux("send-keys", "q")
    terminal.wait_for_prompt()
    terminal.run(mended)
    for epoch in range(2, 6, 2):
        terminal.wait_for(f"epoch {epoch}:")
        terminal.keep(1, mended)
    terminal.wait_for(" completed")
    terminal.keep(2.5, mended)
    terminal.tmux("send-keys", "q")
    terminal.wait_for_prompt()
    terminal.run("dlmon compare last~1 last | head -20")
    time.sleep(1)
    terminal.wait_for_prompt()
    terminal.keep(5)
    return terminal.frames


def self_contained(rows: Sequence[str]) -> tuple[str, ...]:
    """Return rows that each begin with the look that tmux goes on with from the row before."""
    whole, look = [], ""
    for row in rows:
        whole.append(look + row)
        for sequence in _LOOKS.findall(row):
            resets = sequence[2:-1].partition(";")[0] in ("", "0")
            look = sequence if resets else look + sequence
    return tuple(whole)


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


def animated(frames: Sequence[Frame], title: str) -> str:
    """Return frames as an SVG that plays them again and again, without a script."""
    names: dict[str, str] = {}

    def name_of(style: str) -> str:
        return names.setdefault(style, f"c{len(names)}")

    starts = [0.0, *accumulate(frame.shown_s for frame in frames)]
    lasts_s = starts[-1]
    groups, rules = [], []
    for y in range(HEIGHT + 1):
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
    across, down = round(WIDTH * _CELL_WIDTH + 16), (HEIGHT + 1) * _CELL_HEIGHT + 16
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
    """Record, and write the picture."""
    root = Path(__file__).parent.parent
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("svg", type=Path, nargs="?", default=root / "docs" / "run.svg")
    parser.add_argument("--python", type=Path, default=root / ".frameworks" / "bin" / "python")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dlmon-picture-") as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT)
        path = (arguments.python.absolute().parent, Path(sys.executable).parent, os.environ["PATH"])
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "PATH": os.pathsep.join(map(str, path)),
            "XDG_STATE_HOME": f"{folder}/state",
            "XDG_CONFIG_HOME": f"{folder}/config",
        }
        terminal = Terminal(folder, environment)
        try:
            frames = recorded(terminal)
        finally:
            terminal.tmux("kill-server")
    picture = animated(frames, "dlmon exec -- python train.py")
    arguments.svg.write_text(picture, encoding="utf-8")
    size = len(picture.encode())
    print(f"{len(frames)} frames, {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES:,} bytes: keep fewer frames")


if __name__ == "__main__":
    main()
