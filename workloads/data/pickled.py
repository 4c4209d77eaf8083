"""Read the pickles in Keras's cache without running what is in them.

NumPy itself must not be called from a pickle: `numpy.ndarray` takes any bytes
for an array of objects, which are then followed as pointers. So every name
that a pickle of arrays asks for has a stand-in here, and any other is refused.
"""

from __future__ import annotations

import pickle
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


def read_batch(file: IO[bytes]) -> Any:
    """Read bytes, text, numbers, lists, dicts and arrays, which `as_array` opens.

    Raises:
        pickle.UnpicklingError: it holds something else, or is broken.
        Exception: it is broken in one of the many ways that pickle has no error for.
    """
    return _Unpickler(file, encoding="bytes").load()


def as_array(unpickled: Any) -> NDArray[Any]:
    """Return a list of numbers or a stand-in from `read_batch` as an array."""
    return np.asarray(unpickled.values if isinstance(unpickled, _PickledArray) else unpickled)


def read_object_array(file: IO[bytes]) -> list[Any]:
    """Read an array of Python objects, as a member of an npz archive, into a list.

    Raises:
        ValueError: it is not such an array.
        pickle.UnpicklingError: it holds what `read_batch` doesn't read, or is broken.
        Exception: it is broken in one of the many ways that pickle has no error for.
    """
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("it is not in version 1.0 of the npy format")
    _, _, kind = np.lib.format.read_array_header_1_0(file)
    if kind != np.dtype("O"):
        raise ValueError(f"it is an array of {kind}, not of lists")
    array = read_batch(file)
    if not isinstance(array, _PickledArray) or not isinstance(array.values, list):
        raise ValueError("it is not an array of lists")
    return array.values


class _PickledType:
    """Stands in for `numpy.dtype` while a pickle is read: integers and objects only."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.name = code.decode() if isinstance(code, bytes) else code
        if self.name not in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "O", "O4", "O8"):
            raise pickle.UnpicklingError(f"it holds an array of {self.name}")
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1].decode() if isinstance(state[1], bytes) else state[1]


class _PickledArray:
    """Stands in for `numpy.ndarray` while a pickle is read; a list where it is of objects."""

    def __init__(self, *_: object) -> None:
        """Take what `_reconstruct` is called with: an empty array, filled by its state."""
        self.values: NDArray[Any] | list[Any] = []

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, column_major, content = state
        if not kind.name.startswith("O"):
            flat = np.frombuffer(content, np.dtype(kind.name).newbyteorder(kind.order))
            self.values = flat.reshape(shape, order="F" if column_major else "C")
        elif isinstance(content, list) and shape == (len(content),):
            self.values = content
        else:
            raise pickle.UnpicklingError(f"it holds an array of shape {shape}")


def _pickled_bytes(text: str, encoding: str) -> bytes:
    """Do what `_codecs.encode` does for bytes that Python 3 pickled in protocol 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it holds bytes in {encoding}")
    return text.encode("latin1")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not data")
        return _STAND_INS[module, name]


_STAND_INS = {
    ("numpy", "ndarray"): _PickledArray,
    ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy", "dtype"): _PickledType,
    ("_codecs", "encode"): _pickled_bytes,
}
