"""What the NVIDIA provider makes of NVML's answers, with a module in pynvml's place."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.nvml_module import ANSWERS, process
from fakes.nvml_module import NvmlModule as Module
from fakes.recorded_nvml import RecordedNvml

from dlmon.records import Gpu, GpuState
from dlmon.records.changes import merge
from dlmon.sensors import kernel_files
from dlmon.sensors.nvidia.provider import FIRST_PAUSE_NS, LONGEST_PAUSE_NS, NvidiaProvider
from dlmon.sensors.nvidia.queries import cuda_version, sysfs_bus_id, throttle_reasons

SECOND = 1_000_000_000
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, LOST, UNKNOWN = 3, 4, 13, 15, 999
READINGS = {spec.name for spec in fields(Gpu)} - {"index", "state", "why"}
NOT_MEASURED = dict.fromkeys(("pcie_receive_mib_s", "pcie_send_mib_s"), "start with --pcie")
NO_LINKS = dict.fromkeys(
    ("nvlinks", "nvlink_receive_mib_s", "nvlink_send_mib_s"), "not supported"
) | dict.fromkeys(("nvlink_receive_mib_s", "nvlink_send_mib_s"), "no NVLink is active")

NOT_NVMLS = dict.fromkeys(("junction_c", "memory_c", "gtt_used_mib"), "not read from NVML")
NO_GPM = dict.fromkeys(
    ("sm_active_pct", "sm_occupancy_pct", "tensor_pct", "dram_pct", "xid_errors", "xids"),
    "not supported by this pynvml",
)


@pytest.fixture(autouse=True)
def sees_every_process(monkeypatch):
    monkeypatch.setattr(kernel_files, "sees_every_process", lambda: True)


def opened(module, **options):
    provider = NvidiaProvider(load=lambda: module, **options)
    return provider, provider.facts()


def gpus(provider, t=0):
    reported = provider.fast(t).gpus
    assert reported is not None
    return reported


HEALTHY = Gpu(
    state=GpuState.ANSWERS,
    index=0,
    utilization_pct=97,
    memory_used_mib=5120,
    power_w=118.0,
    temperature_c=61,
    sm_mhz=1700,
    throttle=("power cap",),
    energy_j=1234.6,
    memory_busy_pct=48,
    why=NO_GPM,
)
SLOW = Gpu(
    state=GpuState.ANSWERS,
    index=0,
    power_limit_w=120.0,
    memory_mhz=1700,
    fan_pct=35,
    ecc_corrected=0,
    ecc_uncorrected=0,
    pcie_generation=3,
    pcie_width=8,
    mig=False,
    instances=(),
    encoder_pct=7,
    decoder_pct=8,
    why=NO_LINKS,
)


def test_an_idle_h100_is_read_as_its_driver_answered():
    nvml = RecordedNvml(Path(__file__).with_name("h100.json"))
    provider = NvidiaProvider(load=lambda: nvml, wake=True)
    facts, fast, slow = provider.facts(), provider.fast(0), provider.slow(0)
    (known,), gpu = facts.gpus, merge(fast, slow).gpus[0]
    assert (facts.driver, facts.cuda) == ("580.159.04", "13.0")
    assert (known.name, known.memory_mib) == ("NVIDIA H100 80GB HBM3", 81559)
    assert (known.sm_max_mhz, known.memory_max_mhz, known.bus_id) == (1980, 2619, "0000:00:06.0")
    # The driver keeps 480 MiB for itself, which are not the programs'.
    assert (gpu.utilization_pct, gpu.memory_used_mib) == (0, 0)
    assert (gpu.power_w, gpu.power_limit_w, gpu.temperature_c) == (79.2, 700.0, 40)
    assert (gpu.sm_mhz, gpu.memory_mhz, gpu.throttle, gpu.mig) == (345, 2619, (), False)
    assert (gpu.pcie_generation, gpu.pcie_width) == (5, 16)
    assert (gpu.ecc_corrected, gpu.ecc_uncorrected) == (0, 0)
    assert {name for name, why in gpu.why.items() if why == "not supported"} == {
        *("fan_pct", "nvlinks")
    }


def test_every_field_of_a_gpu_is_a_value_or_a_reason():
    provider, _ = opened(Module("a"))
    reported = merge(provider.fast(0), provider.slow(0)).gpus[0]
    assert all((getattr(reported, name) is None) == (name in reported.why) for name in READINGS)


@pytest.mark.parametrize(
    ("code", "why", "tries"),
    [
        (NOT_SUPPORTED, "not supported", 1),
        (NO_PERMISSION, "denied", 1),
        (FUNCTION_NOT_FOUND, "not supported by this driver", 1),
        (UNKNOWN, "unknown NVML error", 3),
        (77, "NVML: code 77", 3),
    ],
)
def test_an_error_is_one_absent_field_with_its_reason_and_asked_again_where_it_may_pass(
    code, why, tries
):
    module = Module("a")
    module.errors["energy"] = code
    provider, _ = opened(module)
    for t in range(3):
        (reported,) = gpus(provider, t * SECOND)
        assert reported.why == NO_GPM | {"energy_j": why}
        assert reported.utilization_pct == 97
    assert module.calls.count(("energy", "a")) == tries


def test_the_energy_of_many_gpus_is_read_in_the_slow_tier():
    provider, _ = opened(Module(*"abcde"))
    assert {gpu.energy_j for gpu in gpus(provider)} == {None}
    assert {gpu.energy_j for gpu in provider.slow(0).gpus} == {1234.6}


@pytest.mark.parametrize(
    ("value", "number", "field"),
    [
        ("used", 2**64 - 1, "memory_used_mib"),
        ("power", 2**32 - 1, "power_w"),
        ("utilization", 255, "utilization_pct"),
        ("energy", 2**64 - 1, "energy_j"),
        ("fan", 2**32 - 1, "fan_pct"),
        ("width", 0, "pcie_width"),
        ("ecc", 2**64 - 1, "ecc_corrected"),
    ],
)
def test_a_number_that_cannot_be_true_is_no_reading(value, number, field):
    module = Module("a")
    module.values[value] = number
    provider, _ = opened(module)
    reported = merge(provider.fast(0), provider.slow(0)).gpus[0]
    assert getattr(reported, field) is None
    assert reported.why[field] == "the driver reported an impossible value"


def test_a_lost_gpu_is_lost_alone_and_comes_back_under_its_index():
    module = Module("a", "b")
    provider, _ = opened(module)
    module.errors[None, "a"] = LOST
    lost, healthy = gpus(provider, 0)
    assert lost == Gpu(index=0, state=GpuState.LOST, why=dict.fromkeys(READINGS, "lost"))
    assert healthy.utilization_pct == 97
    lost, healthy = gpus(provider, SECOND)
    assert "shutdown" in module.calls
    assert lost == Gpu(index=0, state=GpuState.LOST, why=dict.fromkeys(READINGS, "lost"))
    assert healthy.utilization_pct == 97
    module.errors.clear()
    back, healthy = gpus(provider, 60 * SECOND)
    not_yet = dict.fromkeys(NOT_MEASURED, "not measured yet")
    assert back == merge(HEALTHY, replace(SLOW, why=NO_LINKS | NOT_NVMLS | not_yet))
    assert gpus(provider, 61 * SECOND)[0] == HEALTHY


@pytest.mark.parametrize(
    ("uuids", "places"),
    [
        # No longer counted.
        (["b"], [(0, None), (1, 118.0)]),
        # Another one in its place.
        (["c", "b"], [(0, None), (1, 118.0), (2, 118.0)]),
    ],
)
def test_a_gpu_that_was_lost_keeps_its_place(uuids, places):
    module = Module("a", "b")
    provider, _ = opened(module)
    module.errors[None, "a"] = LOST
    gpus(provider, 0)
    module.errors.clear()
    module.uuids = uuids
    reported = gpus(provider, SECOND)
    assert [(gpu.index, gpu.power_w) for gpu in reported] == places
    assert reported[0].why["power_w"] == "lost"


def test_the_pauses_between_tries_grow_to_a_bound():
    module = Module("a")
    provider, _ = opened(module)
    module.errors[None, "a"] = LOST
    tries = []
    for t in range(0, 300 * SECOND, SECOND):
        module.calls.clear()
        gpus(provider, t)
        if "init" in module.calls:
            tries.append(t)
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert pauses[0] == FIRST_PAUSE_NS
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_NS


def test_a_null_handle_is_never_used():
    module = Module("null", "b")
    provider, facts = opened(module)
    assert facts.gpus is not None
    assert facts.gpus[0].why["name"] == "lost"
    lost, healthy = gpus(provider)
    assert lost.why["power_w"] == "lost"
    assert healthy.power_w == 118.0
    assert not [call for call in module.calls if call[1] == "null" and call[0] != "handle"]


@pytest.mark.parametrize(
    ("words_of", "number", "words"),
    [
        (throttle_reasons, 0x2C, ("power cap", "hardware slowdown", "thermal slowdown")),
        (throttle_reasons, 0x10, ("sync boost",)),
        (throttle_reasons, 0x10000, ("other (0x10000)",)),
        (cuda_version, 12040, "12.4"),
        (cuda_version, 13000, "13.0"),
        (sysfs_bus_id, "00000000:65:00.0", "0000:65:00.0"),
        (sysfs_bus_id, "00010000:E1:00.0", "10000:e1:00.0"),
    ],
)
def test_what_nvml_says_in_numbers_becomes_words(words_of, number, words):
    assert words_of(number) == words


def measured_since_last(module):
    """Return the GPUs whose PCIe links were asked about since this was called last."""
    calls = [call[1] for call in module.calls if call[0].startswith("pcie")]
    module.calls.clear()
    return calls


def test_one_pcie_link_is_measured_with_each_sample_where_asked_for_and_each_in_its_turn():
    module = Module("a", "b")
    provider, _ = opened(module)
    gpus(provider, 0)
    assert provider.slow(0).gpus[0].pcie_send_mib_s is None
    assert measured_since_last(module) == []
    provider, _ = opened(module, pcie=True)
    a, b = gpus(provider, 0)
    assert (a.pcie_send_mib_s, a.pcie_receive_mib_s) == (2.0, 4.0)
    assert b.why["pcie_send_mib_s"] == "not measured yet"
    assert measured_since_last(module) == ["a", "a"]
    provider.slow(0)
    assert measured_since_last(module) == []
    for t in (1, 2, 3, 4):
        assert [gpu.pcie_send_mib_s for gpu in gpus(provider, t * SECOND)] == [2.0, 2.0]
    assert measured_since_last(module) == ["b", "b"]
    gpus(provider, 5 * SECOND)
    assert measured_since_last(module) == ["a", "a"]


def test_a_gpu_that_is_no_longer_divided_is_asked_all_again():
    module = Module("a")
    module.values["mig"] = 1
    module.errors["power"] = NOT_SUPPORTED
    provider, _ = opened(module)
    provider.fast(0)
    module.values["mig"] = 0
    module.errors.clear()
    provider.slow(0)
    assert gpus(provider) == (HEALTHY,)


def parts_of(module):
    provider, _ = opened(module)
    return provider.slow(0).gpus[0]


def test_the_parts_of_a_divided_gpu_are_read_and_a_gpu_in_one_piece_has_none(monkeypatch):
    module = Module("a")
    assert parts_of(module).instances == ()
    module.values["mig"] = 1
    module.on_instances = {1: [process(7, 1), process(7, 1)], 3: []}
    first, second = parts_of(module).instances
    assert (first.index, first.pids, first.memory_used_mib) == (1, (7,), 5120)
    assert (second.index, second.pids, second.why) == (3, (), first.why)
    # In a container, those of others don't show.
    monkeypatch.setattr(kernel_files, "sees_every_process", lambda: False)
    assert "--pid=host" in parts_of(module).instances[1].why["pids"]


@pytest.mark.parametrize(
    ("error", "why"), [({"mig": NOT_SUPPORTED}, "not supported"), ({"instances": 4}, "denied")]
)
def test_parts_that_are_not_reported_have_the_reason(error, why):
    module = Module("a")
    module.values["mig"] = 1
    module.errors |= error
    assert parts_of(module).why["instances"] == why


@pytest.mark.parametrize(
    ("used", "mib"), [([2**64 - 1], None), ([None], None), ([0], 0), ([100 << 20, 50 << 20], 150)]
)
def test_a_process_holds_the_memory_of_its_instances_as_far_as_the_driver_knows_it(used, mib):
    module = Module("a")
    module.computing = [process(7, 1, instance=number) for number in range(len(used))]
    for each, held in zip(module.computing, used, strict=True):
        each.usedGpuMemory = held
    provider, _ = opened(module)
    assert provider.slow(0).gpu_processes == {7: {0: mib}}


def test_processes_that_are_not_reported_have_the_reason():
    module = Module("a")
    module.errors |= {"compute": NO_PERMISSION, "graphics": NO_PERMISSION}
    provider, _ = opened(module)
    for t in range(3):
        reported = provider.slow(t)
        assert (reported.gpu_processes, reported.why) == (None, {"gpu_processes": "denied"})
    assert module.calls.count(("compute", "a")) == 1


def test_the_loss_of_gpus_is_noted_once_and_so_is_their_return():
    module = Module("a", "b", "c")
    provider, _ = opened(module)
    module.errors |= {(None, "a"): LOST, (None, "c"): LOST}
    notices = []
    for t in range(5):
        gpus(provider, t * SECOND)
        notices += provider.notices()
    assert notices == ["GPUs 0 and 2: lost; they are tried again"]
    del module.errors[None, "a"]
    gpus(provider, 60 * SECOND)
    gpus(provider, 61 * SECOND)
    assert provider.notices() == ["GPU 0: back"]


def test_a_gpu_whose_handle_is_given_but_that_is_still_lost_is_not_called_back():
    module = Module("a")
    provider, _ = opened(module)
    module.errors["utilization"] = LOST
    notices = []
    for t in range(0, 300, 10):
        gpus(provider, t * SECOND)
        notices += provider.notices()
    assert module.calls.count("init") > 3
    assert notices == ["GPU 0: lost; it is tried again"]


def test_a_gpu_that_is_lost_while_it_is_introduced_is_introduced_again():
    module = Module("a")
    module.errors["max_clock1", "a"] = LOST
    provider, facts = opened(module)
    assert (facts.gpus[0].name, facts.gpus[0].why["sm_max_mhz"]) == ("GPU a", "lost")
    module.errors.clear()
    gpus(provider, 0)
    assert provider.later_facts().gpus[0].sm_max_mhz == 1980
    assert provider.notices() == ["GPU 0: lost; it is tried again", "GPU 0: back"]


def test_a_driver_that_is_loaded_later_introduces_its_gpus():
    module = Module("a")
    module.errors["init"] = 9
    provider, _ = opened(module)
    gpus_before = provider.fast(0).gpus
    assert gpus_before is None
    assert provider.later_facts() is None
    module.errors.clear()
    gpus(provider, 60 * SECOND)
    later = provider.later_facts()
    assert (later.gpus[0].name, later.driver) == ("GPU a", "580.65")


def test_where_others_may_be_hidden_none_is_said_to_use_the_gpus(monkeypatch):
    monkeypatch.setattr(kernel_files, "sees_every_process", lambda: False)
    module = Module("a")
    module.computing = []
    _, facts = opened(module)
    assert facts.foreign_gpu_processes is None
    assert facts.why["foreign_gpu_processes"] == (
        "a container may hide other processes: start it with --pid=host or hostPID: true"
    )


@pytest.mark.parametrize("says", ["not supported", "a total of 0"])
def test_a_gpu_without_memory_of_its_own_uses_that_of_the_system(says):
    # A GB10 and a Thor answer "not supported"; older drivers of boards like them, a total of 0.
    module = Module("a", "b")
    if says == "not supported":
        module.errors |= {("memory_v2", "a"): NOT_SUPPORTED, ("memory_v1", "a"): NOT_SUPPORTED}
    else:
        module.totals = {"a": 0}
    provider, facts = opened(module)
    assert [(gpu.memory_kind, gpu.memory_mib) for gpu in facts.gpus] == [
        ("system", None),
        ("own", 8192),
    ]
    shared, own = gpus(provider)
    assert (shared.memory_used_mib, own.memory_used_mib) == (None, 5120)
    # The sampler fills it in.
    assert "memory_used_mib" not in shared.why
    assert "memory_mib" not in facts.gpus[0].why


def test_a_gb10_reads_as_its_owners_say(monkeypatch):
    """Check it by what owners of a DGX Spark wrote down, with drivers 580.95 to 580.173.

    Memory, power and temperature: XuehaiPan/nvitop's pull request 208; limit and fan:
    snowflakedb/ArcticTraining's 345; link: Syllo/nvtop's issue 426; busy memory: rwlove/home-ops's
    pull request 13238; memory clock: tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark's issue 1;
    processes: wookayin/gpustat's pull request 179.
    """
    module = Module("a")
    refused = ("memory_v2", "memory_v1", "limit", "fan", "clock2", "max_clock2", "mig")
    module.errors |= dict.fromkeys(refused, NOT_SUPPORTED)
    module.errors |= dict.fromkeys(("ecc0", "ecc1"), NOT_SUPPORTED)
    module.values |= {"utilization": 0, "power": 11_170, "width": 1}
    module.computing, module.drawing = [], [process(2301, 43), process(2302, 18)]
    answers = {
        "nvmlDeviceGetName": lambda *_: "NVIDIA GB10",
        "nvmlDeviceGetPciInfo_v3": lambda *_: SimpleNamespace(busId="0000000F:01:00.0"),
        "nvmlDeviceGetTemperature": lambda *_: 35,
        "nvmlDeviceGetMaxPcieLinkGeneration": lambda *_: 1,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda *_: 1,
        "nvmlDeviceGetCurrPcieLinkGeneration": lambda *_: 1,
        "nvmlDeviceGetUtilizationRates": lambda *_: SimpleNamespace(gpu=0, memory=0),
    }
    for name, answer in answers.items():
        monkeypatch.setitem(ANSWERS, name, (ANSWERS[name][0], answer))
    provider, facts = opened(module)
    (known,) = facts.gpus
    assert (known.name, known.bus_id, known.memory_kind) == (
        "NVIDIA GB10",
        "000f:01:00.0",
        "system",
    )
    assert known.pcie_max_generation is known.pcie_max_width is known.memory_max_mhz is None
    slow = provider.slow(0)
    (gpu,) = merge(provider.fast(0), slow).gpus
    assert (gpu.utilization_pct, gpu.power_w, gpu.temperature_c) == (0, 11.2, 35)
    unknown = ("memory_busy_pct", "pcie_generation", "pcie_width", "power_limit_w", "fan_pct")
    assert gpu.why["pcie_send_mib_s"] == gpu.why["pcie_width"]
    assert {getattr(gpu, name) for name in unknown} == {None}
    assert gpu.why["memory_busy_pct"] == "not measured for a GPU that uses the system's memory"
    assert slow.gpu_processes == {2301: {0: 43}, 2302: {0: 18}}
