"""The product names of cards, from the driver or the tables of PCI ids of the system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dlmon.records.sanitize import clean
from dlmon.records.words import VENDORS
from dlmon.sensors.kernel_files import text_of

# libdrm's table of AMD's GPUs, whose lines are "DEVICE, REVISION, NAME" in hexadecimal.
_AMDGPU_IDS = ("usr/share/libdrm/amdgpu.ids", "opt/amdgpu/share/libdrm/amdgpu.ids")
_PCI_IDS = ("usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids")


def product_name(root: Path, folder: str, vendor: str) -> str:
    """Return the name of the card in a folder of /sys/class/drm."""
    device, revision = _id(f"{folder}/device/device"), _id(f"{folder}/device/revision")
    name = text_of(f"{folder}/device/product_name")
    if not name and vendor == "amd":
        name = _from_amdgpu_ids(root, f"{device:04X}", f"{revision:02X}")
    if not name and device:
        name = _from_pci_ids(root, f"{_id(f'{folder}/device/vendor'):04x}", f"{device:04x}")
    title = VENDORS[vendor]
    if not name:
        return f"{title} GPU {device:04x}" if device else f"{title} GPU"
    return clean(name if name.startswith(title) else f"{title} {name}")


def _from_amdgpu_ids(root: Path, device: str, revision: str) -> str:
    for line in _lines(root, _AMDGPU_IDS):
        parts = [part.strip() for part in line.split(",", 2)]
        if parts[:2] == [device, revision] and len(parts) == 3:
            return parts[2]
    return ""


def _from_pci_ids(root: Path, vendor: str, device: str) -> str:
    """Return "Arc A770" for a line such as "56a0  DG2 [Arc A770]" below the vendor's line."""
    of_vendor = False
    for line in _lines(root, _PCI_IDS):
        if not line.startswith(("\t", "#")):
            of_vendor = line.startswith(f"{vendor} ")
        elif of_vendor and line.startswith(f"\t{device} "):
            name = line.split(maxsplit=1)[1].strip()
            return name.partition("[")[2].rstrip("]") or name
    return ""


def _lines(root: Path, paths: tuple[str, ...]) -> Iterator[str]:
    for path in paths:
        with suppress(OSError):
            with (root / path).open(encoding="utf-8", errors="replace") as file:
                yield from file
            return


def _id(path: str) -> int:
    try:
        return int(text_of(path), 16)
    except ValueError:
        return 0
