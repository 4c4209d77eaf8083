"""The GPU of a Jetson, from trees of its /proc and /sys.

Folders and labels are those of boards in their owners' logs, the numbers beside each board being
issues of github.com/rbonghi/jetson_stats; of the others they are those of NVIDIA's guide to Jetson
Linux. What the files read is made up.
"""

from __future__ import annotations

from dataclasses import fields

import pytest
from fakes.nvml_module import ANSWERS, NvmlModule

from dlmon.records import Cpu, Gpu, GpuState
from dlmon.records.changes import merge
from dlmon.sensors import kernel_files
from dlmon.sensors.nvidia.device import Missing
from dlmon.sensors.nvidia.jetson import JetsonProvider, is_jetson

NO_NVML = Missing("no NVIDIA driver: libnvidia-ml.so.1 was not found", GpuState.NO_DRIVER)
NOT_SUPPORTED = 3


@pytest.fixture(autouse=True)
def sees_every_process(monkeypatch):
    monkeypatch.setattr(kernel_files, "sees_every_process", lambda: True)


def board(
    model, compatible, clock, rails, load=None, zones=("cpu-thermal", "gpu-thermal"), of_node=None
):
    """Return the files of a board; `rails` are volts and amperes in thousandths, by label."""
    devfreq = f"sys/class/devfreq/{clock}"
    files = {
        "proc/device-tree/model": f"{model}\0",
        "proc/device-tree/compatible": f"nvidia,board\0nvidia,{compatible}\0",
        "proc/device-tree/serial-number": "1421021014017\0",
        f"{devfreq}/cur_freq": "624750000\n",
        f"{devfreq}/max_freq": "1300500000\n",
        "sys/class/devfreq/15340000.vic/cur_freq": "115200000\n",
        "sys/class/devfreq/15340000.vic/max_freq": "729600000\n",
        "sys/class/thermal/thermal_zone0/type": f"{zones[0]}\n",
        "sys/class/thermal/thermal_zone0/temp": "51312\n",
        "sys/class/thermal/thermal_zone1/type": f"{zones[1]}\n",
        "sys/class/thermal/thermal_zone1/temp": "47500\n",
        "sys/class/hwmon/hwmon0/name": "pwmfan\n",
        "sys/class/hwmon/hwmon1/name": "ina3221\n",
    }
    if of_node is not None:
        files[f"{devfreq}/device/of_node/name"] = f"{of_node}\0"
    if load is not None:
        files[load] = "537\n"
    for number, (label, (mv, ma)) in enumerate(rails.items(), 1):
        hwmon = "sys/class/hwmon/hwmon1"
        files[f"{hwmon}/in{number}_label"] = f"{label}\n"
        files[f"{hwmon}/in{number}_input"] = f"{mv}\n"
        files[f"{hwmon}/curr{number}_input"] = f"{ma}\n"
    return files


