"""GPUs that sleep are seen without being woken."""

from __future__ import annotations

import pytest
from fakes.nvml_module import NvmlModule

from dlmon.sensors import kernel_files
from dlmon.sensors.nvidia.provider import NvidiaProvider, RuntimePower

SECOND = 1_000_000_000
A, B = "0000:0a:00.0", "0000:0b:00.0"
ASLEEP = "asleep (runtime power management)"


class Machine:
    """A tree of /sys and /proc with cards of NVIDIA's driver."""

    def __init__(self, root):
        self.root = root

    def card(self, bus_id, status="active"):
        self._write(f"sys/bus/pci/drivers/nvidia/{bus_id}/class", "0x030000")
        self._write(f"sys/bus/pci/drivers/nvidia/{bus_id}/power/control", "auto")
        self.turns(bus_id, status)

    def turns(self, bus_id, status):
        self._write(f"sys/bus/pci/drivers/nvidia/{bus_id}/power/runtime_status", status)

    def _write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


@pytest.fixture(autouse=True)
def sees_every_process(monkeypatch):
    monkeypatch.setattr(kernel_files, "sees_every_process", lambda: True)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def power(tmp_path):
    return RuntimePower(tmp_path)


def test_they_are_asleep_where_every_card_of_the_driver_is_suspended(machine, power):
    def all_asleep():
        power.find_cards()
        return power.all_asleep

    assert not all_asleep()
    machine.card(B, "suspended")
    machine._write("sys/bus/pci/drivers/nvidia/0000:0c:00.0/class", "0x068000")  # an NVSwitch
    machine._write("sys/bus/pci/drivers/nvidia/bind", "")
    assert all_asleep()
    for status in ("active", "suspending", "unsupported", "error"):
        machine.card(A, status)
        assert not all_asleep()


def test_while_every_gpu_sleeps_none_is_asked_nor_is_nvml_even_loaded_but_for_a_run(machine, power):
    machine.card(A, "suspended")
    loaded = []

    def load():
        loaded.append(NvmlModule("a"))
        return loaded[0]

    provider = NvidiaProvider(load, power=power)
    assert provider.facts().why["gpus"] == ASLEEP
    assert provider.fast(0).why == {"gpus": ASLEEP}
    assert provider.slow(0).gpus is None
    assert loaded == []
    machine.turns(A, "active")
    (reported,) = provider.fast(SECOND).gpus
    assert (reported.utilization_pct, reported.fan_pct) == (97, 35)
    assert provider.later_facts().gpus[0].name == "GPU a"
    assert provider.notices() == []
    machine.turns(A, "suspended")
    loaded[0].calls.clear()
    assert provider.fast(2 * SECOND).why == {"gpus": ASLEEP}
    assert provider.slow(2 * SECOND).gpus is None
    assert loaded[0].calls == []
    # A run wakes them.
    woken = NvidiaProvider(load, power=power, wake=True)
    assert [gpu.uuid for gpu in woken.facts().gpus] == ["a"]
