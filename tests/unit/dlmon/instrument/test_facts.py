"""What a framework says of its device, in the fields of `Model`; modules that look like theirs."""

import sys
from types import SimpleNamespace

import pytest

from dlmon.instrument.facts import device_of_keras, device_of_training


@pytest.fixture(autouse=True)
def nothing_visible(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def optimizer_on(kind):
    return SimpleNamespace(
        param_groups=[{"params": [SimpleNamespace(device=SimpleNamespace(type=kind))]}]
    )


def unknown(why):
    return {"why": {"device": why}}


H100 = {"device": "gpu", "device_name": "NVIDIA H100"}


@pytest.mark.parametrize(
    ("trained_by", "uuid", "visible", "found"),
    [
        (optimizer_on("cpu"), None, None, {"device": "cpu"}),
        (SimpleNamespace(type="cpu"), None, None, {"device": "cpu"}),
        (optimizer_on("mps"), None, None, unknown("it is mps, which dlmon does not watch")),
        (optimizer_on("cuda"), "1b2c-3d", None, {**H100, "device_uuid": "GPU-1b2c-3d"}),
        (optimizer_on("cuda"), None, None, H100),
        (optimizer_on("cuda"), None, "GPU-77, GPU-88", {**H100, "device_uuid": "GPU-77"}),
        # CUDA counts in another order.
        (optimizer_on("cuda"), None, "1", H100),
    ],
)
def test_pytorch_trains_where_the_first_parameter_or_what_goes_backward_lies(
    monkeypatch, trained_by, uuid, visible, found
):
    properties = SimpleNamespace(name="NVIDIA H100", **({} if uuid is None else {"uuid": uuid}))
    cuda = SimpleNamespace(get_device_properties=lambda device: properties)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device_of_training(trained_by) == found


@pytest.mark.parametrize(
    ("number", "environment", "name"),
    [
        (1, {}, "amd:1"),
        (0, {"HIP_VISIBLE_DEVICES": "2,0"}, "amd:2"),
        (1, {"HIP_VISIBLE_DEVICES": "1,0", "ROCR_VISIBLE_DEVICES": "3,2"}, "amd:3"),
        (0, {"CUDA_VISIBLE_DEVICES": "1"}, "amd:1"),
        (0, {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, "amd:0"),
        (0, {"ROCR_VISIBLE_DEVICES": "GPU-0213a5a6e8c1f4d2"}, "GPU-0213a5a6e8c1f4d2"),
        (3, {"HIP_VISIBLE_DEVICES": "0"}, "amd:"),
    ],
)
def test_rocms_device_is_numbered_before_the_environment_hides_some(
    monkeypatch, number, environment, name
):
    properties = SimpleNamespace(name="AMD Instinct MI300X", uuid="3338")
    torch = SimpleNamespace(
        cuda=SimpleNamespace(get_device_properties=lambda device: properties),
        version=SimpleNamespace(hip="6.4"),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    found = device_of_training(SimpleNamespace(type="cuda", index=number))
    known = {"device": "gpu", "device_name": "AMD Instinct MI300X", "device_uuid": name}
    assert found == known


@pytest.mark.parametrize(("mask", "name"), [(None, "intel:1"), ("0.1", "intel:")])
def test_an_intel_gpu_has_its_number_unless_the_environment_hides_some(monkeypatch, mask, name):
    xpu = SimpleNamespace(get_device_name=lambda device: "Intel Arc A770")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(xpu=xpu))
    if mask is not None:
        monkeypatch.setenv("ZE_AFFINITY_MASK", mask)
    found = device_of_training(SimpleNamespace(type="xpu", index=1))
    assert found == {"device": "gpu", "device_name": "Intel Arc A770", "device_uuid": name}


def tensorflow_with(gpus):
    config = SimpleNamespace(
        list_logical_devices=lambda kind: gpus,
        list_physical_devices=lambda kind: gpus,
        experimental=SimpleNamespace(get_device_details=lambda gpu: {"device_name": gpu}),
    )
    sysconfig = SimpleNamespace(get_build_info=lambda: {"is_rocm_build": False})
    return SimpleNamespace(config=config, sysconfig=sysconfig)


@pytest.mark.parametrize(
    ("gpus", "found"),
    [
        ([], {"device": "cpu"}),
        (["Tesla T4", "Tesla V100"], {"device": "gpu", "device_name": "Tesla T4"}),
    ],
)
def test_tensorflow_trains_on_the_first_gpu(monkeypatch, gpus, found):
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow_with(gpus))
    assert device_of_keras("tensorflow") == found


@pytest.mark.parametrize(
    ("platform", "found"),
    [
        ("cpu", {"device": "cpu"}),
        ("gpu", {"device": "gpu", "device_name": "NVIDIA A10"}),
        ("tpu", unknown("it is tpu, which dlmon does not watch")),
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
