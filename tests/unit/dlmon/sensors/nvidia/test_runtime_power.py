"""GPUs that sleep are seen without being woken, and idle ones are left to fall asleep."""

from __future__ import annotations

import pytest
from fakes.nvml_module import NvmlModule

from dlmon.sensors import kernel_files
from dlmon.sensors.nvidia.provider import NvidiaProvider
from dlmon.sensors.nvidia.runtime_power import (
    FIRST_IDLE_NS,
    RELEASE_NS,
    ReleaseSchedule,
    RuntimePower,
)

SECOND = 1_000_000_000
A, B = "0000:0a:00.0", "0000:0b:00.0"
ASLEEP = "asleep (runtime power management)"
MAY_SLEEP = "asleep or not: which GPU sleeps is not known"
LET_GO = "idle: left alone, so that it can fall asleep"


class Machine:
    """A tree of /sys and /proc with cards of NVIDIA's driver."""

    def __init__(self, root):
        self.root = root

    def card(self, bus_id, status="active", control="auto", d3="Enabled (fine-grained)"):
        self._write(f"sys/bus/pci/drivers/nvidia/{bus_id}/class", "0x030000")
        self._write(f"sys/bus/pci/drivers/nvidia/{bus_id}/power/control", control)
        self._write(
            f"proc/driver/nvidia/gpus/{bus_id}/power",
            f"Runtime D3 status:          {d3}\nVideo Memory:               Active\n",
        )
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
    assert (power.cards, power.all_asleep, power.may_fall_asleep()) == ((), False, False)


@pytest.mark.parametrize("status", ["active", "suspending", "unsupported", "error"])
def test_only_what_is_suspended_is_asleep(machine, power, status):
    machine.card(A, status)
    assert not looked(power).all_asleep


@pytest.mark.parametrize(
    ("options", "may"),
    [
        ({}, True),
        ({"d3": "Enabled (coarse-grained)"}, True),
        ({"d3": "Disabled by default"}, False),
        ({"d3": "Not supported"}, False),
        ({"control": "on"}, False),
        ({"status": "suspended"}, False),
    ],
)
def test_a_card_may_fall_asleep_if_linux_and_the_driver_both_allow_it(machine, power, options, may):
    machine.card(A, **options)
    assert looked(power).may_fall_asleep() is may


def test_a_rest_begins_after_a_while_of_idleness_in_one_piece():
    rests = ReleaseSchedule()
    assert not rests.should_release(0, idle=True)
    assert not rests.should_release(FIRST_IDLE_NS - 1, idle=False)
    assert not rests.should_release(FIRST_IDLE_NS, idle=True)
    assert rests.should_release(2 * FIRST_IDLE_NS, idle=True)
    assert not rests.is_over(2 * FIRST_IDLE_NS + RELEASE_NS - 1)
    assert rests.is_over(2 * FIRST_IDLE_NS + RELEASE_NS)
    assert not rests.is_over(3 * FIRST_IDLE_NS + RELEASE_NS)


def test_rests_become_rare_while_none_ends_in_sleep():
    rests = ReleaseSchedule()
    begun = [t for t in range(0, 200 * SECOND, SECOND) if rests.should_release(t, idle=True)]
    assert begun == [10 * SECOND, 31 * SECOND, 72 * SECOND, 153 * SECOND]
    rests.fell_asleep()
    begun = [
        t for t in range(200 * SECOND, 215 * SECOND, SECOND) if rests.should_release(t, idle=True)
    ]
    assert begun == [210 * SECOND]


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


def test_where_it_is_not_known_which_gpu_sleeps_none_is_woken(machine, power):
    machine.card(A, "suspended")
    machine.card(B)
    module = NvmlModule("b")  # as in a container that was given one of two GPUs
    provider = NvidiaProvider(lambda: module, power=power)
    assert provider.facts().gpus[0].why["uuid"] == MAY_SLEEP
    for t in range(3):
        assert provider.fast(t * SECOND).gpus[0].why["power_w"] == MAY_SLEEP
    assert not asked_of(module, "b")
    machine.turns(A, "active")
    assert provider.fast(3 * SECOND).gpus[0].power_w == 118.0
    assert provider.later_facts().gpus[0].name == "GPU b"
    assert provider.notices() == []


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


def idle_provider(module, power):
    module.values["utilization"] = 0
    module.computing = []
    provider = NvidiaProvider(lambda: module, power=power)
    provider.facts()
    return provider


def sampled(provider, begin, end):
    """Return the last GPU reported in each second, every fifth of them with the slow tier."""
    reported = []
    for t in range(begin, end):
        reported.append(provider.fast(t * SECOND).gpus[-1])
        if t % 5 == 0:
            provider.slow(t * SECOND)
    return reported


def test_an_idle_gpu_is_let_go_of_so_that_it_falls_asleep(machine, power):
    machine.card(A)
    module = NvmlModule("a")
    provider = idle_provider(module, power)
    reported = sampled(provider, 0, 15)
    assert [gpu.utilization_pct for gpu in reported] == [0] * 11 + [None] * 4
    assert reported[-1].why["power_w"] == LET_GO
    assert "shutdown" in module.calls
    machine.turns(A, "suspended")
    assert sampled(provider, 15, 100)[-1].why["power_w"] == ASLEEP
    assert module.calls.count("init") == 1
    machine.turns(A, "active")
    assert sampled(provider, 100, 101)[0].utilization_pct == 0
    assert provider.notices() == []
    assert provider.later_facts() is None


def test_one_that_does_not_fall_asleep_is_read_again_after_the_rest(machine, power):
    machine.card(A)
    provider = idle_provider(NvmlModule("a"), power)
    reported = [gpu.utilization_pct for gpu in sampled(provider, 0, 60)]
    assert reported == [0] * 11 + [None] * 29 + [0] * 20


@pytest.mark.parametrize(
    "in_use", [{"utilization": 3}, {"processes": True}, {"control": "on"}, {"hidden": True}]
)
def test_a_gpu_that_is_used_or_cannot_sleep_is_never_let_go_of(machine, power, monkeypatch, in_use):
    machine.card(A, control=in_use.get("control", "auto"))
    module = NvmlModule("a")
    on_it = module.computing
    provider = idle_provider(module, power)
    module.values["utilization"] = in_use.get("utilization", 0)
    module.computing = on_it if "processes" in in_use else []
    if "hidden" in in_use:
        monkeypatch.setattr(kernel_files, "sees_every_process", lambda: False)
    assert all(gpu.utilization_pct is not None for gpu in sampled(provider, 0, 60))
    assert "shutdown" not in module.calls


def test_no_gpu_is_let_go_of_while_a_run_is_watched(machine, power):
    machine.card(A)
    watched = [True]
    module = NvmlModule("a")
    module.values["utilization"] = 0
    module.computing = []
    provider = NvidiaProvider(lambda: module, power=power, in_use=lambda: watched[0])
    provider.facts()
    assert all(gpu.utilization_pct == 0 for gpu in sampled(provider, 0, 60))
    watched[0] = False
    assert sampled(provider, 60, 75)[-1].why["power_w"] == LET_GO
    watched[0] = True
    # A run that begins ends the rest.
    assert sampled(provider, 75, 76)[0].utilization_pct == 0
