"""All that is known of a machine, and why the rest is not."""

from dataclasses import fields, replace

import pytest
from fakes.recorded import NO_DRIVER, folded
from fakes.states import STATES

from dlmon.records import Gpu, GpuFacts, Machine, MachineFacts
from dlmon.session import MachineHistory
from tui.machine_detail import sections
from tui.machine_view import MachineView


def view_of(name):
    session = folded(STATES[name].records)
    return MachineView(session.machine, session.header.machine, 0.2, 1.0, gpu_index=0)


def told(gpu, facts=None):
    """Return what is told of a single GPU."""
    history = MachineHistory()
    history.fold(Machine(1, 0.0, gpus=(gpu,)))
    machine = MachineFacts(gpus=(facts or GpuFacts(gpu.index, "T4"),))
    first, *_ = sections(MachineView(history, machine, 0.2, 1.0))
    return first


def texts(section):
    return {figure.label: figure.text for figure in section.figures}


def test_a_gpu_tells_every_reading_that_there_is():
    gpu, *_ = sections(view_of("in-depth"))
    assert gpu.title == "GPU 0"
    assert gpu.about == ("NVIDIA GTX 1060 6GB", "trains", "0000:41:00.0", "GPU-00000000-0000")
    assert gpu.unknown == ()
    found = texts(gpu)
    assert found.pop("energy").endswith("45 MJ in all")
    assert found == {
        "utilisation": "96 %",
        "memory": "4.7 of 6.0 GiB",
        "power": "118 of 120 W",
        "temperature": "61 of 93 °C",
        "SM clock": "1860 of 1911 MHz",
        "memory clock": "4004 of 4004 MHz",
        "fan": "45 %",
        "encoder": "0 %",
        "decoder": "7 %",
        "held by": "power limit",
        "PCIe link": "3 × 16 of 3 × 16",
        "over PCIe": "310 in  12 out MiB/s",
        "NVLink": "4 active",
        "over NVLink": "1.8 in  1.7 out GiB/s",
        "ECC errors": "3 corrected, 0 not",
        "MIG": "off",
    }


@pytest.mark.parametrize(
    "name", [spec.name for spec in fields(Gpu) if spec.name not in ("index", "why")]
)
def test_no_reading_is_unknown_without_a_word(name):
    whole = folded(STATES["in-depth"].records).machine.latest.gpus[0]
    # Both of a pair, or the other one is told alone.
    unknown = {name} | next((pair for pair in PAIRS if name in pair), set())
    reason = "the driver said no"
    missing = replace(whole, **dict.fromkeys(unknown), why=dict.fromkeys(unknown, reason))
    section = told(missing)
    if name not in ("power_limit_w", "energy_j"):
        assert reason in dict(section.unknown), name
    untold = told(replace(missing, why={}))
    if name not in ("power_limit_w", "energy_j"):
        assert "no reading" in dict(untold.unknown), name


PAIRS = (
    {"pcie_generation", "pcie_width"},
    {"pcie_receive_mib_s", "pcie_send_mib_s"},
    {"nvlink_receive_mib_s", "nvlink_send_mib_s"},
    {"ecc_corrected", "ecc_uncorrected"},
)


def test_what_is_unknown_for_one_reason_is_told_together():
    why = dict.fromkeys(("fan_pct", "ecc_corrected", "ecc_uncorrected"), "not supported")
    section = told(Gpu(0, 50, why={**why, "nvlinks": "denied"}))
    unknown = dict(section.unknown)
    assert unknown["not supported"] == "fan, ECC errors"
    assert unknown["denied"] == "NVLink"


@pytest.mark.parametrize(
    ("state", "trouble"),
    [
        ("lost-gpu", "lost"),
        ("asleep", "asleep (runtime power management)"),
        ("hung-driver", "lost: the sensors gave no sample for 3 s"),
        ("unsupported-gpu", "no reading: not supported"),
        ("no-gpu", f"no GPU: {NO_DRIVER}"),
    ],
)
def test_a_gpu_that_tells_nothing_has_its_reason_alone(state, trouble):
    section, *_ = sections(view_of(state))
    assert section.trouble == trouble
    assert section.unknown == ()
    assert not {figure.label for figure in section.figures} - {"energy"}


def test_a_divided_gpu_tells_the_rest():
    section, *_ = sections(view_of("mig"))
    assert texts(section)["MIG"] == "on"
    assert texts(section)["memory"] == "4.7 of 6.0 GiB"
    assert dict(section.unknown)["unknown while MIG is on"] == "utilisation"


def test_a_link_with_fewer_lanes_than_there_could_be_stands_out():
    facts = GpuFacts(0, "T4", pcie_max_generation=4, pcie_max_width=16)
    for width, level in ((16, ""), (8, "high")):
        section = told(Gpu(0, 5, pcie_generation=1, pcie_width=width), facts)
        (link,) = (figure for figure in section.figures if figure.label == "PCIe link")
        assert (link.text, link.level) == (f"1 × {width} of 4 × 16", level)


def test_memory_errors_that_were_not_corrected_are_bad():
    section = told(Gpu(0, 5, ecc_corrected=3, ecc_uncorrected=1))
    (ecc,) = (figure for figure in section.figures if figure.label == "ECC errors")
    assert (ecc.text, ecc.level) == ("3 corrected, 1 not", "bad")


def test_the_rest_of_the_machine_follows_with_the_run_s_own_share():
    *_, cpu, memory, run, sensors = sections(view_of("in-depth"))
    assert cpu.about == ("Intel i7-9700K", "4 cores, 8 threads")
    assert {
        "load average": "3.20",
        "power": "64 W",
        "allowed": "6 cores",
        "held back": "4 % of the time",
        "runs on": "mains",
    }.items() <= texts(cpu).items()
    assert {"disk read": "512 KiB/s", "major faults": "0 a second"}.items() <= texts(memory).items()
    assert {
        "CPU": "2.8 cores",
        "memory": "1.9 GiB",
        "processes": "1",
        "threads": "42",
        "major faults": "12 a second",
    }.items() <= texts(run).items()
    assert texts(sensors)["driver"] == "550.54.14"


def test_before_the_first_sample_nothing_is_claimed():
    (waiting,) = sections(MachineView(MachineHistory(), MachineFacts(), None, 1.0))
    assert waiting.trouble == "waiting for the first sample"
    assert waiting.figures == ()


def test_a_machine_without_a_run_has_no_part_for_it():
    history = MachineHistory()
    history.fold(Machine(1, 0.0, gpus=()))
    titles = [section.title for section in sections(MachineView(history, MachineFacts(), 0.1, 1.0))]
    assert titles == ["GPU", "CPU", "Memory, disk, network", "Driver and sensors"]
