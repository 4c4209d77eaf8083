"""Draw the picture of two sides of runs beside each other: comparing.svg.

    python docs/comparing_picture.py

The screen is the real one; the runs are invented, as in the tests.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fakes.recorded import recorded_session, write_log
from fakes.screens import OneScreen

from tui.sessions.compare import CompareScreen

SIZE = (110, 38)


def record(folder: Path, name: str, threads: int, steps_us: Sequence[int]) -> list[Path]:
    """Write a log for each step time, in microseconds; return their paths."""
    logs = []
    for number, step_us in enumerate(steps_us):
        id = f"{name}-{number}"
        header, *records = recorded_session(session_id=id, step_us=step_us, gpus=0)
        header = replace(header, options={**header.options, "threads": threads})
        logs.append(write_log(folder, [header, *records], id))
    return logs


async def draw() -> str:
    """Return the picture."""
    with tempfile.TemporaryDirectory() as folder:
        base = record(Path(folder), "two-threads", 2, (18_000, 18_300, 17_800))
        new = record(Path(folder), "four-threads", 4, (16_400, 16_700, 16_300))
        app = OneScreen(CompareScreen(base, new))
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()
            await pilot.pause()
            return app.export_screenshot(title="dlmon")


if __name__ == "__main__":
    (Path(__file__).parent / "comparing.svg").write_text(asyncio.run(draw()), encoding="utf-8")
