"""What is set before a backend is imported, and the device it takes: with backends that are fakes.

Real TensorFlow is trained with end to end; JAX and PyTorch are stood in for by
modules with the few functions that are asked of them.
"""

import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from workloads.backends import Backend, check_jit, choose_backend, prepare, take_cpus
from workloads.failure import RunRefused

SET = (
    *("KERAS_BACKEND", "OMP_NUM_THREADS", "TF_CPP_MIN_LOG_LEVEL", "TF_FORCE_GPU_ALLOW_GROWTH"),
    *("XLA_PYTHON_CLIENT_PREALLOCATE", "JAX_PLATFORMS", "XLA_FLAGS", "PJRT_NPROC", "NPROC"),
    *("KERAS_TORCH_DEVICE", "CUDA_VISIBLE_DEVICES", "CXX"),
)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Give each test an environment without what it may set, and take that away afterwards."""
    for name in SET:
        # Setting it first has monkeypatch put it back, whatever a test leaves there.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return os.environ


@pytest.fixture
def install(monkeypatch):
    """Return a function that puts a module of these attributes where imports find it."""

    def put(name, **attributes):
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    put("keras", __version__="3.15.1")
    return put


@pytest.fixture
def missing(monkeypatch, install):
    """Return a function that makes a module one that is not installed."""

    class Finder:
        def __init__(self, name):
            self.name = name

        def find_spec(self, name, path=None, target=None):
            if name == self.name:
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    def take(name):
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setattr(sys, "meta_path", [Finder(name), *sys.meta_path])

    return take


def fake_tensorflow(gpus=(), cuda=True):
    threads = {}
    return {
        "__version__": "2.21.0",
        "threads": threads,
        "config": SimpleNamespace(
            list_physical_devices=lambda kind: list(gpus),
            experimental=SimpleNamespace(
                get_device_details=lambda gpu: {"device_name": f"NVIDIA {gpu}"}
            ),
            threading=SimpleNamespace(
                set_intra_op_parallelism_threads=lambda n: threads.update(intra=n),
                set_inter_op_parallelism_threads=lambda n: threads.update(inter=n),
            ),
        ),
        "test": SimpleNamespace(is_built_with_cuda=lambda: cuda),
    }


def fake_jax(platform="cpu", kind="cpu"):
    device = SimpleNamespace(platform=platform, device_kind=kind)
    return {"__version__": "0.8.0", "devices": lambda: [device]}


def fake_torch(gpus=(), cuda="12.8"):
    threads = {}
    return {
        "__version__": "2.9.1+cu128",
        "threads": threads,
        "set_num_threads": lambda n: threads.update(intra=n),
        "set_num_interop_threads": lambda n: threads.update(inter=n),
        "version": SimpleNamespace(cuda=cuda),
        "cuda": SimpleNamespace(
            is_available=lambda: bool(gpus), get_device_name=lambda index: f"NVIDIA {gpus[index]}"
        ),
    }


FAKES = {
    "tensorflow": (fake_tensorflow, "2.21.0", {"gpus": ["H100"]}),
    "jax": (fake_jax, "0.8.0", {"platform": "gpu", "kind": "NVIDIA H100"}),
    "torch": (fake_torch, "2.9.1+cu128", {"gpus": ["H100"]}),
}
every_backend = pytest.mark.parametrize("backend", FAKES)


def options(backend, **more):
    return {"backend": backend, "device": "auto", "gpus": (), "devices": 1, **more}


# ---- before the import ----


def test_an_unknown_backend_is_refused_with_those_that_are_known():
    with pytest.raises(RunRefused, match='no backend "numpy": use tensorflow, jax or torch'):
        prepare(options("numpy"))


def test_no_backend_takes_all_of_a_gpus_memory_unless_the_person_wants_it(environment):
    for backend in ("tensorflow", "jax"):
        prepare(options(backend))
    assert environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert "JAX_PLATFORMS" not in environment
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "true"
    prepare(options("jax", device="cpu"))
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"
    # Where the CPU is asked for, no GPU is looked for.
    assert environment["JAX_PLATFORMS"] == "cpu"


def test_jax_is_given_its_threads_and_keeps_the_flags_of_the_person(environment):
    environment["XLA_FLAGS"] = "--xla_dump_to=/x --xla_cpu_multi_thread_eigen=true"
    prepare(options("jax", threads=1))
    assert environment["PJRT_NPROC"] == environment["NPROC"] == "1"
    assert environment["XLA_FLAGS"] == "--xla_dump_to=/x --xla_cpu_multi_thread_eigen=false"


# ---- CPUs: in a process of its own, for the tests keep theirs ----


def test_cpus_are_taken_before_numpy_and_threads_need_not_be_as_many():
    code = (
        "import os, sys\n"
        "import workloads.__main__\n"
        "from workloads.backends import prepare\n"
        "prepare({'cpus': 1, 'threads': 4})\n"
        "print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])\n"
        "print(*{'numpy', 'keras', 'tensorflow'} & set(sys.modules), 'none')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["1", "4", "none"]


def test_more_cpus_than_there_are_are_refused():
    allowed = os.sched_getaffinity(0)
    with pytest.raises(RunRefused, match=rf"--cpus {len(allowed) + 1}: this process may use"):
        take_cpus(len(allowed) + 1)
    assert os.sched_getaffinity(0) == allowed


# ---- the device ----


@every_backend
def test_a_gpu_that_the_backend_sees_is_taken_and_has_nvmls_number_where_that_is_known(
    install, backend
):
    fake, version, with_gpu = FAKES[backend]
    install(backend, **fake(**with_gpu))
    for numbers, device in (([3], "gpu:3"), (None, "gpu")):
        chosen = choose_backend(options(backend, device="gpu", gpus=numbers))
        assert chosen == Backend(backend, version, device, "NVIDIA H100")
    install(backend, **fake())
    for device in ("auto", "cpu"):
        chosen = choose_backend(options(backend, device=device))
        assert chosen == Backend(backend, version, "cpu")


def test_another_accelerator_that_jax_takes_is_called_what_it_is(install):
    install("jax", **fake_jax("tpu", "TPU v5 lite"))
    assert choose_backend(options("jax")) == Backend("jax", "0.8.0", "tpu", "TPU v5 lite")


@every_backend
def test_a_gpu_that_nvml_sees_and_the_backend_does_not_is_reported(install, backend):
    fake, version, _ = FAKES[backend]
    install(backend, **fake())
    title = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}[backend]
    says = f"NVML sees GPU 1, but {title} {version} sees none: "
    with pytest.raises(RunRefused) as refused:
        choose_backend(options(backend, device="gpu", gpus=[1]))
    assert str(refused.value).startswith(says)
    chosen = choose_backend(options(backend, gpus=[1]))
    assert chosen.device == "cpu"
    assert chosen.notice.startswith(says)
    assert chosen.notice.endswith("; using the CPU instead")


@pytest.mark.parametrize(
    ("backend", "without", "says"),
    [
        ("tensorflow", {"cuda": False}, "built without CUDA (pip install 'tensorflow[and-cuda]')"),
        ("jax", {}, "its CUDA plugin is not installed (pip install 'jax[cuda12]')"),
        ("torch", {"cuda": None}, "built without CUDA"),
    ],
)
def test_a_backend_without_gpu_support_says_how_to_get_it(
    install, monkeypatch, backend, without, says
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    install(backend, **FAKES[backend][0](**without))
    with pytest.raises(RunRefused) as refused:
        choose_backend(options(backend, device="gpu", gpus=[0]))
    assert says in str(refused.value)


def test_what_may_hide_a_gpu_is_named(install, environment):
    install("tensorflow", **fake_tensorflow())
    environment["CUDA_VISIBLE_DEVICES"] = "7"
    with pytest.raises(RunRefused, match="CUDA_VISIBLE_DEVICES=7 may hide it"):
        choose_backend(options("tensorflow", device="gpu"))


def test_a_jax_without_any_device_is_refused(install):
    def devices():
        raise RuntimeError("Unable to initialize backend 'cuda'")

    install("jax", __version__="0.8.0", devices=devices)
    with pytest.raises(RunRefused, match="JAX finds no device: RuntimeError: Unable to initialize"):
        choose_backend(options("jax"))


@pytest.mark.parametrize(("with_gpu", "device"), [({}, "cpu"), ({"gpus": ["H100"]}, "cuda")])
def test_keras_on_torch_is_given_its_device(install, environment, with_gpu, device):
    install("torch", **fake_torch(**with_gpu))
    choose_backend(options("torch"))
    assert environment["KERAS_TORCH_DEVICE"] == device


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_the_thread_pools_have_the_size_that_is_asked_for(install, backend):
    module = install(backend, **FAKES[backend][0]())
    choose_backend(options(backend))
    assert module.threads == {}
    choose_backend(options(backend, cpus=2))
    assert module.threads == {"intra": 2, "inter": 2}
    choose_backend(options(backend, cpus=2, threads=5))
    assert module.threads == {"intra": 5, "inter": 5}


# ---- what is not there ----


@every_backend
def test_a_backend_that_is_not_installed_says_where_and_what_to_install(missing, backend):
    missing(backend)
    with pytest.raises(RunRefused) as refused:
        choose_backend(options(backend))
    assert str(refused.value) == (
        f"{backend} is not installed in {sys.executable}; "
        f"install it there with: pip install {backend}"
    )


def test_keras_2_is_refused(install):
    install("tensorflow", **fake_tensorflow())
    install("keras", __version__="2.15.0")
    with pytest.raises(RunRefused, match=r"need Keras 3, and .* has Keras 2\.15\.0; install it"):
        choose_backend(options("tensorflow"))


# ---- jit ----


@pytest.mark.parametrize(
    ("device", "version", "says"),
    [
        ("cpu", "2.0.1+cpu", r"needs PyTorch 2.1 or newer, and this is 2.0.1\+cpu"),
        ("cpu", "2.9.1", r"C\+\+ compiler, and there is none; install g\+\+"),
        ("gpu:0", "2.9.1", r"Triton, which is not installed in .* pip install triton"),
    ],
)
def test_what_torch_needs_to_compile_is_said(monkeypatch, tmp_path, device, version, says):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RunRefused, match=says):
        check_jit("torch", device, version)
    (tmp_path / "g++").touch(mode=0o700)
    check_jit("torch", "cpu", "2.9.1")
