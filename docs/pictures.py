"""Draw the pictures of the documentation's pages that need no real run.

    python docs/pictures.py [NAME ...]

The screens are the real ones; what they show is invented, as in the tests (tests/fakes/states.py).
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# Textual reads this at import: the charts have all shades, whatever this terminal can show.
os.environ["TEXTUAL_COLOR_SYSTEM"] = "truecolor"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fakes.hosts import FakeHost, facts, sample, session
from fakes.recorded import recorded_session, write_log
from fakes.screens import Clock, OneScreen, until
from fakes.states import STATES, Stage, staged
from textual.widgets import Input

from dlmon.records import Process
from tui.compare.compare_screen import CompareScreen
from tui.drawing.themes import DARK, LIGHT
from tui.home.run_form import ScriptForm
from tui.hosts.hosts_screen import HostsScreen

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
        "home", "earlier-runs", "E on the home screen: a script of your own", form=True
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
    await stage.press("E")
    await until(stage.pilot, lambda: isinstance(stage.app.screen, ScriptForm))
    typed = {"command": "python3 train.py --epochs 3", "name": "baseline"}
    for name, text in typed.items():
        stage.app.screen.query_one(f"#{name}", Input).value = text
    await stage.settle()


async def draw_comparing() -> str:
    """Return the picture of two sides of runs beside each other."""
    with tempfile.TemporaryDirectory() as folder:
        sides: list[list[Path]] = [[], []]
        for number, step_us in enumerate((18_000, 18_300, 17_800, 16_400, 16_700, 16_300)):
            side, threads = (0, "two-threads") if number < 3 else (1, "four-threads")
            id = f"{threads}-{number % 3}"
            header, *records = recorded_session(session_id=id, step_us=step_us, gpus=0)
            header = replace(header, options={**header.options, "threads": 2 + 2 * side})
            sides[side].append(write_log(Path(folder), [header, *records], id))
        app = OneScreen(CompareScreen(*sides))
        async with app.run_test(size=(110, 38)) as pilot:
            await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()
            await pilot.pause()
            return app.export_screenshot(title="dlmon")


async def draw_hosts() -> str:
    """Return the picture of several machines, a card each."""
    clock = Clock(1_000_000_000_000)
    h100, a100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
    who: dict[str, tuple[str, int, int, dict[int, str], list[Any]]] = {
        "gpu1": (h100, 80, 8, {0: "ada", 1: "ada", 2: "ada", 5: "grace"}, [
            session(1, workload="resnet50", name="night", epoch=12, epochs=90, gpus=[0],
                    rates=_rates(2_410.0)),
            session(2, workload="vgg16", epoch=None, phase="compiling", rates=[],
                    gpus=[5]),
        ]),
        "gpu2": (a100, 80, 4, dict.fromkeys(range(4), "alan"), []),
        "gpu3": ("NVIDIA GeForce RTX 4090", 24, 2, {0: "grace"}, [
            session(3, rates=_rates(31_200.0)),
        ]),
        "gpu4": ("NVIDIA L40S", 48, 2, {}, []),
        "cpu1": ("", 0, 0, {}, [
            session(4, workload="imdb-fasttext", epoch=2, rates=_rates(820.0), gpus=[]),
        ]),
    }  # fmt: skip
    hosts = [FakeHost(name, clock) for name in (*who, "lab@gpu5")]
    screen = HostsScreen(hosts)
    app = OneScreen(screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for host, (name, memory_gib, gpus, users, trained) in zip(
            hosts, who.values(), strict=False
        ):
            _live(host, clock, gpus, users, name, memory_gib)
            host.run(*trained)
        hosts[2].connection.fail("gpu3: the connection was closed", retry_s=15)
        unknown = "has a host key that is not known yet: run ssh lab@gpu5 once, and check it"
        hosts[5].connection.fail(f"lab@gpu5 {unknown}", may_pass=False, retry_s=60)
        for _ in range(2):
            screen.tick()
            await pilot.pause()
        names = " ".join(host.name for host in hosts)
        return app.export_screenshot(title=f"dlmon watch {names} (invented machines)")


def _rates(samples_per_second: float) -> list[dict[str, Any]]:
    return [{"per_second": samples_per_second, "unit": "samples/s"}]


def _live(
    host: FakeHost, clock: Clock, gpus: int, users: dict[int, str], name: str, memory_gib: int
) -> None:
    """Let a machine have sampled itself for a while: the GPUs with a user are busy."""
    host.connect()
    host.connection.report(facts(gpus=gpus, name=name, memory_gib=memory_gib))
    rows = tuple(
        Process(4_000 + gpu, user, f"python3 {user}/train.py", 100.0, 9, gpus=(gpu,))
        for gpu, user in users.items()
    )
    for ago_s in range(90, -1, -1):
        moment = sample(clock() - ago_s * 1_000_000_000, gpus, tuple(users), rows)
        read = []
        for gpu in moment.gpus or ():
            busy_pct = 60 + (gpu.index * 13 + len(name) * 7 + gpus * 5) % 35 + ago_s * 7 % 5
            used_mib = round(memory_gib * 10 * busy_pct)
            busy = {"utilization_pct": busy_pct, "power_w": round(4.5 * busy_pct)}
            busy |= {"memory_used_mib": used_mib, "temperature_c": 40 + busy_pct // 4}
            read.append(replace(gpu, **busy) if gpu.index in users else gpu)
        cpu = replace(moment.cpu, pct=12 + 3 * len(users), load_1m=2.0 + 2 * len(users))
        host.connection.report(replace(moment, gpus=tuple(read) or None, cpu=cpu))


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    drawn = {"comparing": draw_comparing, "hosts": draw_hosts}
    for name in sys.argv[1:] or (*PICTURES, *drawn):
        text = asyncio.run(drawn[name]() if name in drawn else draw(PICTURES[name]))
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")
