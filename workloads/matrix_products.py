"""Matrix products on each device of a backend: what calibration times.

TensorFlow, JAX or PyTorch serves, whichever is installed first in that order. A
product counts as done when a number of it can be read on the host.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Multiply = Callable[[int], None]


class OutOfMemory(Exception):
    """Matrices of this size don't fit."""


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
    float32_note: str | None = None
    """What float32 products on a GPU are computed in, where that needs saying."""
    errors: tuple[type[Exception], ...] = (RuntimeError, TypeError, ValueError)
    """What it raises for a precision that a device can't compute in."""

    def __init__(self, module: Any) -> None:
        self._module = module

    @property
    def version(self) -> str:
        return str(self._module.__version__)

    @abstractmethod
    def devices(self) -> Iterator[Device]:
        """Yield each device; of GPUs with the same name, the first stands for all."""

    @abstractmethod
    def products(self, device: Device, precision: str, size: int) -> Multiply:
        """Return what multiplies two random matrices so many times and waits for the last.

        Zeros would cost less power, and so run faster.

        Raises:
            OutOfMemory: they don't fit; so may what is returned.
        """

    @abstractmethod
    def is_out_of_memory(self, error: Exception) -> bool:
        """Say whether an error means that memory ran out."""

    @contextmanager
    def memory_watched(self) -> Iterator[None]:
        """Turn the framework's error into `OutOfMemory`."""
        try:
            yield
        except Exception as error:
            if isinstance(error, MemoryError) or self.is_out_of_memory(error):
                raise OutOfMemory from error
            raise


class TensorFlow(Backend):
    """Products in TensorFlow, run eagerly."""

    name = "tensorflow"

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.errors = (module.errors.OpError, *Backend.errors)
        enabled = module.config.experimental.tensor_float_32_execution_enabled()
        self.float32_note = "TF32 where the GPU has it" if enabled else "without TF32"

    def devices(self) -> Iterator[Device]:
        yield Device("/CPU:0", "cpu")
        config = self._module.config
        names = [
            config.experimental.get_device_details(gpu).get("device_name")
            for gpu in config.list_physical_devices("GPU")
        ]
        yield from _first_of_each_name(
            Device(f"/GPU:{number}", "gpu", name) for number, name in enumerate(names)
        )

    def products(self, device: Device, precision: str, size: int) -> Multiply:
        tensorflow = self._module
        with self.memory_watched(), tensorflow.device(device.handle):
            normal = tensorflow.random.normal
            a, b = (tensorflow.cast(normal((size, size)), precision) for _ in range(2))

        def multiply(times: int) -> None:
            with self.memory_watched(), tensorflow.device(device.handle):
                for _ in range(times):
                    product = tensorflow.linalg.matmul(a, b)
                # The products of a device come in order, so one number of the last ends all.
                product[0, 0].numpy()

        return multiply

    def is_out_of_memory(self, error: Exception) -> bool:
        """Say whether it is TensorFlow's own error for that."""
        return isinstance(error, self._module.errors.ResourceExhaustedError)


class Jax(Backend):
    """Products in JAX, compiled."""

    name = "jax"
    float32_note = "in JAX's default precision, TF32 where the GPU has it"

    def devices(self) -> Iterator[Device]:
        jax = self._module
        yield Device(jax.devices("cpu")[0], "cpu")
        found = [one for one in jax.devices() if one.platform in ("gpu", "cuda", "rocm")]
        yield from _first_of_each_name(Device(one, "gpu", str(one.device_kind)) for one in found)

    def products(self, device: Device, precision: str, size: int) -> Multiply:
        jax = self._module
        with self.memory_watched():
            keys = jax.random.split(jax.random.key(0))
            a, b = (
                jax.device_put(jax.random.normal(key, (size, size), dtype=precision), device.handle)
                for key in keys
            )
            product_of = jax.jit(jax.numpy.matmul)

        def multiply(times: int) -> None:
            with self.memory_watched():
                for _ in range(times):
                    product = product_of(a, b)
                product.block_until_ready()

        return multiply

    def is_out_of_memory(self, error: Exception) -> bool:
        """Say whether XLA's code in the message says so: JAX has one error for everything."""
        return "RESOURCE_EXHAUSTED" in str(error)


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
        yield from _first_of_each_name(
            Device(f"cuda:{number}", "gpu", str(cuda.get_device_name(number)))
            for number in range(cuda.device_count())
        )

    def products(self, device: Device, precision: str, size: int) -> Multiply:
        torch = self._module
        dtype = getattr(torch, precision)
        with self.memory_watched():
            a, b = (torch.randn(size, size, device=device.handle).to(dtype) for _ in range(2))

        def multiply(times: int) -> None:
            with self.memory_watched(), torch.inference_mode():
                for _ in range(times):
                    product = torch.matmul(a, b)
                product[0, 0].item()

        return multiply

    def is_out_of_memory(self, error: Exception) -> bool:
        """Say whether it is PyTorch's own error for that; on the CPU it has only words."""
        return isinstance(error, self._module.cuda.OutOfMemoryError) or (
            isinstance(error, RuntimeError) and "not enough memory" in str(error)
        )


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


def _first_of_each_name(devices: Iterator[Device]) -> Iterable[Device]:
    first: dict[str | None, Device] = {}
    for device in devices:
        first.setdefault(device.name, device)
    return first.values()
