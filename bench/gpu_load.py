"""Multiply large matrices on a device until stdin ends, and so keep it at full power.

Writes "ready" on stdout once the first product is there. TensorFlow, JAX or
PyTorch serves, whichever is installed first.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading

import harness
from harness import CannotRun

sys.path.insert(0, str(harness.ROOT))

from workloads.matrix_products import OutOfMemory, first_installed

PRODUCTS_AT_ONCE = 8


def main() -> None:
    arguments = _arguments()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    backend = first_installed()
    if backend is None:
        raise CannotRun("neither TensorFlow nor JAX nor PyTorch is installed here")
    device = next((one for one in backend.devices() if one.kind == arguments.device), None)
    if device is None:
        raise CannotRun(f"{backend.name} {backend.version} sees no {arguments.device.upper()}")
    try:
        multiply = backend.products(device, arguments.precision, arguments.size)
        multiply(1)
        print("ready", flush=True)
        over = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
        while not over.is_set():
            multiply(PRODUCTS_AT_ONCE)
    except OutOfMemory:
        size = f"{arguments.size:,}"
        raise CannotRun(f"two matrices of {size} × {size} don't fit in its memory") from None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--size", type=int, default=8192)
    return parser.parse_args()


if __name__ == "__main__":
    harness.run(main)
