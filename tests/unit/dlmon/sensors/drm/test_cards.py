"""Cards of AMD and Intel, read from made-up trees of /sys and /proc."""

from __future__ import annotations

import errno
import random
from functools import partial

import pytest
from fakes import drm_tree
from fakes.drm_tree import Tree, fdinfo, let_drivers_answer, throttled
from fakes.real_cards import REAL, real_card

from dlmon.records import Gpu, GpuState
from dlmon.sensors.drm import intel_memory
from dlmon.sensors.drm.cards import DrmProvider

SECOND = 10**9


class Machine:
    """A made-up machine, its provider, and a clock."""

    def __init__(self, root, *makes, same_pids=True):
        self.tree = Tree(root, *(make() for make in makes), same_pids=same_pids)
        self.cards = self.tree.cards
        self.provider = DrmProvider(self.tree.root)
        self.facts = self.provider.facts().gpus or ()
        self.t = SECOND

    def fast(self, seconds=1):
        self.t += seconds * SECOND
        return self.provider.fast(self.t).gpus

    def slow(self, seconds=5):
        self.t += seconds * SECOND
        return self.provider.slow(self.t)

    def readings(self):
        """Return what the only card says in both tiers, its rates being known."""
        self.fast()
        self.slow()
        (fast,), (slow,) = self.fast(), self.slow().gpus
        known = {**vars(slow), **{k: v for k, v in vars(fast).items() if v is not None}}
        return Gpu(**{**known, "why": {**slow.why, **fast.why}})


@pytest.fixture
def machine(tmp_path, monkeypatch):
    let_drivers_answer(tmp_path / "root", monkeypatch.setattr)
    return lambda *makes, **more: Machine(tmp_path / "root", *makes, **more)


def test_a_card_of_amds_says_what_a_gpu_of_nvidias_says(machine):
    tower = machine(drm_tree.rx_7900_xtx)
    (facts,), gpu = tower.facts, tower.readings()
    assert (facts.name, facts.vendor, facts.uuid) == (
        "AMD Radeon RX 7900 XTX",
        "amd",
        "GPU-b1d3a9c27f0e4c55",
    )
    assert (facts.memory_mib, facts.memory_kind, facts.bus_id) == (24_560, "own", "0000:03:00.0")
    assert (facts.sm_max_mhz, facts.memory_max_mhz, facts.slowdown_c) == (2219, 1249, 100)
    assert (gpu.utilization_pct, gpu.memory_busy_pct) == (97, 61)
    assert (gpu.memory_used_mib, gpu.gtt_used_mib) == (18_000, 300)
    assert (gpu.power_w, gpu.power_limit_w, gpu.fan_pct) == (339.0, 339.0, 50)
    assert (gpu.temperature_c, gpu.junction_c, gpu.memory_c) == (63, 84, 78)
    assert (gpu.sm_mhz, gpu.memory_mhz, gpu.throttle) == (2482, 1249, ("power cap",))
    assert (gpu.ecc_corrected, gpu.ecc_uncorrected) == (2, 0)
    assert gpu.why["energy_j"] == "not reported here"
    assert gpu.why["tensor_pct"] == "amdgpu does not report it"


def test_the_link_is_that_between_slot_and_card_not_the_one_within_the_card(machine):
    (facts,), gpu = (tower := machine(drm_tree.arc_a770)).facts, tower.readings()
    # The endpoint of such a card always says 2.5 GT/s and one lane.
    assert (gpu.pcie_generation, gpu.pcie_width) == (4, 8)
    assert (facts.pcie_max_generation, facts.pcie_max_width) == (4, 8)


