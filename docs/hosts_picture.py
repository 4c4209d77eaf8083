"""Draw docs/hosts.svg: the cards of several machines.

    python docs/hosts_picture.py

The machines are invented, and speak through the links of tests/fakes/hosts.py: there is no fleet
that the picture could be taken of. The screen is the real one.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fakes.hosts import FakeHost, facts, sample, session
from fakes.screens import Clock, OneScreen

from dlmon.records import Process
from tui.hosts.screen import HostsScreen

PICTURE = Path(__file__).with_name("hosts.svg")
TITLE = "dlmon watch gpu1 gpu2 gpu3 gpu4 cpu1 lab@gpu5 (invented machines)"
SIZE = (120, 40)
_SECONDS = 90
_CHANCE = random.Random(1)


def live(
    host: FakeHost, clock: Clock, gpus: int, users: dict[int, str], name: str, memory_gib: int = 80
) -> None:
    """Let a machine have sampled itself for a while: the GPUs with a user are busy."""
    host.connect()
    host.link.report(facts(gpus=gpus, name=name, memory_gib=memory_gib))
    rows = tuple(
        Process(4_000 + gpu, user, f"python3 {user}/train.py", 100.0, 9, gpus=(gpu,))
        for gpu, user in users.items()
    )
    levels = {gpu: _CHANCE.uniform(55, 99) for gpu in users}
    for second in range(_SECONDS, -1, -1):
        moment = sample(clock() - second * 1_000_000_000, gpus, tuple(users), rows)
        wave = 6 * math.sin(second / 9)
        read = tuple(
            replace(
                gpu,
                utilization_pct=round(min(100, levels[gpu.index] + wave + _CHANCE.uniform(-4, 4))),
                memory_used_mib=round(memory_gib * 1024 * levels[gpu.index] / 110),
                power_w=round(4.5 * levels[gpu.index] + _CHANCE.uniform(0, 60)),
                temperature_c=round(40 + levels[gpu.index] / 4),
            )
            if gpu.index in levels
            else gpu
            for gpu in moment.gpus or ()
        )
        cpu = replace(moment.cpu, pct=12 + 3 * len(users) + wave, load_1m=2.0 + 2 * len(users))
        host.link.report(replace(moment, gpus=read or None, cpu=cpu))


def invent(hosts: Sequence[FakeHost], clock: Clock) -> None:
    """Let each machine be in another state."""
    gpu1, gpu2, gpu3, gpu4, cpu1, gpu5 = hosts
    live(gpu1, clock, 8, {0: "ada", 1: "ada", 2: "ada", 5: "grace"}, "NVIDIA H100 80GB HBM3")
    gpu1.run(
        session(
            1,
            workload="resnet50",
            name="night",
            epoch=12,
            epochs=90,
            gpu=0,
            samples_per_second=2_410.0,
        ),
        session(2, workload="vgg16", epoch=None, phase="compiling", samples_per_second=None, gpu=5),
    )
    live(gpu2, clock, 4, {0: "alan", 1: "alan", 2: "alan", 3: "alan"}, "NVIDIA A100-SXM4-80GB")
    gpu2.run()
    live(gpu3, clock, 2, {0: "grace"}, "NVIDIA GeForce RTX 4090", 24)
    gpu3.run(session(3, samples_per_second=31_200.0))
    gpu3.link.fail("gpu3: the connection was closed", retry_s=15)
    live(gpu4, clock, 2, {}, "NVIDIA L40S", 48)
    gpu4.run()
    live(cpu1, clock, 0, {}, "")
    cpu1.run(session(4, workload="imdb-fasttext", epoch=2, samples_per_second=820.0, gpu=None))
    gpu5.link.fail(
        f"{gpu5.name} has a host key that is not known yet: run ssh {gpu5.name} once, and check it",
        may_pass=False,
        retry_s=60,
    )


async def draw() -> str:
    """Return the picture."""
    clock = Clock(1_000_000_000_000)
    names = ("gpu1", "gpu2", "gpu3", "gpu4", "cpu1", "lab@gpu5")
    hosts = [FakeHost(name, clock) for name in names]
    screen = HostsScreen(hosts)
    app = OneScreen(screen)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        invent(hosts, clock)
        for _ in range(2):
            screen.tick()
            await pilot.pause()
        return app.export_screenshot(title=TITLE)


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    PICTURE.write_text(asyncio.run(draw()), encoding="utf-8")
