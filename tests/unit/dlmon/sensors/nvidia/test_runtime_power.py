"""GPUs that sleep are seen without being woken."""

from __future__ import annotations

import pytest
from fakes.nvml_module import NvmlModule

from dlmon.sensors import kernel_files
from dlmon.sensors.nvidia.provider import NvidiaProvider
from dlmon.sensors.nvidia.runtime_power import RuntimePower

SECOND = 1_000_000_000
A, B = "0000:0a:00.0", "0000:0b:00.0"
ASLEEP = "asleep (runtime power management)"


class Machine:
    """A tree of /sys and /proc with cards of NVIDIA's driver."""

    def __init__(self, root):
        self.root = root

    def card(self, bus_id, status="active", control="auto"):
        self._write(f"sys/bus/pci/drivers/nvidia/{bus_id}/class", "0x030000")
        self._write(f"sys/bus/pci/drivers/nvidia/{bus_id}/power/control", control)
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


def asked_of(module, uuid):
    return [call for call in module.calls if call[1] == uuid]


def looked(power):
    power.find_cards()
    power.update()
    return power


def test_cards_are_what_the_driver_manages_and_shows_with(machine, power):
    machine.card(B, "suspended")
    machine.card(A)
    machine._write("sys/bus/pci/drivers/nvidia/0000:0c:00.0/class", "0x068000")  # an NVSwitch
    machine._write("sys/bus/pci/drivers/nvidia/bind", "")
    looked(power)
    assert (power.cards, power.asleep, power.all_asleep) == ((A, B), {B}, False)


def test_where_there_is_no_such_driver_nothing_is_asleep(power):
    looked(power)
    assert (power.cards, power.all_asleep) == ((), False)


@pytest.mark.parametrize("status", ["active", "suspending", "unsupported", "error"])
def test_only_what_is_suspended_is_asleep(machine, power, status):
    machine.card(A, status)
    assert not looked(power).all_asleep


def test_while_every_gpu_sleeps_nvml_is_not_even_loaded(machine, power):
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


def test_a_gpu_that_sleeps_is_not_asked_and_the_others_are(machine, power):
    machine.card(A)
    machine.card(B)
    module = NvmlModule("a", "b")
    provider = NvidiaProvider(lambda: module, power=power)
    provider.facts()
    machine.turns(B, "suspended")
    module.calls.clear()
    for t in range(3):
        awake, asleep = provider.fast(t * SECOND).gpus
        assert awake.utilization_pct == 97
        assert asleep.utilization_pct is None
        assert set(asleep.why.values()) == {ASLEEP}
    provider.slow(3 * SECOND)
    assert not asked_of(module, "b")
    assert "init" not in module.calls
    machine.turns(B, "active")
    _, back = provider.fast(4 * SECOND).gpus
    assert (back.utilization_pct, back.fan_pct) == (97, 35)
    assert provider.notices() == []


def test_a_gpu_that_sleeps_at_the_start_is_not_asked_for_its_handle(machine, power):
    machine.card(A, "suspended")
    machine.card(B)
    module = NvmlModule("a", "b")
    provider = NvidiaProvider(lambda: module, power=power)
    facts = provider.facts()
    assert facts.gpus[0].why["name"] == ASLEEP
    assert facts.gpus[1].name == "GPU b"
    asleep, awake = provider.fast(0).gpus
    assert (asleep.why["power_w"], awake.power_w) == (ASLEEP, 118.0)
    assert not asked_of(module, "a")
    machine.turns(A, "active")
    back, _ = provider.fast(SECOND).gpus
    assert (back.index, back.power_w) == (0, 118.0)
    assert module.calls.count("init") == 1
    assert provider.later_facts().gpus[0].name == "GPU a"


def test_the_gpu_that_a_run_is_going_to_use_may_be_woken_and_no_other(machine, power):
    machine.card(A, "suspended")
    machine.card(B, "suspended")
    module = NvmlModule("a", "b")
    provider = NvidiaProvider(lambda: module, power=power, wake="1")
    asleep, woken = provider.facts().gpus
    assert (asleep.uuid, asleep.why["name"]) == (None, ASLEEP)
    assert woken.name == "GPU b"
    assert not asked_of(module, "a")


def test_where_any_gpu_will_do_none_is_woken_beside_one_that_is_awake(machine, power):
    machine.card(A, "suspended")
    machine.card(B)
    module = NvmlModule("a", "b")
    provider = NvidiaProvider(lambda: module, power=power, wake="any")
    assert [gpu.uuid for gpu in provider.facts().gpus] == [None, "b"]
    assert not asked_of(module, "a")


def test_where_any_gpu_will_do_and_all_sleep_the_first_is_woken(machine, power):
    machine.card(A, "suspended")
    machine.card(B, "suspended")
    module = NvmlModule("a", "b")
    provider = NvidiaProvider(lambda: module, power=power, wake="any")
    assert [gpu.uuid for gpu in provider.facts().gpus] == ["a", None]
    assert not asked_of(module, "b")


def test_a_lost_gpu_does_not_wake_the_one_that_sleeps(machine, power):
    machine.card(A)
    machine.card(B)
    module = NvmlModule("a", "b")
    provider = NvidiaProvider(lambda: module, power=power)
    provider.facts()
    machine.turns(B, "suspended")
    module.errors[None, "a"] = 15
    module.calls.clear()
    for t in range(0, 30, 10):
        lost, asleep = provider.fast(t * SECOND).gpus
        assert (lost.why["power_w"], asleep.why["power_w"]) == ("lost", ASLEEP)
    assert "init" in module.calls
    assert not asked_of(module, "b")
    module.errors.clear()
    machine.turns(B, "active")
    assert [gpu.power_w for gpu in provider.fast(90 * SECOND).gpus] == [118.0, 118.0]


def test_gpus_that_were_seen_before_are_known_by_their_bus_ids(machine, power):
    for card in (A, B, "0000:0c:00.0"):
        machine.card(card)
    module = NvmlModule("a", "b")
    provider = NvidiaProvider(lambda: module, power=power)
    provider.facts()
    machine.turns(B, "suspended")
    module.errors[None, "a"] = 15
    provider.fast(0)
    module.errors.clear()
    module.calls.clear()
    awake, asleep = provider.fast(60 * SECOND).gpus
    assert (awake.power_w, asleep.why["power_w"]) == (118.0, ASLEEP)
    assert "init" in module.calls
    assert not asked_of(module, "b")


def test_a_lost_gpu_is_not_taken_for_the_one_that_sleeps(machine, power):
    machine.card(A)
    machine.card(B, "suspended")
    module = NvmlModule("a", "b")
    module.errors["handle", "a"] = 15
    provider = NvidiaProvider(lambda: module, power=power)
    provider.facts()
    for t in range(3):
        lost, asleep = provider.fast(t * SECOND).gpus
        assert (lost.why["power_w"], asleep.why["power_w"]) == ("lost", ASLEEP)
