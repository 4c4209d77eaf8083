"""GPUs of several vendors in one machine."""

from __future__ import annotations

import pytest
from fakes import drm_tree
from fakes.drm_tree import Tree, fdinfo
from fakes.nvml_module import NvmlModule, process

from dlmon.records import GpuState
from dlmon.sensors import kernel_files
from dlmon.sensors.drm.cards import DrmProvider
from dlmon.sensors.gpus import GpuProvider
from dlmon.sensors.nvidia.device import Missing
from dlmon.sensors.nvidia.provider import NvidiaProvider, RuntimePower

SECOND = 10**9


@pytest.fixture(autouse=True)
def sees_every_process(monkeypatch):
    monkeypatch.setattr(kernel_files, "sees_every_process", lambda: True)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "root", drm_tree.rx_7900_xtx(), drm_tree.uhd_770())


def joined(tree, nvml):
    power = RuntimePower(tree.root)
    nvidia = NvidiaProvider(lambda: nvml, power=power)
    return GpuProvider(nvidia, DrmProvider(tree.root))


def test_nvidias_keep_their_numbers_and_the_others_follow(tree):
    nvml = NvmlModule("GPU-a", "GPU-b")
    nvml.computing = [process(100, 300)]
    provider = joined(tree, nvml)
    facts = provider.facts()
    vendors = [(gpu.index, gpu.vendor) for gpu in facts.gpus]
    assert vendors == [(0, "nvidia"), (1, "nvidia"), (2, "amd"), (3, "intel")]
    assert (facts.gpus_state, facts.driver is None) == (GpuState.ANSWERS, False)
    tree.open_card(100, 5, fdinfo(tree.cards[0], 3, "drm-memory-vram: 2 MiB"))
    assert [gpu.utilization_pct for gpu in provider.fast(SECOND).gpus][:3] == [97, 97, 97]
    slow = provider.slow(SECOND)
    assert len(slow.gpus) == 4
    assert slow.gpu_processes == {100: {0: 300, 1: 300, 2: 2}}
    assert provider.later_facts() is None
    assert provider.notices() == []


def test_without_nvidias_driver_only_the_others_are_there(tree):
    provider = joined(tree, Missing("no NVIDIA driver: gone", GpuState.NO_DRIVER))
    facts = provider.facts()
    assert [gpu.index for gpu in facts.gpus] == [0, 1]
    assert {"gpus", "foreign_gpu_processes"}.isdisjoint(facts.why)
    reading = provider.fast(SECOND)
    assert (len(reading.gpus), reading.why, provider.notices()) == (2, {}, [])


def test_a_sleeping_card_of_nvidias_keeps_its_number_and_is_spoken_of(tree):
    card = "sys/bus/pci/drivers/nvidia/0000:07:00.0"
    tree.write(f"{card}/class", "0x030000")
    tree.write(f"{card}/power/runtime_status", "suspended")
    provider = joined(tree, NvmlModule("GPU-a"))
    assert [gpu.index for gpu in provider.facts().gpus] == [1, 2]
    provider.fast(SECOND)
    provider.fast(2 * SECOND)
    assert provider.notices() == ["NVIDIA's GPUs: asleep (runtime power management)"]
    tree.write(f"{card}/power/runtime_status", "active")
    assert [gpu.index for gpu in provider.fast(3 * SECOND).gpus] == [0, 1, 2]
    assert [gpu.index for gpu in provider.later_facts().gpus] == [0, 1, 2]


def test_cards_of_nvidias_are_lost_while_their_driver_is_left_out_and_others_answer(tree):
    for number in (7, 8):
        tree.write(f"sys/bus/pci/drivers/nvidia/0000:0{number}:00.0/class", "0x030200")
    tree.open_card(100, 5, fdinfo(tree.cards[0], 3, "drm-memory-vram: 2 MiB"))
    provider = joined(tree, Missing("lost: the sensors gave no sample", GpuState.LOST))
    assert [gpu.index for gpu in provider.facts().gpus] == [2, 3]
    readings = provider.fast(SECOND), provider.slow(SECOND)
    for reading in readings:
        assert [gpu.state for gpu in reading.gpus[:2]] == [GpuState.LOST] * 2
        assert reading.gpus[1].why["power_w"] == "lost: the sensors gave no sample"
        assert reading.gpus_state == GpuState.ANSWERS
        assert "gpus" not in reading.why
    assert readings[0].gpus[2].utilization_pct == 97
    assert readings[1].gpu_processes == {100: {2: 2}}
    assert provider.notices() == []


def test_with_no_gpu_at_all_nvidias_reason_stays(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    missing = Missing("no NVIDIA driver: gone", GpuState.NO_DRIVER)
    provider = GpuProvider(NvidiaProvider(lambda: missing), DrmProvider(root))
    assert provider.facts().why["gpus"] == "no NVIDIA driver: gone"
    assert provider.fast(SECOND).why == {"gpus": "no NVIDIA driver: gone"}


def test_processes_are_unknown_if_those_of_one_vendor_are(tree):
    nvml = NvmlModule("GPU-a")
    nvml.errors |= {"compute": 4, "graphics": 4}
    provider = joined(tree, nvml)
    provider.facts()
    slow = provider.slow(SECOND)
    assert (slow.gpu_processes, slow.why["gpu_processes"]) == (None, "denied")
