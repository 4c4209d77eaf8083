"""Matrix products on each device of a backend: what calibration times.

TensorFlow, JAX or PyTorch serves, whichever is installed first in that order. A
product counts as done when a number of it can be read on the host.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Multiply = Callable[[int], None]


@dataclass(frozen=True)
class Device:
    """A device of a backend.

    Attributes:
        handle: what the backend knows it by.
        kind: "cpu" or "gpu".
        name: its own name, None where the backend has none for it.
    """

    handle: Any
    kind: str
    name: str | None = None


class Backend(ABC):
    """One framework's matrix products.

    Args:
        module: the imported framework.
    """

    name: str
    """What it is imported as."""
    float32_note: str
    """What float32 products on a GPU are computed in."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.version = str(module.__version__)

    @abstractmethod
    def devices(self) -> Iterator[Device]:
        """Yield each device; some GPUs may have the same name."""

    @abstractmethod
    def products(self, device: Device, precision: str, size: int) -> Multiply:
        """Return what multiplies two random matrices so many times and waits for the last.

        Zeros would cost less power, and so run faster.
        """


class TensorFlow(Backend):
    """Products in TensorFlow, run eagerly."""

    name = "tensorflow"

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        enabled = module.config.experimental.tensor_float_32_execution_enabled()
        self.float32_note = "TF32 where the GPU has it" if enabled else "without TF32"

    def devices(self) -> Iterator[Device]:
        yield Device("/CPU:0", "cpu")
        config = self._module.config
        for number, gpu in enumerate(config.list_physical_devices("GPU")):
            name = config.experimental.get_device_details(gpu).get("device_name")
            yield Device(f"/GPU:{number}", "gpu", name)

    def products(self, device: Device, precision: str, size: int) -> Multiply:
        tensorflow = self._module
        with tensorflow.device(device.handle):
            normal = tensorflow.random.normal
            a, b = (tensorflow.cast(normal((size, size)), precision) for _ in range(2))

        def multiply(times: int) -> None:
            with tensorflow.device(device.handle):
                for _ in range(times):
                    product = tensorflow.linalg.matmul(a, b)
                # The products of a device come in order, so one number of the last ends all.
                product[0, 0].numpy()

        return multiply


class Jax(Backend):
    """Products in JAX, compiled."""

    name = "jax"
    float32_note = "in JAX's default precision, TF32 where the GPU has it"

    def devices(self) -> Iterator[Device]:
        jax = self._module
        yield Device(jax.devices("cpu")[0], "cpu")
        for device in jax.devices():
            if device.platform in ("gpu", "cuda", "rocm"):
                yield Device(device, "gpu", str(device.device_kind))

    def products(self, device: Device, precision: str, size: int) -> Multiply:
        jax = self._module
        a, b = (
            jax.device_put(jax.random.normal(key, (size, size), dtype=precision), device.handle)
            for key in jax.random.split(jax.random.key(0))
        )
        product_of = jax.jit(jax.numpy.matmul)

        def multiply(times: int) -> None:
            for _ in range(times):
                product = product_of(a, b)
            product.block_until_ready()

        return multiply


class Torch(Backend):
    """Products in PyTorch, run eagerly."""

    name = "torch"

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        allowed = module.backends.cuda.matmul.allow_tf32
        self.float32_note = "TF32 where the GPU has it" if allowed else "without TF32"

    def devices(self) -> Iterator[Device]:
        yield Device("cpu", "cpu")
        cuda = self._module.cuda
        for number in range(cuda.device_count()):
            yield Device(f"cuda:{number}", "gpu", str(cuda.get_device_name(number)))

    def products(self, device: Device, precision: str, size: int) -> Multiply:
        torch = self._module
        dtype = getattr(torch, precision)
        a, b = (torch.randn(size, size, device=device.handle).to(dtype) for _ in range(2))

        def multiply(times: int) -> None:
            with torch.inference_mode():
                for _ in range(times):
                    product = torch.matmul(a, b)
                product[0, 0].item()

        return multiply


BACKENDS: tuple[type[Backend], ...] = (TensorFlow, Jax, Torch)


def first_installed() -> Backend | None:
    """Return the first framework that is installed; None where there is none.

    Raises:
        ImportError: it is installed, and broken.
    """
    for backend in BACKENDS:
        try:
            return backend(importlib.import_module(backend.name))
        except ModuleNotFoundError as error:
            if error.name != backend.name:
                raise
    return None


def first_of_each_name(devices: Iterable[Device]) -> Iterable[Device]:
    """Return what stands for all of its name."""
    first: dict[str | None, Device] = {}
    for device in devices:
        first.setdefault(device.name, device)
    return first.values()
