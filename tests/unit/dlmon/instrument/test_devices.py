"""What a framework says of its device, in the fields of `Model`; modules that look like theirs."""

import sys
from types import SimpleNamespace

import pytest

from dlmon.instrument.devices import device_of_keras, device_of_training


@pytest.fixture(autouse=True)
def nothing_visible(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def optimizer_on(kind):
    return SimpleNamespace(
        param_groups=[{"params": [SimpleNamespace(device=SimpleNamespace(type=kind))]}]
    )


@pytest.fixture
def gpu_properties(monkeypatch):
    properties = SimpleNamespace(name="NVIDIA H100", uuid="1b2c-3d")
    cuda = SimpleNamespace(get_device_properties=lambda device: properties)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return properties


def test_an_optimizer_of_parameters_in_main_memory_trains_on_the_cpu():
    assert device_of_training(optimizer_on("cpu")) == {"device": "cpu"}


def test_what_goes_backward_says_where_it_lies():
    assert device_of_training(SimpleNamespace(type="cpu")) == {"device": "cpu"}


def test_an_optimizer_on_a_gpu_gives_its_name_and_uuid_as_nvml_writes_it(gpu_properties):
    assert device_of_training(optimizer_on("cuda")) == {
        "device": "gpu",
        "device_name": "NVIDIA H100",
        "device_uuid": "GPU-1b2c-3d",
    }


def test_a_pytorch_that_gives_no_uuid_still_says_that_it_is_a_gpu(gpu_properties):
    del gpu_properties.uuid
    assert device_of_training(optimizer_on("cuda")) == {
        "device": "gpu",
        "device_name": "NVIDIA H100",
    }


def test_without_a_uuid_of_its_own_a_gpu_has_the_one_that_the_environment_leaves(
    gpu_properties, monkeypatch
):
    del gpu_properties.uuid
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-77, GPU-88")
    assert device_of_training(optimizer_on("cuda"))["device_uuid"] == "GPU-77"


def test_a_number_in_the_environment_says_nothing_as_cuda_counts_in_another_order(
    gpu_properties, monkeypatch
):
    del gpu_properties.uuid
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert "device_uuid" not in device_of_training(optimizer_on("cuda"))


def test_what_is_neither_cpu_nor_gpu_of_nvidia_is_unknown_with_its_name():
    assert device_of_training(optimizer_on("mps")) == {
        "why": {"device": "it is mps, which dlmon does not watch"}
    }


@pytest.mark.parametrize(
    "optimizer",
    [
        SimpleNamespace(),
        SimpleNamespace(param_groups=[]),
        SimpleNamespace(param_groups=[{"params": []}]),
        SimpleNamespace(param_groups=[{"params": [None]}]),
    ],
)
def test_an_optimizer_that_says_nothing_leaves_it_unknown(optimizer):
    found = device_of_training(optimizer)
    assert found["why"]["device"].startswith("PyTorch does not say it")


def tensorflow_with(gpus):
    config = SimpleNamespace(
        list_logical_devices=lambda kind: gpus,
        list_physical_devices=lambda kind: gpus,
        experimental=SimpleNamespace(get_device_details=lambda gpu: {"device_name": gpu}),
    )
    return SimpleNamespace(config=config)


def test_tensorflow_without_a_gpu_trains_on_the_cpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow_with([]))
    assert device_of_keras("tensorflow") == {"device": "cpu"}


def test_tensorflow_with_gpus_trains_on_the_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow_with(["Tesla T4", "Tesla V100"]))
    assert device_of_keras("tensorflow") == {"device": "gpu", "device_name": "Tesla T4"}


@pytest.mark.parametrize(
    ("platform", "found"),
    [
        ("cpu", {"device": "cpu"}),
        ("gpu", {"device": "gpu", "device_name": "NVIDIA A10"}),
        ("tpu", {"why": {"device": "it is tpu, which dlmon does not watch"}}),
    ],
)
def test_jax_trains_on_its_first_device(monkeypatch, platform, found):
    first = SimpleNamespace(platform=platform, device_kind="NVIDIA A10")
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(local_devices=lambda: [first]))
    assert device_of_keras("jax") == found


def test_keras_on_torch_trains_where_that_puts_its_arrays(monkeypatch):
    core = SimpleNamespace(get_device=lambda: "cpu")
    monkeypatch.setitem(sys.modules, "keras.src.backend.torch.core", core)
    torch = SimpleNamespace(device=lambda name: SimpleNamespace(type=name))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert device_of_keras("torch") == {"device": "cpu"}


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch", "openvino"])
def test_a_backend_that_is_not_there_or_not_known_leaves_it_unknown(monkeypatch, backend):
    for name in ("tensorflow", "jax", "torch", "keras.src.backend.torch.core"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert device_of_keras(backend)["why"]["device"].startswith(f"{backend} ")
