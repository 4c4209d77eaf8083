"""Machines with GPUs of every vendor, read from made-up files, on the screens of a machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import drm_tree
from fakes.drm_tree import Tree, fdinfo, let_drivers_answer
from fakes.nvml_module import NvmlModule, process
from fakes.recorded import BEGIN_NS, recorded_session
from fakes.screens import Shown, fake_machine
from rich.cells import cell_len

from dlmon.records import GpuState, Machine, Process
from dlmon.sensors.drm.cards import DrmProvider
from dlmon.sensors.gpus import GpuProvider
from dlmon.sensors.nvidia.device import Missing
from dlmon.sensors.nvidia.provider import NvidiaProvider, RuntimePower
from dlmon.sensors.provider import Provider, SensorReading
from dlmon.sensors.sampler import Sampler
from tui.machine.machine import MachinePanel
from tui.watch.watch_screen import WatchScreen

SECOND = 10**9
NO_NVIDIA = Missing("no NVIDIA driver: libnvidia-ml.so.1 was not found", GpuState.NO_DRIVER)
MACHINES = {
    "mixed": (
        NvmlModule("A100"),
        (drm_tree.rx_7900_xtx, drm_tree.arc_a770, drm_tree.uhd_770),
    ),
    "intel": (NO_NVIDIA, (drm_tree.arc_b580,)),
    "intel-and-its-processor": (NO_NVIDIA, (drm_tree.arc_b580, drm_tree.uhd_770)),
    "amd": (NO_NVIDIA, (drm_tree.rx_7900_xtx,)),
    "amd-shared-memory": (NO_NVIDIA, (drm_tree.radeon_8060s,)),
}
NVIDIAS = ("NVIDIA", "NVML", "CUDA", "MIG", "Xid", "NVLink", "SM active", "tensor")
TRAINS = Process(4_300, "ada", "python train.py --lr 1e-3", 97.0, 1_900, gpu_memory_mib=2_048)


class Rest(Provider):
    """All of a recorded machine but its GPUs, and a process on the first of them."""

    def __init__(self):
        header, *records = recorded_session("training", gpus=0)
        self._facts = replace(header.machine, gpus_state=None, gpus=None, why={})
        self._sample = [record for record in records if isinstance(record, Machine)][-1]

    def facts(self):
        return self._facts

    def fast(self, t):
        sample = self._sample
        return SensorReading(
            sample.cpu, sample.memory, sample.disk, sample.network, processes=(TRAINS,)
        )


class MadeUp:
    """A machine that works: its files change from second to second."""

    def __init__(self, root, nvml, makes):
        self.t = BEGIN_NS
        self.tree = Tree(root, *(make() for make in makes))
        for card in self.tree.cards:
            if card.driver == "xe":
                held = fdinfo(card, 3, f"drm-resident-vram0: {TRAINS.gpu_memory_mib} MiB")
                self.tree.open_card(TRAINS.pid, 5, held)
        if isinstance(nvml, NvmlModule):
            nvml.computing = [process(TRAINS.pid, TRAINS.gpu_memory_mib)]
        nvidia = NvidiaProvider(lambda: nvml, power=RuntimePower(root))
        providers = Rest(), GpuProvider(nvidia, DrmProvider(root))
        self._sampler = Sampler(
            providers,
            clock=lambda: self.t,
            wall=lambda: self.t / 1e9,
            cpu_clock=lambda: self.t // 200,
        )

    def records(self):
        """Yield the facts, then the samples of twenty seconds."""
        yield self._sampler.facts(lambda seconds: None)
        for second in range(1, 21):
            self.t += SECOND
            for number, card in enumerate(self.tree.cards):
                self._work(card, number, second)
            sample = self._sampler.sample(self.t)
            rows = (replace(TRAINS, gpus=(0,)),) if second == 1 else None
            yield replace(sample, processes=rows)

    def _work(self, card, number, second):
        """Let a card of Intel's take 120 W, and work in a part of each second."""
        if "energy1_input" in card.hwmon:
            joules = 120_000_000 * second
            self.tree.set_hwmon(card, energy1_input=card.hwmon["energy1_input"] + joules)
        idle = {
            "xe": {"tile0__gt0__gtidle__idle_residency_ms": 1_000 + 250 * second},
            "i915": {f"drm__card{number}__gt__gt0__rc6_residency_ms": 50_000 + 600 * second},
        }
        self.tree.set(card, **idle.get(card.driver, {}))


@pytest.mark.parametrize("name", MACHINES)
async def test_it_looks_right(name, sensing, clock, tmp_path, text_snapshot, monkeypatch):
    nvml, makes = MACHINES[name]
    let_drivers_answer(tmp_path / "root", monkeypatch.setattr)
    shown = Shown(WatchScreen(fake_machine(clock=clock)))
    pictures = {}
    async with shown.on((80, 24)) as pilot:
        panel = shown.screen.query_one(MachinePanel)
        for record in MadeUp(tmp_path / "root", nvml, makes).records():
            clock.now_ns = record.t
            sensing[0].say(record)
            panel.paint()
        for size in ((80, 24), (120, 40)):
            await pilot.resize_terminal(*size)
            for view, keys in (("watch", ()), ("gpus", ("g",))):
                await shown.press(*keys)
                for _ in range(3):
                    panel.paint()
                    await pilot.pause()
                pictures[view, size] = shown.text
                await shown.press(*("q" for _ in keys))
    for (_, size), text in pictures.items():
        assert max(map(cell_len, text.splitlines())) <= size[0]
        if nvml is NO_NVIDIA:
            assert not any(word in text for word in NVIDIAS)
    text = "".join(
        f"{f' {view}, {name}, {width}×{height} ':═^{width}}\n{picture}\n"
        for (view, (width, height)), picture in pictures.items()
    )
    assert text == text_snapshot
