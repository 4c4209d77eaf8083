"""Read the pickles in Keras's cache without running what is in them.

NumPy itself must not be called from a pickle: `numpy.ndarray` takes any bytes
for an array of objects, which are then followed as pointers. So every name
that a pickle of arrays asks for has a stand-in here, and any other is refused.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


def read_batch(file: IO[bytes]) -> Any:
    """Read bytes, numbers, lists, dicts and arrays of integers, which `as_array` opens.

    Raises:
        pickle.UnpicklingError: it holds something else, or is broken.
        Exception: it is broken in one of the many ways that pickle has no error for.
    """
    return _unpickled(file, _OF_BATCHES)


def as_array(unpickled: Any) -> NDArray[Any]:
    """Return a list of numbers or a stand-in from `read_batch` as an array."""
    return unpickled.values if isinstance(unpickled, _PickledArray) else np.asarray(unpickled)


def read_object_array(file: IO[bytes]) -> list[Any]:
    """Read an array of Python objects, as a member of an npz archive, into a list.

    The objects are bytes, text, numbers, lists, dicts, or sets of these.

    Raises:
        ValueError: it is not such an array.
        pickle.UnpicklingError: it holds something else, or is broken.
        Exception: it is broken in one of the many ways that pickle has no error for.
    """
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        _, _, kind = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        _, _, kind = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"it is of version {version} of the npy format")
    if kind != np.dtype("O"):
        raise ValueError(f"it is an array of {kind}, not of lists")
    array = _unpickled(file, _OF_OBJECTS)
    if not isinstance(array, _PickledObjects):
        raise ValueError("it is not an array")
    return array.values


class _PickledType:
    """Stands in for `numpy.dtype` while a pickle is read: integers only."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        name = code.decode() if isinstance(code, bytes) else code
        if name not in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"):
            raise pickle.UnpicklingError(f"it holds an array of {name}")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order: Any = state[1].decode() if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(order)


class _PickledArray:
    """Stands in for `numpy.ndarray` while a pickle is read."""

    def __init__(self, *_: object) -> None:
        """Take what `_reconstruct` is called with: an empty array, filled by its state."""
        self.values: NDArray[Any] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, column_major, content = state
        self._fill(content, kind, shape, "F" if column_major else "C")

    @classmethod
    def from_buffer(
        cls, content: bytes, kind: _PickledType, shape: tuple[int, ...], order: Any, *_: object
    ) -> _PickledArray:
        """Do what NumPy's `_frombuffer` does, which pickles of protocol 5 call."""
        array = cls()
        array._fill(content, kind, shape, order)
        return array

    def _fill(self, content: bytes, kind: _PickledType, shape: Any, order: Any) -> None:
        self.values = np.frombuffer(content, kind.dtype).reshape(shape, order=order)


class _PickledObjectType:
    """Stands in for `numpy.dtype` where an array of objects is read."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        name = code.decode() if isinstance(code, bytes) else code
        if name not in ("O", "O4", "O8"):
            raise pickle.UnpicklingError(f"it holds an array of {name}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take the byte order, which objects don't have."""


class _PickledObjects:
    """Stands in for `numpy.ndarray` where an array of objects is read: a list of them."""

    def __init__(self, *_: object) -> None:
        """Take what `_reconstruct` is called with: an empty array, filled by its state."""
        self.values: list[Any] = []

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, _, _, content = state
        if not isinstance(content, list) or shape != (len(content),):
            raise pickle.UnpicklingError(f"it holds an array of shape {shape}")
        self.values = content


def _pickled_bytes(text: str, encoding: str) -> bytes:
    """Do what `_codecs.encode` does for bytes that Python 3 pickled in protocol 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it holds bytes in {encoding}")
    return text.encode("latin1")


_ARRAY_NAMES = (
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
)
_OF_BATCHES = {
    **dict.fromkeys(_ARRAY_NAMES, _PickledArray),
    ("numpy", "dtype"): _PickledType,
    ("numpy.core.numeric", "_frombuffer"): _PickledArray.from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _PickledArray.from_buffer,
    ("_codecs", "encode"): _pickled_bytes,
}
_OF_OBJECTS = {
    **dict.fromkeys(_ARRAY_NAMES, _PickledObjects),
    ("numpy", "dtype"): _PickledObjectType,
    ("_codecs", "encode"): _pickled_bytes,
}


def _unpickled(file: IO[bytes], stand_ins: Mapping[tuple[str, str], Any]) -> Any:
    """Read what needs no name to be looked up, or only those of the stand-ins."""

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if (module, name) not in stand_ins:
                raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not data")
            return stand_ins[module, name]

    return Unpickler(file, encoding="bytes").load()
