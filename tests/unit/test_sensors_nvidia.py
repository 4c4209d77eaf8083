"""What the NVIDIA provider makes of NVML's answers, with a module in pynvml's place."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from dlmon.records import Gpu, MachineFacts
from dlmon.sensors.nvidia import (
    FIRST_PAUSE_NS,
    LONGEST_PAUSE_NS,
    NoGpus,
    NoNvml,
    NvidiaProvider,
    cuda_version,
    throttle_reasons,
)

SECOND = 1_000_000_000
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, LOST, UNKNOWN = 3, 4, 13, 15, 999
SLOW = ("power_limit_w", "memory_mhz")
FAST = (
    *("utilization_pct", "memory_used_mib", "power_w", "temperature_c", "sm_mhz", "throttle"),
    "energy_j",
)


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(f"Code {value}")
        self.value = value


class Module:
    """Enough of pynvml; `errors` maps a call, or a call and a GPU's uuid, to a code."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, *uuids):
        self.uuids = list(uuids)
        self.errors = {}
        self.calls = []
        self.values = {"power": 118_000, "used": 5 * 2**30, "total": 8 * 2**30, "utilization": 97}
        self.values["energy"] = 1_234_567
        self.session = 0

    def _answer(self, call, handle=None):
        uuid = None
        if handle is not None:
            session, uuid = handle
            assert session == self.session, "a handle from before the last shutdown"
        self.calls.append(call if uuid is None else (call, uuid))
        for key in (call, (call, uuid), (None, uuid)):
            if key in self.errors:
                raise NVMLError(self.errors[key])

    def nvmlInit(self):
        self._answer("init")

    def nvmlShutdown(self):
        self.session += 1
        self._answer("shutdown")

    def nvmlDeviceGetCount(self):
        self._answer("count")
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index):
        handle = (self.session, self.uuids[index])
        self._answer("handle", handle)
        return None if self.uuids[index] == "null" else handle

    def nvmlDeviceGetUUID(self, handle):
        self._answer("uuid", handle)
        return handle[1]

    def nvmlDeviceGetName(self, handle):
        self._answer("name", handle)
        return f"GPU {handle[1]}"

    def nvmlSystemGetDriverVersion(self):
        self._answer("driver")
        return "580.65"

    def nvmlSystemGetCudaDriverVersion_v2(self):
        self._answer("cuda")
        return 12040

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        self._answer("processes", handle)
        return [SimpleNamespace(pid=7), SimpleNamespace(pid=8)]

    def nvmlDeviceGetUtilizationRates(self, handle):
        self._answer("utilization", handle)
        return SimpleNamespace(gpu=self.values["utilization"])

    def nvmlDeviceGetMemoryInfo(self, handle, version=1):
        self._answer(f"memory_v{version}", handle)
        return SimpleNamespace(total=self.values["total"], used=self.values["used"])

    def nvmlDeviceGetPowerUsage(self, handle):
        self._answer("power", handle)
        return self.values["power"]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        self._answer("energy", handle)
        return self.values["energy"]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        self._answer("limit", handle)
        return 120_000

    def nvmlDeviceGetTemperature(self, handle, sensor):
        self._answer("temperature", handle)
        return 61

    def nvmlDeviceGetClockInfo(self, handle, clock):
        self._answer(f"clock{clock}", handle)
        return 1700

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        self._answer("reasons", handle)
        return 0x5


def opened(module):
    provider = NvidiaProvider(load=lambda: module)
    return provider, provider.facts()


def gpus(provider, t=0):
    told = provider.fast(t).gpus
    assert told is not None
    return told


HEALTHY = Gpu(
    index=0,
    utilization_pct=97,
    memory_used_mib=5120,
    power_w=118.0,
    temperature_c=61,
    sm_mhz=1700,
    throttle=("power cap",),
    energy_j=1234.6,
)


