"""How busy a GPU is: by its utilisation, and by GPM, with samples that are freed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.nvml_module import NVMLError, NvmlModule
from fakes.screens import Clock

from dlmon.sensors.nvidia.activity import ACTIVITY_NAMES, Activity, InstanceActivity
from dlmon.sensors.nvidia.provider import NvidiaProvider

SECOND = 1_000_000_000
GPU = (0, "a")
GPM = {"sm_active_pct": 61, "sm_occupancy_pct": 38, "tensor_pct": 4.6, "dram_pct": 49}
UTILIZATION = {"utilization_pct": 97, "memory_busy_pct": 48}


class Hopper(NvmlModule):
    """A module in pynvml's place with GPM: `pct` by metric, or NVML's code; its live samples."""

    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_GRAPHICS_UTIL = 1
    NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_SM_OCCUPANCY = 2, 3
    NVML_GPM_METRIC_ANY_TENSOR_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL = 5, 10

    def __init__(self, *uuids):
        super().__init__(*uuids)
        self.pct = {1: 93.2, 2: 61.23, 3: 38.4, 5: 4.56, 10: 48.7}
        self.codes = {}
        self.samples = []
        self.is_supported, self.taken = 1, 0

    def c_nvmlGpmMetricsGet_t(self):
        rows = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(50)]
        return SimpleNamespace(metrics=rows)

    def nvmlGpmQueryDeviceSupport(self, handle):
        self._answer("gpm_support", handle)
        return SimpleNamespace(isSupportedDevice=self.is_supported)

    def nvmlGpmSampleAlloc(self):
        self._answer("gpm_alloc")
        self.samples.append(SimpleNamespace(at=None))
        return self.samples[-1]

    def nvmlGpmSampleFree(self, sample):
        self.samples.remove(sample)

    def nvmlGpmSampleGet(self, handle, sample):
        self._answer("gpm_sample", handle)
        self.taken += 1
        sample.at = self.taken

    def nvmlGpmMigSampleGet(self, handle, gpu_instance, sample):
        self._answer(f"gpm_sample{gpu_instance}", handle)
        self.taken += 1
        sample.at = self.taken

    def nvmlGpmMetricsGet(self, request):
        self._answer("gpm")
        assert request.version == 1
        assert request.sample1.at < request.sample2.at
        for metric in request.metrics[: request.numMetrics]:
            metric.nvmlReturn = self.codes.get(metric.metricId, 0)
            metric.value = self.pct[metric.metricId]


def asked(activity, module):
    """Return what one reading gives: values, and errors as text."""
    activity.begin()
    found = {}
    for query in activity.queries:
        try:
            value = query.readers[0](module, GPU)
            query.check(value)
        except (NVMLError, ValueError) as error:
            value = str(error)
        found[query.name] = value
    return found


@pytest.fixture
def clock():
    return [0]


@pytest.fixture
def activity(clock):
    return Activity(lambda: clock[0])


def test_a_metric_is_of_the_time_between_two_samples(activity, clock):
    module = Hopper("a")
    first = asked(activity, module)
    assert first == UTILIZATION | dict.fromkeys(GPM, "no earlier reading yet")
    for second in (1, 3, 5):
        clock[0] = second * SECOND
        assert asked(activity, module) == UTILIZATION | GPM
    assert len(module.samples) == 2
    assert module.calls.count(("gpm_support", "a")) == 1


def test_a_reading_that_comes_soon_after_one_has_its_values_and_costs_no_call(activity, clock):
    module = Hopper("a")
    asked(activity, module)
    clock[0] = SECOND // 20
    assert asked(activity, module)["tensor_pct"] == "no earlier reading yet"
    clock[0] = SECOND // 4
    assert asked(activity, module)["tensor_pct"] == 4.6
    module.pct[5] = 3.04
    calls = module.calls.count("gpm")
    clock[0] += SECOND
    assert asked(activity, module)["tensor_pct"] == 4.6
    assert module.calls.count("gpm") == calls
    clock[0] += SECOND
    assert asked(activity, module)["tensor_pct"] == 3.0


def test_after_a_sample_that_failed_the_time_is_counted_anew(activity, clock):
    module = Hopper("a")
    asked(activity, module)
    clock[0], module.errors["gpm_sample"] = SECOND, 999
    assert asked(activity, module)["tensor_pct"] == "Code 999"
    clock[0] = 2 * SECOND
    module.errors.clear()
    assert asked(activity, module)["tensor_pct"] == "no earlier reading yet"
    clock[0] = 3 * SECOND
    assert asked(activity, module)["tensor_pct"] == 4.6


def test_a_metric_alone_may_be_unknown_or_impossible_and_a_little_over_all_is_all(activity, clock):
    module = Hopper("a")
    module.codes, module.pct = {5: 3}, {2: 100.4, 3: 1e9, 5: 0.0, 10: float("nan")}
    asked(activity, module)
    clock[0] = SECOND
    impossible = "the driver reported an impossible value"
    assert asked(activity, module) == UTILIZATION | {
        "sm_active_pct": 100.0,
        "sm_occupancy_pct": impossible,
        "tensor_pct": "Code 3",
        "dram_pct": impossible,
    }


def test_no_sample_is_left_where_there_is_room_for_one_only(activity):
    module = Hopper("a")
    alloc = module.nvmlGpmSampleAlloc
    module.nvmlGpmSampleAlloc = lambda: alloc() if not module.samples else module._answer("full")
    module.errors["full"] = 20
    assert asked(activity, module)["dram_pct"] == "Code 20"
    assert module.samples == []


def gpu_of(provider, t):
    (gpu,) = provider.fast(t).gpus
    return gpu


@pytest.mark.parametrize(
    ("errors", "is_supported", "why"),
    [
        ({}, 0, "not supported"),
        ({"gpm_support": 13}, 1, "not supported by this driver"),
        ({"gpm_support": 3}, 1, "not supported"),
        ({"gpm_sample": 4}, 1, "denied"),
        ({"gpm_sample": 3}, 1, "not supported"),
    ],
)
def test_a_gpu_without_gpm_says_why_and_is_not_asked_again(errors, is_supported, why):
    module = Hopper("a")
    module.errors, module.is_supported = errors, is_supported
    provider = NvidiaProvider(load=lambda: module, wake=True)
    provider.facts()
    for t in range(4):
        gpu = gpu_of(provider, t * SECOND)
        assert {name: gpu.why.get(name) for name in ACTIVITY_NAMES} == dict.fromkeys(
            UTILIZATION
        ) | dict.fromkeys(GPM, why)
        assert (gpu.utilization_pct, gpu.memory_busy_pct) == (97, 48)
    assert module.calls.count(("gpm_support", "a")) == 1
    assert module.calls.count(("gpm_sample", "a")) <= 1


def test_a_divided_gpu_is_not_asked():
    module = Hopper("a")
    module.values["mig"] = 1
    provider = NvidiaProvider(load=lambda: module, wake=True)
    provider.facts()
    gpu = gpu_of(provider, 0)
    assert {gpu.why[name] for name in ACTIVITY_NAMES} == {"not reported while MIG is on"}
    assert module.samples == []


def test_the_samples_of_a_gpu_that_is_lost_are_freed_and_taken_anew_when_it_is_back(monkeypatch):
    monkeypatch.setattr("dlmon.sensors.nvidia.activity._LEAST_APART_NS", 0)
    monkeypatch.setattr("dlmon.sensors.nvidia.activity._USUALLY_APART_NS", 0)
    module = Hopper("a", "b")
    provider = NvidiaProvider(load=lambda: module, wake=True)
    provider.facts()
    provider.fast(0)
    assert len(module.samples) == 4
    module.errors["gpm_sample", "a"] = 15
    (lost, other) = provider.fast(SECOND).gpus
    assert lost.why["tensor_pct"] == lost.why["sm_active_pct"] == "lost"
    assert len(module.samples) == 2
    module.errors.clear()
    # NVML is begun again: what the other one held is of the time before.
    (back, other) = provider.fast(10 * SECOND).gpus
    assert {gpu.why.get("tensor_pct") for gpu in (back, other)} == {"no earlier reading yet"}
    assert len(module.samples) == 4


# ---- the parts of a GPU that is divided ----

NAMES = ("utilization_pct", *GPM)


def test_each_mig_instance_is_measured_by_itself():
    module, clock = Hopper("a"), Clock(SECOND)
    activity = InstanceActivity(clock)
    unknown = dict.fromkeys(NAMES, "no earlier reading yet")
    assert [activity.read(module, GPU, part) for part in (7, 8)] == [({}, unknown)] * 2
    clock.advance(5)
    module.codes[5], module.pct[10] = 3, float("nan")
    busy = {"utilization_pct": 93, "sm_active_pct": 61, "sm_occupancy_pct": 38}
    why = {"tensor_pct": "not supported", "dram_pct": "the driver reported an impossible value"}
    assert activity.read(module, GPU, 7) == (busy, why)
    assert [call[0] for call in module.calls if "gpm_sample" in call[0]] == [
        *("gpm_sample7", "gpm_sample8", "gpm_sample7")
    ]
    activity.close()
    assert not module.samples


def test_what_mig_instances_do_is_unknown_where_the_driver_does_not_measure_it():
    module, clock = Hopper("a"), Clock(SECOND)
    module.is_supported = 0
    why = dict.fromkeys(NAMES, "not supported")
    assert InstanceActivity(clock).read(module, GPU, 7) == ({}, why)
    older = dict.fromkeys(NAMES, "not supported by this pynvml")
    assert InstanceActivity(clock).read(NvmlModule("a"), GPU, 7) == ({}, older)
    module.is_supported, module.errors = 1, {"gpm_sample7": 15}
    with pytest.raises(NVMLError):
        InstanceActivity(clock).read(module, GPU, 7)