# 668, 428 and 381: Jetson Linux 36, two meters, on one of which nothing is connected twice.
AGX_ORIN = board(
    *("NVIDIA Jetson AGX Orin Developer Kit", "tegra234", "17000000.gpu"),
    {"VDD_GPU_SOC": (19_976, 240), "VDD_CPU_CV": (19_968, 60), "VIN_SYS_5V0": (5_008, 900)},
    load="sys/class/devfreq/17000000.gpu/device/load",
    of_node="gpu",
) | {
    "sys/class/hwmon/hwmon1/in7_label": "sum of shunt voltages\n",
    "sys/class/hwmon/hwmon2/name": "ina3221\n",
    "sys/class/hwmon/hwmon2/in1_label": "NC\n",
    "sys/class/hwmon/hwmon2/in2_label": "VDDQ_VDD2_1V8AO\n",
    "sys/class/hwmon/hwmon2/in3_label": "NC\n",
}
# 848: Jetson Linux 35.
ORIN_NX = board(
    *("NVIDIA Jetson Orin NX Developer Kit", "tegra234", "17000000.ga10b"),
    {"VDD_IN": (4_968, 1_100), "VDD_CPU_GPU_CV": (4_960, 200), "VDD_SOC": (4_960, 290)},
    load="sys/class/devfreq/17000000.ga10b/device/load",
    zones=("CPU-therm", "GPU-therm"),
    of_node="ga10b",
)
# 427 and 131: Jetson Linux 32, whose meter is no hwmon.
NANO = board(
    *("NVIDIA Jetson Nano Developer Kit", "tegra210", "57000000.gpu"),
    {},
    load="sys/class/devfreq/57000000.gpu/device/load",
    zones=("CPU-therm", "GPU-therm"),
    of_node="gpu",
)
ORIN_NANO = board(
    *("NVIDIA Jetson Orin Nano Developer Kit", "tegra234", "17000000.gpu"),
    {"VDD_IN": (4_968, 1_100), "VDD_CPU_GPU_CV": (4_960, 200), "VDD_SOC": (4_960, 290)},
    load="sys/class/devfreq/17000000.gpu/device/load",
    of_node="gpu",
)
XAVIER_NX = board(
    *("NVIDIA Jetson Xavier NX Developer Kit", "tegra194", "17000000.gv11b"),
    {"VDD_IN": (4_968, 1_100)},
    load="sys/devices/gpu.0/load",
    zones=("CPU-therm", "GPU-therm"),
)
# 711, 885 and 750.
THOR = board(
    *("NVIDIA Jetson AGX Thor Developer Kit", "tegra264", "gpu-gpc-0"),
    {"VDD_GPU": (12_000, 500), "VDD_CPU_SOC_MSS": (12_000, 700), "VIN_SYS_5V0": (5_000, 800)},
) | {
    "proc/device-tree/compatible": "nvidia,p4071-0000+p3834-0008\0nvidia,p3834-0008\0"
    "nvidia,tegra264\0",
    "sys/class/devfreq/gpu-nvd-0/cur_freq": "204000000\n",
    "sys/class/devfreq/gpu-nvd-0/max_freq": "1692000000\n",
}


@pytest.fixture
def jetson(tmp_path):
    """Return a function that writes the files of a board and returns its provider."""

    def write(files, nvml=NO_NVML):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return JetsonProvider(lambda: nvml, root=tmp_path)

    return write


@pytest.mark.parametrize(
    ("files", "name", "gpu_w", "cpu_w"),
    [
        (AGX_ORIN, "NVIDIA Jetson AGX Orin", 4.8, 1.2),
        # One rail for both.
        (ORIN_NANO, "NVIDIA Jetson Orin Nano", 1.0, None),
        (ORIN_NX, "NVIDIA Jetson Orin NX", 1.0, None),
        (NANO, "NVIDIA Jetson Nano", None, None),
        (XAVIER_NX, "NVIDIA Jetson Xavier NX", None, None),
    ],
)
def test_a_jetson_without_nvml_is_read_from_its_kernel(jetson, tmp_path, files, name, gpu_w, cpu_w):
    provider = jetson(files)
    assert is_jetson(tmp_path)
    facts = provider.facts()
    (known,) = facts.gpus
    assert (known.name, known.memory_kind, known.sm_max_mhz) == (name, "system", 1300)
    assert (known.uuid, known.state) == ("JETSON-1421021014017", GpuState.ANSWERS)
    assert "gpus" not in facts.why
    reading = provider.fast(0)
    (gpu,) = reading.gpus
    assert (gpu.utilization_pct, gpu.sm_mhz, gpu.temperature_c) == (54, 625, 48)
    assert gpu.power_w == gpu_w
    assert reading.cpu == Cpu(power_w=cpu_w, temperature_c=51)
    # The sampler adds the memory.
    unknown = {spec.name for spec in fields(Gpu)} - {"index", "state", "why", "memory_used_mib"}
    unknown = {name for name in unknown if getattr(gpu, name) is None}
    assert unknown == set(gpu.why)
    why = "the kernel of a Jetson does not say who uses its GPU"
    assert provider.slow(0).why == {"gpu_processes": why}