def test_a_healthy_gpu_is_read_in_full():
    provider, facts = opened(Module("a"))
    assert facts.why == {}
    assert facts.gpus is not None
    assert (facts.driver, facts.cuda, facts.foreign_gpu_processes) == ("580.65", "12.4", 2)
    assert (facts.gpus[0].name, facts.gpus[0].uuid, facts.gpus[0].memory_mib) == (
        "GPU a",
        "a",
        8192,
    )
    assert gpus(provider) == (HEALTHY,)
    assert provider.slow(0).gpus == (Gpu(index=0, power_limit_w=120.0, memory_mhz=1700),)


def test_no_library_is_the_reason_for_every_field():
    def load():
        raise NoNvml("no driver")

    provider = NvidiaProvider(load)
    assert provider.facts() == MachineFacts(
        why=dict.fromkeys(("gpus", "driver", "cuda", "foreign_gpu_processes"), "no driver")
    )
    assert provider.fast(0).why == {"gpus": "no driver"}
    assert provider.slow(0).gpus is None


def test_nvml_can_be_left_alone():
    left_alone = NoGpus("it hung")
    assert left_alone.facts().why["driver"] == "it hung"
    assert left_alone.fast(0).why == {"gpus": "it hung"}


def test_a_machine_without_gpus_has_none():
    provider, facts = opened(Module())
    assert facts.gpus == ()
    assert facts.foreign_gpu_processes == 0
    assert gpus(provider) == ()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (NOT_SUPPORTED, "not supported"),
        (NO_PERMISSION, "denied"),
        (FUNCTION_NOT_FOUND, "not supported by this driver"),
        (UNKNOWN, "unknown NVML error"),
        (77, "NVML: code 77"),
    ],
)
def test_an_error_is_one_absent_field_with_its_reason(code, why):
    module = Module("a")
    module.errors["power"] = code
    provider, _ = opened(module)
    (told,) = gpus(provider)
    assert told.why == {"power_w": why}
    assert told.utilization_pct == 97


def test_what_is_not_supported_is_asked_once():
    module = Module("a")
    module.errors |= {"power": NOT_SUPPORTED, "memory_v1": NOT_SUPPORTED}
    module.errors["memory_v2"] = NOT_SUPPORTED
    provider, _ = opened(module)
    for t in range(5):
        (told,) = gpus(provider, t * SECOND)
        assert told.why == {"power_w": "not supported", "memory_used_mib": "not supported"}
    assert module.calls.count(("power", "a")) == 1


def test_a_gpu_without_an_energy_counter_says_so_and_is_asked_once():
    module = Module("a")
    module.errors["energy"] = NOT_SUPPORTED
    provider, _ = opened(module)
    for t in range(3):
        assert gpus(provider, t * SECOND)[0].why == {"energy_j": "not supported"}
    assert module.calls.count(("energy", "a")) == 1


def test_the_energy_of_many_gpus_is_read_in_the_slow_tier():
    provider, _ = opened(Module(*"abcde"))
    assert {gpu.energy_j for gpu in gpus(provider)} == {None}
    assert {gpu.energy_j for gpu in provider.slow(0).gpus} == {1234.6}


def test_what_failed_by_chance_is_asked_again():
    module = Module("a")
    module.errors["power"] = UNKNOWN
    provider, _ = opened(module)
    gpus(provider)
    module.errors.clear()
    assert gpus(provider) == (HEALTHY,)


def test_an_older_driver_is_asked_by_the_older_call():
    module = Module("a")
    module.errors["memory_v2"] = FUNCTION_NOT_FOUND
    provider, facts = opened(module)
    assert facts.gpus is not None
    assert facts.gpus[0].memory_mib == 8192
    gpus(provider)
    module.calls.clear()
    assert gpus(provider) == (HEALTHY,)
    assert ("memory_v2", "a") not in module.calls


def test_a_gpu_without_memory_of_its_own_says_so():
    module = Module("a")
    module.values |= {"total": 0, "used": 0}
    provider, facts = opened(module)
    assert facts.gpus is not None
    assert facts.gpus[0].why == {"memory_mib": "this GPU has no memory of its own"}
    assert gpus(provider)[0].why == {"memory_used_mib": "this GPU has no memory of its own"}