@pytest.mark.parametrize(
    "make", [*drm_tree.AMD, *drm_tree.INTEL, *(partial(real_card, name) for name in REAL)]
)
def test_every_field_has_a_value_or_a_reason(make, machine):
    tower = machine(make)
    gpu = tower.readings()
    for record in (*tower.facts, gpu):
        for name, value in vars(record).items():
            if name not in ("memory_mib", "memory_used_mib"):  # may be the system's
                assert (value is None) == (name in record.why), name
        assert all(len(why) < 80 and "float" not in why for why in record.why.values())
    if make in (*drm_tree.AMD, *drm_tree.INTEL):
        assert gpu.utilization_pct is not None
        # A clock of 0 is that of a moment of sleep, and no clock.
        assert gpu.sm_mhz or gpu.why["sm_mhz"] == "asleep when it was read"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # A fan that turns without a duty cycle, and a duty cycle of a fan that stands still.
        ("amd/rx6600", {"fan_pct": 45, "memory_c": 26, "power_limit_w": 120.0, "sm_mhz": 20}),
        ("amd/rx7600s", {"fan_pct": 0, "power_w": 1.0, "sm_mhz": 0, "throttle": ()}),
        ("amd/vega56", {"fan_pct": 0, "memory_used_mib": 16, "power_limit_w": 260.0}),
        ("amd/rx580", {"fan_pct": 14, "memory_used_mib": 512, "gtt_used_mib": 88, "power_w": 41.0}),
        ("amd/rx9070", {"fan_pct": 46, "power_w": 49.0, "memory_mhz": 1124, "junction_c": 52}),
        ("amd/rx7900xtx", {"fan_pct": 0, "power_w": 68.0, "sm_mhz": 31, "memory_c": 68}),
        # What measures nothing says 0.
        ("amd/rx5500xt", {"memory_c": None, "temperature_c": 48, "sm_mhz": 31}),
        ("amd/raphael", {"power_w": None, "temperature_c": 51, "memory_mhz": 3000}),
        ("amd/mi250-second-die", {"power_w": None, "power_limit_w": None}),
        ("amd/mi300a", {"temperature_c": 43, "junction_c": 43, "memory_c": 37}),
        # Graphics in a processor: the clock of the memory is a level, if one is marked.
        ("amd/phoenix", {"memory_mhz": 400, "power_w": 3.1, "gtt_used_mib": 202, "fan_pct": None}),
        ("amd/strixpoint", {"memory_mhz": None, "power_w": 9.1, "sm_mhz": 848}),
        # xe: of the card or of its package, whichever counts; the limit may be a cap.
        ("intel/a380-i915", {"energy_j": 25_637.2, "power_limit_w": 55.0, "temperature_c": 55}),
        ("intel/a380-xe", {"energy_j": 59_541.0, "power_limit_w": 55.0, "memory_c": 54}),
        ("intel/b580", {"energy_j": 11_031.7, "power_limit_w": 190.0, "fan_pct": 52}),
        ("intel/b580-6.16", {"energy_j": 29_523.8, "power_limit_w": None, "temperature_c": 46}),
        ("intel/cometlake", {"sm_mhz": 300, "utilization_pct": None, "pcie_width": None}),
        ("intel/tigerlake", {"sm_mhz": None, "power_w": None, "temperature_c": None}),
    ],
)
def test_a_card_reads_as_its_owners_dump_says(name, expected, machine):
    gpu = machine(partial(real_card, name)).readings()
    assert {field: getattr(gpu, field) for field in expected} == expected


@pytest.mark.parametrize(
    ("name", "sm_mhz", "memory_mhz", "kind"),
    [
        ("amd/rx9070", 2070, 1258, "own"),
        ("amd/rx6600xt", None, 875, "own"),
        ("amd/r7-240", None, None, "own"),
        ("amd/phoenix", 2700, 800, "system"),
        ("amd/strixpoint", 2900, 1000, "system"),
        ("amd/raphael", 2200, 3000, "system"),
        ("amd/mi300a", None, None, "system"),
        ("intel/b580", 2850, None, "own"),
        ("intel/cometlake", 1150, None, "system"),
        ("intel/tigerlake", 1300, None, "system"),
    ],
)
def test_a_cards_facts_are_those_of_its_owners_dump(name, sm_mhz, memory_mhz, kind, machine):
    (facts,) = machine(partial(real_card, name)).facts
    assert (facts.sm_max_mhz, facts.memory_max_mhz) == (sm_mhz, memory_mhz)
    assert facts.memory_kind == kind


def test_an_instinct_has_its_hottest_spot_its_energy_and_the_growth_of_its_throttling(machine):
    node = machine(drm_tree.mi300x)
    gpu = node.readings()
    assert (node.facts[0].name, node.facts[0].slowdown_c) == ("AMD Instinct MI300X OAM", 100)
    assert (gpu.temperature_c, gpu.energy_j, gpu.throttle) == (71, 1000.0, ())
    node.tree.set(node.cards[0], gpu_metrics=drm_tree.mi300x_metrics(1742, power_cap=9))
    (gpu,) = node.fast()
    assert (gpu.energy_j, gpu.throttle) == (1742.0, ("power cap",))


