"""What there is in /dev to reach GPUs by, and whether this is a container."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlmon.host import is_container, is_wsl

_CARD = re.compile(r"nvidia\d+")
# CUDA opens these beside those of the cards.
_OPENED = re.compile(r"nvidia(\d+|ctl|-uvm)")
# GPUs of WSL and of Tegra boards are reached by files of their own.
_OTHER_WAYS = ("dxg", "nvmap")


@dataclass(frozen=True)
class DeviceFiles:
    """The files that CUDA reaches GPUs by.

    Attributes:
        cards: how many GPUs have a file, such as /dev/nvidia0.
        uvm: whether /dev/nvidia-uvm is there.
        denied: the files that this user may not open.
        needed: whether CUDA goes by these files here; it does not in WSL.
        mig_parts: how many parts MIG divides GPUs into, 0 where it doesn't.
        in_container: whether the files are what a container was given.
        in_wsl: whether this is WSL, where the driver is Windows'.
    """

    cards: int = 0
    uvm: bool = False
    denied: tuple[str, ...] = ()
    needed: bool = True
    mig_parts: int = 0
    in_container: bool = False
    in_wsl: bool = False


def read_device_files(root: Path, environment: Mapping[str, str]) -> DeviceFiles:
    """Return what is there under `root`."""
    try:
        names = sorted(path.name for path in (root / "dev").iterdir())
    except OSError:
        names = []
    opened = [root / "dev" / name for name in names if _OPENED.fullmatch(name)]
    parts = (root / "proc/driver/nvidia/capabilities").glob("gpu*/mig/gi*/ci*")
    return DeviceFiles(
        cards=sum(bool(_CARD.fullmatch(name)) for name in names),
        uvm="nvidia-uvm" in names,
        denied=tuple(
            f"/dev/{path.name}" for path in opened if not os.access(path, os.R_OK | os.W_OK)
        ),
        needed=not any(name in names for name in _OTHER_WAYS),
        mig_parts=sum(1 for _ in parts),
        in_container=is_container(root, environment),
        in_wsl=is_wsl(root),
    )
