"""A machine's readings in words, and which of them are near their limit."""

from dataclasses import replace

import pytest

from dlmon.figures.machine.readings import (
    Figure,
    cpu_figures,
    gpu_figures,
    has_no_readings,
    identity,
    load_figures,
    memory_figure,
    memory_figures,
    no_utilization,
    run_figures,
    worst,
)
from dlmon.records import (
    Cpu,
    Disk,
    Gpu,
    GpuFacts,
    GpuState,
    Machine,
    MachineFacts,
    Memory,
    ProcessTree,
)

CARD = GpuFacts(
    0,
    "NVIDIA T4",
    memory_mib=6_144,
    slowdown_c=93,
    sm_max_mhz=1_911,
    pcie_max_generation=4,
    pcie_max_width=16,
)
FACTS = MachineFacts(cores=8, memory_mib=32_768, swap_mib=2_048)


def texts(found):
    return {figure.label: figure.text for figure in found}


def machine(**readings):
    return Machine(t=0, wall=0.0, **readings)


def test_a_gpu_shows_its_figures_with_their_limits():
    gpu = Gpu(0, 98, memory_used_mib=4_850, power_w=118.2, power_limit_w=120.0, sm_mhz=1_860)
    found = gpu_figures(replace(gpu, temperature_c=61, throttle=("power cap",)), CARD)
    assert texts(found) == {
        "temp": "61 of 93 °C",
        "power": "118 of 120 W",
        "throttled": "power cap",
        "memory": "4.7 of 6.0 GiB",
        "clock": "1860 of 1911 MHz",
    }
    assert worst(found) == ""
    # A border has room for the reading alone.
    brief = {figure.label: figure.brief for figure in found}
    assert (brief["temp"], brief["clock"]) == ("61 °C", "1860 MHz")
    # A clock above what its driver names as the highest has no limit beside it.
    assert texts(gpu_figures(Gpu(0, sm_mhz=1_996), CARD)) == {"clock": "1996 MHz"}
    # What it took is that since the run began, and what is unknown has its reason.
    (energy,) = gpu_figures(Gpu(0), CARD, energy_j=2_060.0)
    assert (energy.text, energy.brief) == ("2.06 kJ", "energy 2.06 kJ")
    found = gpu_figures(Gpu(0, 50, why={"power_w": "not supported"}), None)
    assert found == [Figure("power", "not supported", is_known=False)]


@pytest.mark.parametrize(
    ("utilization_pct", "generation", "width", "text"),
    [
        (97, 4, 16, None),
        (97, 1, 16, "PCIe gen 1 ×16 of gen 4 ×16"),
        # At rest it lowers its generation to save power.
        (0, 1, 16, None),
        (None, 1, 16, None),
        (0, 1, 8, "PCIe gen 1 ×8 of gen 4 ×16"),
        (97, 3, 8, "PCIe gen 3 ×8 of gen 4 ×16"),
        (97, None, None, None),
    ],
)
def test_a_link_is_shown_where_it_is_less_than_it_should_be(
    utilization_pct, generation, width, text
):
    gpu = Gpu(0, utilization_pct, pcie_generation=generation, pcie_width=width)
    briefs = [figure.brief for figure in gpu_figures(gpu, CARD)]
    assert briefs == ([text] if text else [])
    assert gpu_figures(gpu) == []


@pytest.mark.parametrize(
    ("readings", "brief", "level"),
    [
        ({"ecc_corrected": 3, "ecc_uncorrected": 0}, "ECC 3 corrected", ""),
        ({"ecc_corrected": 3, "ecc_uncorrected": 2}, "ECC 3 corrected, 2 uncorrected", "bad"),
        ({"encoder_pct": 12}, "encoder 12 %", ""),
        ({"decoder_pct": 7}, "decoder 7 %", ""),
        (
            {"nvlink_receive_mib_s": 3.0, "nvlink_send_mib_s": 0.0},
            "NVLink in 3.0 + out 0 MiB/s",
            "",
        ),
        ({"fan_pct": 0}, "fan 0 %", ""),
        ({"mig": True}, "MIG on", ""),
        ({"xid_errors": 1, "xids": (4711,)}, "Xid 4711", "bad"),
        ({"throttle": ("power cap",)}, "throttled: power cap", ""),
        ({"throttle": ("thermal slowdown",)}, "throttled: thermal slowdown", "high"),
    ],
)
def test_what_is_seldom_so_is_shown_when_it_is(readings, brief, level):
    zeros = ("ecc_corrected", "ecc_uncorrected", "encoder_pct", "decoder_pct")
    quiet = Gpu(
        0, nvlinks=4, mig=False, xid_errors=0, xids=(), throttle=(), **dict.fromkeys(zeros, 0)
    )
    quiet = replace(quiet, nvlink_receive_mib_s=0.0, nvlink_send_mib_s=0.0)
    assert gpu_figures(quiet, CARD) == []
    (figure,) = gpu_figures(replace(quiet, **readings), CARD)
    assert (figure.brief, figure.level) == (brief, level)