@pytest.mark.parametrize("make", [drm_tree.radeon_780m, drm_tree.radeon_8060s])
def test_a_gpu_in_a_processor_uses_the_systems_memory(make, machine):
    laptop = machine(make)
    gpu = laptop.readings()
    assert laptop.facts[0].memory_kind == "system"
    # The sampler fills them in.
    assert laptop.facts[0].memory_mib is None
    assert gpu.memory_used_mib is None
    assert {"memory_mib", "memory_used_mib"}.isdisjoint({**laptop.facts[0].why, **gpu.why})
    assert gpu.gtt_used_mib is not None


def test_memory_that_the_firmware_sets_aside_is_the_gpus_own_if_it_is_the_larger_part(machine):
    halo = machine(lambda: drm_tree.radeon_8060s(vram_mib=98_304, gtt_mib=15_800))
    assert (halo.facts[0].memory_kind, halo.facts[0].memory_mib) == ("own", 98_304)
    assert halo.readings().memory_used_mib == 49_152


def test_the_counters_of_throttling_in_the_newest_tables_count_if_they_grow(machine):
    halo = machine(drm_tree.radeon_8060s)
    (first,) = halo.fast()
    assert first.why["throttle"] == "no earlier reading yet"
    assert halo.fast()[0].throttle == ()
    halo.tree.set(halo.cards[0], gpu_metrics=drm_tree.strix_metrics(fast_limit=11, core_heat=3))
    assert halo.fast()[0].throttle == ("power cap", "thermal slowdown")


def test_the_bit_of_the_hottest_spot_counts_only_near_its_limit(machine):
    tower = machine(drm_tree.rx_7900_xtx)
    card = tower.cards[0]
    tower.tree.set(card, gpu_metrics=throttled(1 << 36))
    assert tower.fast()[0].throttle == ()
    tower.tree.set_hwmon(card, temp2_input=107_000)
    assert tower.fast()[0].throttle == ("thermal slowdown",)
    tower.tree.set(card, gpu_metrics=throttled(1 << 16 | 1 << 46 | 1 << 60))
    throttle = ("current limit", "hardware thermal slowdown", "other (0x1000000000000000)")
    assert tower.fast()[0].throttle == throttle


def test_intels_power_is_the_growth_of_its_energy_and_its_load_the_time_awake(machine):
    tower = machine(drm_tree.arc_b580)
    tower.fast()
    tower.tree.set_hwmon(tower.cards[0], energy1_input=9_000_000 + 2 * 150_500_000)
    tower.tree.set(tower.cards[0], tile0__gt0__gtidle__idle_residency_ms=1000 + 500)
    (gpu,) = tower.fast(2)
    assert (gpu.power_w, gpu.energy_j, gpu.utilization_pct) == (150.5, 310.0, 75)
    assert (gpu.temperature_c, gpu.sm_mhz) == (61, 2750)
    slow = tower.slow().gpus[0]
    assert (slow.power_limit_w, slow.memory_c, slow.fan_pct) == (190.0, 68, 52)
    assert (tower.facts[0].memory_mib, tower.facts[0].slowdown_c) == (12_216, 100)
    tower.tree.set(
        tower.cards[0],
        tile0__gt0__freq0__throttle__status=1,
        tile0__gt0__freq0__throttle__reason_pl1=1,
        tile0__gt0__freq0__throttle__reason_thermal=1,
    )
    assert tower.fast()[0].throttle == ("power cap", "thermal slowdown")


def test_a_process_has_its_memory_and_the_share_of_its_busiest_engine(machine):
    tower = machine(drm_tree.rx_7900_xtx, drm_tree.rx_6600)
    card, other = tower.cards

    def worked(seconds):
        memory = ("drm-memory-vram: 2097152 KiB", "drm-memory-gtt: 8 MiB", "drm-resident-cpu: 9")
        engines = (f"drm-engine-gfx: {seconds * 10**9} ns", f"drm-engine-compute: {10**9} ns")
        # The same client through two open files, one of them of a forked process.
        for pid, file in ((100, 5), (100, 6), (101, 5)):
            tower.tree.open_card(pid, file, fdinfo(card, 3, *memory, *engines))

    worked(1)
    tower.tree.open_card(102, 7, fdinfo(other, 4, "drm-resident-vram: 64 MiB"))
    tower.tree.open_card(103, 1, "pos:\t0\n", target="/dev/null")
    tower.tree.open_card(104, 3, fdinfo(other, 9, "drm-total-vram: 0"))
    tower.tree.compute(200, card, 4000)
    first = tower.slow()
    assert first.gpu_processes == {100: {0: 2048}, 102: {1: 64}, 200: {0: 4000}}
    worked(5)
    assert tower.slow().gpu_pct == {100: 80, 102: 0}
    # After a reset, the counters begin again.
    worked(0)
    assert tower.slow().gpu_pct == {100: 0, 102: 0}