def test_what_nvml_says_of_an_orin_does_not_count(jetson, monkeypatch):
    # JetPack 6: nvidia-smi lists "Orin (nvgpu)" and says N/A; NVML itself may say 0.
    nvml = NvmlModule("a")
    monkeypatch.setitem(ANSWERS, "nvmlDeviceGetName", ("name", lambda *_: "Orin (nvgpu)"))
    nvml.values |= {"utilization": 0, "power": 0}
    provider = jetson(AGX_ORIN, nvml)
    facts = provider.facts()
    (known,) = facts.gpus
    assert (known.name, known.memory_kind) == ("NVIDIA Jetson AGX Orin", "system")
    assert (facts.driver, facts.foreign_gpu_processes) == ("580.65", None)
    (gpu,) = provider.fast(0).gpus
    assert (gpu.utilization_pct, gpu.power_w, gpu.temperature_c) == (54, 4.8, 48)
    assert provider.slow(0).gpu_processes is None


def test_what_nvml_says_of_a_jetson_stays_and_the_kernel_adds_the_rest(jetson):
    nvml = NvmlModule("a")
    nvml.errors |= dict.fromkeys(
        ("memory_v2", "memory_v1", "utilization", "power", "max_clock1"), NOT_SUPPORTED
    )
    provider = jetson(AGX_ORIN, nvml)
    (known,) = provider.facts().gpus
    assert (known.name, known.memory_kind, known.sm_max_mhz) == ("GPU a", "system", 1300)
    (gpu,) = merge(provider.fast(0), provider.slow(0)).gpus
    assert (gpu.utilization_pct, gpu.power_w) == (54, 4.8)
    assert (gpu.sm_mhz, gpu.temperature_c, gpu.energy_j) == (1700, 61, 1234.6)
    assert not {"utilization_pct", "power_w"} & set(gpu.why)


def test_a_thor_has_the_load_of_nvml_and_the_clock_and_power_of_its_kernel(jetson):
    nvml = NvmlModule("a")
    nvml.errors |= dict.fromkeys(("clock1", "power"), NOT_SUPPORTED)
    provider = jetson(THOR, nvml)
    provider.facts()
    reading = provider.fast(0)
    (gpu,) = reading.gpus
    assert (gpu.utilization_pct, gpu.sm_mhz, gpu.power_w) == (97, 625, 6.0)
    assert reading.cpu.power_w == 8.4


def test_a_lost_gpu_stays_lost(jetson):
    nvml = NvmlModule("a")
    provider = jetson(AGX_ORIN, nvml)
    provider.facts()
    nvml.errors[None, "a"] = 15
    assert provider.fast(0).gpus[0].utilization_pct is None


def test_files_that_are_missing_or_hold_what_cannot_be_true_are_reasons(jetson, tmp_path):
    provider = jetson(AGX_ORIN)
    provider.facts()
    folder = tmp_path / "sys/class/devfreq/17000000.gpu"
    (folder / "device/load").write_text("2001\n")
    (folder / "cur_freq").write_text("fast\n")
    (tmp_path / "sys/class/thermal/thermal_zone1/temp").unlink()
    (tmp_path / "sys/class/hwmon/hwmon1/curr1_input").write_text("")
    (gpu,) = provider.fast(0).gpus
    assert gpu.utilization_pct is gpu.sm_mhz is gpu.temperature_c is gpu.power_w is None
    assert gpu.why["utilization_pct"] == "the driver reported an impossible value"
    assert gpu.why["temperature_c"] == "not reported here"
    assert gpu.why["sm_mhz"] == gpu.why["power_w"] == "the kernel reported no number"


def test_a_machine_without_a_device_tree_is_no_jetson(tmp_path):
    assert not is_jetson(tmp_path)
