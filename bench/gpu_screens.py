"""Pictures of dlmon's screens on this machine: the live screen, watch, every GPU in depth.

Each is the real command in a pty of 120×40 and of 80×24; Textual itself takes the
picture after so many seconds and ends the app (TEXTUAL_SCREENSHOT), so nothing
here draws anything. FOLDER takes an SVG and a text of each.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import harness
from terminal import Terminal

SIZES = ((120, 40), (80, 24))
GRACE_S = 60.0
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Shot:
    """A screen: its command, the keys that lead to it, and after how many seconds it is taken."""

    name: str
    command: tuple[str, ...]
    keys: str
    after_s: int


def main() -> None:
    arguments = _arguments()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    shots = [shot for shot in _shots(arguments) if shot.name in arguments.only.split(",")]
    # Two runs at once say something of a shared GPU too; more of them say little of a screen.
    for wave in (shots[1:], shots[:1]):
        with ThreadPoolExecutor(max_workers=len(SIZES) * max(1, len(wave))) as at_once:
            sized = [(shot, size) for shot in wave for size in SIZES]
            for line in at_once.map(lambda one: _take(*one, arguments.folder), sized):
                print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--workload", default="cifar10-cnn")
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--backend")
    parser.add_argument("--after", type=int, default=30, metavar="SECONDS", help="of training")
    parser.add_argument(
        "--only", default="live,live-gpu,watch,watch-gpu,watch-processes", metavar="A,B,..."
    )
    return parser.parse_args()


def _shots(arguments: argparse.Namespace) -> tuple[Shot, ...]:
    run = ["run", arguments.workload, "--device", arguments.device, "--epochs", "1000"]
    run += ["--backend", arguments.backend] if arguments.backend else []
    return (
        Shot("live", tuple(run), "", arguments.after),
        Shot("live-gpu", tuple(run), "g", arguments.after),
        Shot("watch", ("watch",), "", 12),
        Shot("watch-gpu", ("watch",), "g", 12),
        Shot("watch-processes", ("watch",), "p", 12),
    )


def _take(shot: Shot, size: tuple[int, int], folder: Path) -> str:
    """Take the picture of a screen, and return a line about it."""
    name = f"{shot.name}-{size[0]}x{size[1]}"
    picture = folder / f"{name}.svg"
    picture.unlink(missing_ok=True)
    command = [harness.dlmon_command(), *shot.command]
    if shot.command[0] == "run":
        command += ["--log-dir", str(folder / "logs")]
    environment = {
        "TEXTUAL_SCREENSHOT": str(shot.after_s),
        "TEXTUAL_SCREENSHOT_LOCATION": str(folder),
        "TEXTUAL_SCREENSHOT_FILENAME": picture.name,
    }
    with Terminal(command, environment=environment, size=size) as terminal:
        time.sleep(shot.after_s / 2)
        terminal.press(shot.keys)
        # It is killed below if it doesn't end by itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            terminal.process.wait(shot.after_s / 2 + GRACE_S)
        words = terminal.last_output
    if not picture.exists():
        return f"{name}: no picture was taken; its last words: {words}"
    lines = text_of(picture)
    picture.with_suffix(".txt").write_text("\n".join(lines) + "\n")
    return f"{name}: {sum(bool(line.strip()) for line in lines)} rows with text"


def text_of(picture: Path) -> list[str]:
    """Return the rows of text that an SVG of Textual's shows."""
    rows: dict[float, list[tuple[float, float, str]]] = {}
    width = 0.0
    for element in ElementTree.parse(picture).iter(f"{SVG}text"):
        text = (element.text or "").replace("\xa0", " ")
        if "clip-path" not in element.attrib or not text:
            continue
        length = float(element.attrib.get("textLength", 0))
        width = max(width, length / len(text))
        rows.setdefault(float(element.attrib["y"]), []).append(
            (float(element.attrib["x"]), length, text)
        )
    lines = []
    for _, parts in sorted(rows.items()):
        line = ""
        for x, _, text in sorted(parts):
            line = line.ljust(round(x / width)) + text
        lines.append(line.rstrip())
    return lines


if __name__ == "__main__":
    harness.run(main)