def test_what_a_process_holds_on_the_parts_of_a_card_is_its_memory(machine):
    # github.com/ROCm/legacy-rocm-build/issues/4750: in CPX mode, an MI300X is eight devices;
    # .../rocm-systems/issues/5805: the part's number is where that of the PCI function is.
    node = machine(drm_tree.mi300x)
    (card,) = node.cards
    for part in range(1, 8):
        node.tree.add_node(card, 48_427 + part, part)
    node.tree.compute(200, card, 4000)
    node.tree.compute(200, card, 1000, 48_430)
    assert node.slow().gpu_processes == {200: {0: 5000}}
    (facts,) = DrmProvider(node.tree.root).facts().gpus
    assert facts.rocm_devices == 8


def test_xe_counts_cycles_and_i915_nanoseconds_of_several_engines(machine):
    tower = machine(drm_tree.arc_b580, drm_tree.uhd_770)
    xe, i915 = tower.cards

    def worked(cycles, passed, ns):
        clock = f"drm-total-cycles-ccs: {passed}"
        engine = ("drm-engine-capacity-ccs: 4", f"drm-cycles-ccs: {cycles}", clock)
        memory = ("drm-resident-vram0: 6 GiB", "drm-total-vram0: 8 GiB", "drm-resident-gtt: 1 MiB")
        tower.tree.open_card(300, 4, fdinfo(xe, 1, *memory, *engine))
        engine = (f"drm-engine-video: {ns} ns", "drm-engine-capacity-video: 2")
        memory = ("drm-resident-system0: 20 MiB", "drm-resident-stolen-system0: 1 MiB")
        tower.tree.open_card(301, 4, fdinfo(i915, 1, *memory, *engine))

    worked(0, 0, 0)
    tower.slow()
    worked(2000, 1000, 5 * 10**9)
    reading = tower.slow()
    assert reading.gpu_pct == {300: 50, 301: 50}
    # The second has no memory of its own.
    assert reading.gpu_processes == {300: {0: 6144}, 301: {1: 21}}
    assert reading.gpus[0].memory_used_mib == 6144


def test_memory_in_use_is_unknown_if_other_processes_are_hidden(machine):
    tower = machine(drm_tree.arc_b580, same_pids=False)
    reading = tower.slow()
    assert reading.gpus[0].memory_used_mib is None
    assert "hides those of other users" in reading.gpus[0].why["memory_used_mib"]
    assert reading.gpu_processes is None
    assert reading.why["gpu_processes"]


def test_cards_have_the_order_of_rocms_devices_and_intels_follow(machine):
    tower = machine(drm_tree.arc_a770, drm_tree.mi300x, drm_tree.rx_6600, drm_tree.uhd_770)
    names = [facts.name.split("/")[0] for facts in tower.facts]
    assert names == [
        "AMD Instinct MI300X OAM",
        "AMD Radeon RX 6600",
        "Intel Arc A770",
        "Intel UHD Graphics 770",
    ]


def test_a_sleeping_card_is_left_asleep_and_says_its_facts_when_it_wakes(machine):
    laptop = machine(drm_tree.rx_6600)
    card = laptop.cards[0]
    laptop.tree.set(card, power__runtime_status="suspended")
    provider = DrmProvider(laptop.tree.root)
    (facts,) = provider.facts().gpus
    assert (facts.state, facts.sm_max_mhz) == (GpuState.ASLEEP, None)
    assert facts.why["sm_max_mhz"] == "asleep (runtime power management)"
    (laptop.tree.device(card) / "gpu_busy_percent").unlink()
    (gpu,) = provider.fast(SECOND).gpus
    assert (gpu.state, gpu.utilization_pct) == (GpuState.ASLEEP, None)
    assert provider.later_facts() is None
    laptop.tree.set(card, power__runtime_status="active")
    assert provider.fast(2 * SECOND).gpus[0].power_w == 24.0
    assert provider.later_facts().gpus[0].sm_max_mhz == 2750