@pytest.mark.parametrize(
    ("errors", "codes", "text"),
    [
        (0, (), "none"),
        (1, (79,), "79: it has fallen off the bus"),
        (1_500, (13, 9999), "9999; 1,499 before"),
        (None, (31,), "31: a program used memory that is not its own (page fault)"),
    ],
)
def test_the_newest_error_of_a_driver_is_named_as_its_maker_means_it(errors, codes, text):
    gpu = Gpu(0, xid_errors=errors, xids=codes)
    (figure,) = [one for one in gpu_figures(gpu, in_depth=True) if one.label == "Xid"]
    assert figure.value == text


def test_what_a_gpu_really_does_is_shown_in_depth_and_its_unknowns_have_their_reasons():
    counted = Gpu(0, sm_active_pct=61.2, sm_occupancy_pct=38.4, tensor_pct=0.0, dram_pct=48.7)
    counted = replace(counted, why={"memory_busy_pct": "denied"})
    labels = ("SM active", "occupancy", "tensor cores", "DRAM bandwidth", "memory busy")
    shown = {one.label: one.value for one in gpu_figures(counted, in_depth=True)}
    assert [shown[label] for label in labels] == ["61 %", "38 %", "0 %", "49 %", "denied"]
    assert not set(labels) & {one.label for one in gpu_figures(counted)}


@pytest.mark.parametrize(
    ("gpu", "nothing"),
    [
        (Gpu(0), True),
        (Gpu(0, why={"utilization_pct": "denied"}), True),
        (Gpu(0, throttle=()), False),
        (Gpu(0, temperature_c=34), False),
        # What it read before it was lost is no reading.
        (Gpu(0, temperature_c=34, state=GpuState.LOST), True),
    ],
)
def test_a_gpu_of_which_nothing_is_known_is_distinguished(gpu, nothing):
    assert has_no_readings(gpu) is nothing


def test_a_gpu_of_amd_has_its_own_readings_and_none_of_nvidias():
    card = replace(CARD, name="AMD Radeon RX 7900 XTX", vendor="amd", slowdown_c=100)
    no = dict.fromkeys(("energy_j", "nvlinks", "tensor_pct", "mig"), "amdgpu does not report it")
    gpu = Gpu(0, 98, temperature_c=63, junction_c=84, memory_c=78, gtt_used_mib=300, why=no)
    found = texts(gpu_figures(gpu, card, in_depth=True))
    assert (found["temp"], found["junction"]) == ("63 of 100 °C", "84 °C")
    assert (found["memory temp"], found["GTT"]) == ("78 °C", "0.3 GiB")
    assert found["energy"] == "amdgpu does not report it"
    assert {"NVLinks", "MIG", "MIG instances", "tensor cores", "Xid"}.isdisjoint(found)
    of_nvidia = texts(gpu_figures(Gpu(0, 98), CARD, in_depth=True))
    assert {"junction", "memory temp", "GTT"}.isdisjoint(of_nvidia)


def test_a_jetson_that_its_kernel_reads_lists_nothing_that_only_nvml_gives():
    card = GpuFacts(0, "Orin", memory_kind="system", uuid="JETSON-1421021014017")
    found = {figure.label for figure in gpu_figures(Gpu(0, 40), card, in_depth=True)}
    assert {"temp", "power", "clock", "memory"} <= found
    assert {"PCIe", "ECC", "MIG", "NVLinks", "tensor cores", "Xid", "junction"}.isdisjoint(found)


def test_a_divided_gpu_says_why_it_has_no_utilisation():
    why = {"utilization_pct": "not supported"}
    assert no_utilization(Gpu(0, mig=True, why=why)) == "MIG on: no utilisation"
    assert no_utilization(Gpu(0, why=why)) == "not supported"


@pytest.mark.parametrize(
    ("used_mib", "text", "level", "marked"),
    [
        (8_192, "8.0 of 32.0 GiB", "", "8.0 of 32.0 GiB"),
        (30_000, "29.3 of 32.0 GiB nearly full", "high", "29.3 of 32.0 GiB!"),
        (32_000, "31.2 of 32.0 GiB full", "bad", "31.2 of 32.0 GiB!!"),
        (None, "– of 32.0 GiB", "", "– of 32.0 GiB"),
    ],
)
def test_a_full_memory_says_so_in_a_word_or_a_mark(used_mib, text, level, marked):
    figure = memory_figure("memory", used_mib, 32_768)
    assert (figure.text, figure.level, figure.marked) == (text, level, marked)


def test_a_gpu_is_hot_by_its_own_threshold():
    for degrees, said, level in ((85, "", ""), (86, " hot", "high"), (93, " too hot", "bad")):
        (temperature,) = gpu_figures(Gpu(0, temperature_c=degrees), CARD)
        assert (temperature.text, temperature.level) == (f"{degrees} of 93 °C{said}", level)


