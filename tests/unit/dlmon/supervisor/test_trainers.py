"""Which GPU of this machine a script's framework means."""

import pytest

from dlmon.records import GpuFacts, Model
from dlmon.supervisor.trainers import with_gpu_number

TWO = (GpuFacts(0, "A", uuid="GPU-aa11"), GpuFacts(1, "B", uuid="GPU-bb22"))


def model(device, uuid=None):
    none = dict.fromkeys(
        (
            "parameters",
            "flops_per_sample",
            "batch_size",
            "samples_per_epoch",
            "steps_per_epoch",
            "epochs",
        )
    )
    return Model(**none, device=device, device_uuid=uuid, why={"epochs": "not said"})


@pytest.mark.parametrize("device", ["cpu", None])
def test_without_a_gpu_there_is_nothing_to_find(device):
    assert with_gpu_number(model(device), TWO) == model(device)


@pytest.mark.parametrize("uuid", ["GPU-bb22", "GPU-bb"])
def test_a_gpu_has_nvmls_number_by_its_uuid_or_the_first_characters_of_it(uuid):
    assert with_gpu_number(model("gpu", uuid), TWO).device == "gpu:1"


def test_the_only_gpu_of_a_machine_is_meant_where_no_uuid_is_said():
    found = with_gpu_number(model("gpu"), TWO[1:])
    assert (found.device, found.gpu_index) == ("gpu:1", 1)


@pytest.mark.parametrize(
    ("uuid", "gpus", "why"),
    [
        (None, TWO, "its framework does not say which of the GPUs it is"),
        ("GPU-cc", TWO, "NVML knows no GPU GPU-cc"),
        ("GPU-", TWO, "NVML knows no GPU GPU-"),
        ("GPU-aa11", (), "NVML found no GPU, and the script's framework trains on one"),
        ("GPU-aa11", (GpuFacts(0, "lost"),), "NVML knows no GPU GPU-aa11"),
    ],
)
def test_a_gpu_that_is_not_known_for_sure_is_unknown_with_the_reason(uuid, gpus, why):
    found = with_gpu_number(model("gpu", uuid), gpus)
    assert found.device is None
    assert found.why == {"epochs": "not said", "device": why}