def test_a_card_that_is_gone_is_lost_and_keeps_its_number_when_it_is_back(machine):
    tower = machine(drm_tree.rx_7900_xtx, drm_tree.vega_64)
    card = tower.cards[1]
    tower.fast()
    tower.tree.remove(card)
    gone = tower.fast()[1]
    assert (gone.state, gone.why["power_w"]) == (GpuState.LOST, "lost")
    assert tower.provider.notices() == ["GPU 1: lost; it is tried again"]
    assert tower.slow().gpus[1].state == GpuState.LOST
    tower.tree.put_back(card, hwmon=7)
    assert tower.slow().gpus[1].state == GpuState.LOST
    back = tower.fast()[1]
    assert (back.index, back.power_w, back.temperature_c) == (1, 211.0, 70)
    assert tower.provider.notices() == ["GPU 1: back"]


def test_a_card_that_appears_later_has_the_next_number(machine):
    tower = machine(drm_tree.rx_7900_xtx)
    tower.tree.add(drm_tree.vega_64())
    tower.slow()
    assert len(tower.fast()) == 2
    assert [gpu.index for gpu in tower.provider.later_facts().gpus] == [0, 1]


def test_counters_that_go_back_are_no_rates(machine):
    tower = machine(drm_tree.arc_b580)
    tower.fast()
    tower.tree.set_hwmon(tower.cards[0], energy1_input=5)
    (gpu,) = tower.fast()
    assert gpu.why["power_w"] == "the counter was reset"
    assert tower.fast()[0].power_w == 0.0


def test_a_power_above_the_critical_one_is_none(machine):
    # nvtop's issue 409: with Linux 6.16, the counters of a B570 grow by thousands of watts.
    tower = machine(drm_tree.arc_b580)
    tower.fast()
    tower.tree.set_hwmon(tower.cards[0], energy1_input=9_000_000 + 3_868_000_000)
    assert tower.fast()[0].why["power_w"] == "the driver reported an impossible value"


def test_memory_that_a_driver_may_not_be_asked_for_has_the_reason(machine, monkeypatch):
    def denied(descriptor):
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(intel_memory, "_ask_xe", denied)
    (facts,) = machine(drm_tree.arc_b580).facts
    assert (facts.memory_mib, facts.why["memory_mib"]) == (None, "denied")


def test_a_machine_without_such_cards_reads_nothing(tmp_path):
    provider = DrmProvider(tmp_path)
    assert provider.facts().gpus is None
    assert provider.fast(1).gpus is None
    assert provider.slow(1).gpus is None


GARBAGE = ("", "\n", "unknown", "-1", "nan", "9" * 40, "\0" * 8, b"\xff" * 120, "0x", "1 2 3")


@pytest.mark.parametrize("seed", range(12))
def test_a_hostile_tree_gives_reasons_and_no_wrong_numbers(seed, machine):
    draw = random.Random(seed)
    makes = [draw.choice(drm_tree.AMD), draw.choice(drm_tree.INTEL)]
    tower = machine(*makes)
    tower.tree.open_card(100, 5, fdinfo(tower.cards[0], 3, "drm-memory-vram: 2 MiB"))
    tower.tree.compute(100, tower.cards[0], 10)
    files = [path for path in tower.tree.root.rglob("*") if path.is_file()]
    for _ in range(6):
        for path in draw.sample(files, len(files) // 4):
            if not path.parent.is_dir():
                continue
            how = draw.choice(("garbage", "missing", "folder", "loop"))
            if path.is_dir() and not path.is_symlink():
                continue
            path.unlink(missing_ok=True)
            if how == "garbage":
                text = draw.choice(GARBAGE)
                path.write_bytes(text if isinstance(text, bytes) else text.encode())
            elif how == "folder":
                path.mkdir()
            elif how == "loop":
                path.symlink_to(path)
        gpus = [*tower.fast(), *tower.slow().gpus]
        tower.provider.later_facts()
        for gpu in gpus:
            for name in ("utilization_pct", "fan_pct"):
                value = getattr(gpu, name)
                assert value is None or 0 <= value <= 200
            assert gpu.power_w is None or 0 <= gpu.power_w < 1e5
            assert gpu.memory_used_mib is None or gpu.memory_used_mib >= 0