@pytest.mark.parametrize(
    ("cpu", "facts", "shown"),
    [
        (
            Cpu(pct=42.0, cores=(42,) * 8, mhz=4_600, temperature_c=58.0),
            FACTS,
            {"busy": "3.4 of 8 cores", "clock": "4.6 GHz", "temp": "58 °C"},
        ),
        (
            Cpu(load_1m=3.2, power_w=64.4),
            MachineFacts(cpu_limit=2.5),
            {"CPU limit": "2.5 cores", "load": "3.20", "package": "64 W"},
        ),
        (
            Cpu(why={"limit_used_pct": "denied"}),
            MachineFacts(cpu_limit=6.0),
            {"CPU limit": "6 cores, denied"},
        ),
    ],
)
def test_the_cpu_shows_how_many_cores_work_its_load_and_its_power(cpu, facts, shown):
    assert texts(cpu_figures(machine(cpu=cpu), facts)) == shown
    assert cpu_figures(None, facts) == []


def test_a_cpu_without_a_reading_says_why():
    first, *_ = cpu_figures(machine(cpu=Cpu(why={"pct": "denied"})), FACTS, in_depth=True)
    assert (first.text, first.is_known) == ("denied", False)


def test_what_the_run_takes_is_shown():
    tree = ProcessTree(cpu_pct=281.0, rss_mib=1_900, processes=3, threads=42, major_faults_s=12.0)
    assert texts(run_figures(tree)) == {
        "run": "2.8 cores",
        "run mem": "1.9 GiB",
        "threads": "42",
        "run faults": "12 per second",
    }
    assert run_figures(ProcessTree(major_faults_s=0.0)) == []


@pytest.mark.parametrize(
    ("disk", "text"),
    [
        (Disk(0.5, 120.3), "read 0.5 + written 120 MiB/s"),
        (Disk(0.01, 0.0), "read 10 + written 0 KiB/s"),
        (Disk(2_048.0, 512.0), "read 2.0 + written 0.5 GiB/s"),
        (Disk(None, 3.0, why={"read_mib_s": "denied"}), "read – + written 3.0 MiB/s"),
        (Disk(why={"read_mib_s": "no physical disk was found"}), "no physical disk was found"),
    ],
)
def test_rates_are_shown_in_one_unit_or_with_their_reason(disk, text):
    assert texts(memory_figures(machine(disk=disk), FACTS))["disk"] == text


def test_a_machine_is_shown_in_parts_and_equal_gpus_are_counted():
    gpus = tuple(GpuFacts(n, "NVIDIA GeForce RTX 3090") for n in range(2))
    facts = MachineFacts(
        cpu_model="Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz",
        cores=8,
        cpu_limit=2.5,
        memory_mib=32_768,
        gpus=(*gpus, GpuFacts(2, "Tesla T4")),
        driver="550.54.14",
        cuda="12.4",
        on_battery=True,
    )
    assert identity(facts) == [
        "Intel i7-9700K",
        "8 cores",
        "limited to 2.5",
        "32.0 GiB",
        "2 × NVIDIA RTX 3090",
        "Tesla T4",
        "driver 550.54.14",
        "CUDA 12.4",
        "on battery",
    ]
    assert identity(MachineFacts()) == []


@pytest.mark.parametrize(
    ("limit", "throttled_pct", "used_pct", "expected", "level"),
    [
        (None, None, None, {}, ""),
        (6.0, None, None, {"CPU limit": "6 cores"}, ""),
        (1.0, 0.0, 75.0, {"CPU limit": "75 % of 1 core"}, ""),
        (
            6.0,
            4.0,
            48.0,
            {"at its limit": "4 % of the time", "CPU limit": "48 % of 6 cores"},
            "high",
        ),
        (6.0, 0.0, 97.0, {"CPU limit": "97 % of 6 cores"}, "high"),
    ],
)
def test_a_limited_cpu_shows_how_much_it_uses_of_that(
    limit, throttled_pct, used_pct, expected, level
):
    reading = machine(cpu=Cpu(throttled_pct=throttled_pct, limit_used_pct=used_pct))
    found = cpu_figures(reading, MachineFacts(cpu_limit=limit))
    assert texts(found) == expected
    assert worst(found) == level


def test_the_load_of_a_machine_leaves_out_what_is_unknown():
    assert load_figures(None, MachineFacts()) == []
    gpus = (Gpu(0, utilization_pct=90, memory_used_mib=1024), Gpu(1, utilization_pct=10))
    lost = Gpu(2, why={"utilization_pct": "lost"})
    machine = Machine(1, 0.0, cpu=Cpu(pct=40.0), gpus=(*gpus, lost), memory=Memory(used_mib=2048))
    said = [(figure.label, figure.value) for figure in load_figures(machine, MachineFacts())]
    assert said == [("CPU", "40 %"), ("memory", "2.0 GiB"), ("2 GPUs", "50 %")]