@pytest.mark.parametrize(
    ("value", "number", "field"),
    [
        ("used", 2**64 - 1, "memory_used_mib"),
        ("power", 2**32 - 1, "power_w"),
        ("utilization", 255, "utilization_pct"),
        ("energy", 2**64 - 1, "energy_j"),
    ],
)
def test_a_number_that_cannot_be_true_is_no_reading(value, number, field):
    module = Module("a")
    module.values[value] = number
    provider, _ = opened(module)
    assert gpus(provider)[0].why == {field: "the driver told no possible value"}


def test_a_lost_gpu_is_lost_alone_and_comes_back_under_its_index():
    module = Module("a", "b")
    provider, _ = opened(module)
    module.errors[None, "a"] = LOST
    lost, healthy = gpus(provider, 0)
    assert lost == Gpu(index=0, why=dict.fromkeys(FAST, "lost"))
    assert healthy.utilization_pct == 97
    lost, healthy = gpus(provider, SECOND)
    assert "shutdown" in module.calls
    assert lost == Gpu(index=0, why=dict.fromkeys(FAST + SLOW, "lost"))
    assert healthy.utilization_pct == 97
    module.errors.clear()
    back, healthy = gpus(provider, 60 * SECOND)
    assert back == replace(HEALTHY, power_limit_w=120.0, memory_mhz=1700)
    assert gpus(provider, 61 * SECOND)[0] == HEALTHY


def test_a_lost_gpu_that_is_no_longer_counted_keeps_its_place():
    module = Module("a", "b")
    provider, _ = opened(module)
    module.errors[None, "a"] = LOST
    gpus(provider, 0)
    module.errors.clear()
    module.uuids = ["b"]
    lost, healthy = gpus(provider, SECOND)
    assert lost.why["power_w"] == "lost"
    assert (healthy.index, healthy.power_w) == (1, 118.0)


def test_a_gpu_that_comes_in_anothers_place_is_another():
    module = Module("a", "b")
    provider, _ = opened(module)
    module.errors[None, "a"] = LOST
    gpus(provider, 0)
    module.errors.clear()
    module.uuids = ["c", "b"]
    told = gpus(provider, SECOND)
    assert [(gpu.index, gpu.power_w) for gpu in told] == [(0, None), (1, 118.0), (2, 118.0)]


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


def test_a_driver_that_is_loaded_later_is_found():
    module = Module("a")
    module.errors["init"] = 9
    provider, facts = opened(module)
    assert facts.why["gpus"] == "the NVIDIA driver is not loaded"
    assert provider.fast(0).why == {"gpus": "the NVIDIA driver is not loaded"}
    module.errors.clear()
    gpus(provider, 60 * SECOND)
    assert gpus(provider, 61 * SECOND) == (HEALTHY,)


def test_a_driver_that_was_replaced_is_said_so():
    module = Module("a")
    provider, _ = opened(module)
    module.errors[None, "a"] = 18
    module.errors["init"] = 18
    gpus(provider, 0)
    why = gpus(provider, SECOND)[0].why
    assert set(why.values()) == {"the NVIDIA driver and its library differ in version"}


def test_a_null_handle_is_never_used():
    module = Module("null", "b")
    provider, facts = opened(module)
    assert facts.gpus is not None
    assert facts.gpus[0].why["name"] == "lost"
    lost, healthy = gpus(provider)
    assert lost.why["power_w"] == "lost"
    assert healthy.power_w == 118.0
    assert not [call for call in module.calls if call[1] == "null" and call[0] != "handle"]


def test_an_idle_gpu_is_not_throttled():
    assert throttle_reasons(0x1) == ()
    assert throttle_reasons(0) == ()


def test_throttle_reasons_are_words():
    assert throttle_reasons(0x4 | 0x20 | 0x8) == (
        "power cap",
        "hardware slowdown",
        "thermal slowdown",
    )
    assert throttle_reasons(0x10) == ("sync boost",)
    assert throttle_reasons(0x10000) == ("other (0x10000)",)


def test_cuda_versions_are_written_as_people_write_them():
    assert cuda_version(12040) == "12.4"
    assert cuda_version(13000) == "13.0"
