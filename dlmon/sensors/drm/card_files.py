"""The files of one card in /sys, by paths that name its sensors."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dlmon.sensors import kernel_files
from dlmon.sensors.provider import Rates

_LABEL = re.compile(r"(temp|power|energy|freq|in)(\d+)_label")
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class CardFiles:
    """The files of a card, relative to its folder in /sys/class/drm.

    Attributes:
        t: the time of the reading, in nanoseconds.
        names: the names in braces of paths: `hwmon`, `link` and `slot` are folders, `temp_edge` and
            the like the number of the sensor with that label.
        counters: the counters of the last reading, for readers that compare.
    """

    def __init__(self, folder: str) -> None:
        self.t = 0
        self.folder = folder
        self.names = {**_hwmon_names(folder), **_link_names(folder)}
        self.counters: dict[str, tuple[int, ...]] = {}
        self._paths: dict[str, str] = {}
        self._rates: dict[str, Rates] = {}

    def are_at(self, folder: str) -> bool:
        """Return whether the card is still in this folder, with the same sensors."""
        hwmon = self.names.get("hwmon")
        return folder == self.folder and (hwmon is None or Path(folder, hwmon).exists())

    def path(self, template: str) -> str:
        """Return the file of a path; raise LookupError if the card lacks a name in it."""
        path = self._paths.get(template)
        if path is None:
            # A name may be an absolute path.
            path = str(Path(self.folder, template.format_map(self.names)))
            self._paths[template] = path
        return path

    def text(self, template: str) -> str:
        return kernel_files.read(self.path(template)).strip()

    def bytes(self, template: str) -> bytes:
        return kernel_files.read_bytes(self.path(template))

    def number(self, template: str, parse: Callable[[str], float] = float) -> float:
        """Return the number in a file.

        Raises:
            ValueError: there is none.
        """
        try:
            return parse(self.text(template))
        except (ValueError, IndexError):
            raise ValueError("the kernel reported no number") from None

    def per_second(self, template: str, count: float | None = None) -> float:
        """Return the growth of a counter per second since the last reading."""
        count = int(self.number(template) if count is None else count)
        return self._rates.setdefault(template, Rates()).per_second(self.t, count)[0]

    def is_near_junction_limit(self, degrees: float) -> bool:
        """Return whether its hottest spot is within `degrees` of its critical temperature."""
        with suppress(OSError, LookupError, ValueError):
            now, limit = (
                self.number(f"{{hwmon}}/temp{{temp_junction}}_{name}") / 1000
                for name in ("input", "crit")
            )
            return now >= limit - degrees
        return False


def _hwmon_names(folder: str) -> dict[str, str]:
    """Return the card's hwmon folder, and the number of each sensor by its kind and label."""
    try:
        hwmon = min(kernel_files.names(f"{folder}/device/hwmon"))
        files = kernel_files.names(f"{folder}/device/hwmon/{hwmon}")
    except (OSError, ValueError):
        return {}
    names = {"hwmon": f"device/hwmon/{hwmon}"}
    for file in files:
        if (match := _LABEL.fullmatch(file)) is not None:
            with suppress(OSError):
                label = kernel_files.read(f"{folder}/{names['hwmon']}/{file}").strip().lower()
                names[f"{match[1]}_{label}"] = match[2]
    return names


def _link_names(folder: str) -> dict[str, str]:
    """Return the folder of the card's end of the PCIe link, and of the slot's.

    A card may have bridges of its own, whose links have nothing to do with the slot. These are the
    bridges of the same vendor, but for the root port, between which and the card the slot is.
    """
    device = str(Path(folder, "device").resolve())
    parts = device.split("/")
    places = [n for n, part in enumerate(parts) if _PCI_ADDRESS.fullmatch(part)]
    if not places:
        return {}
    chain = ["/".join(parts[: n + 1]) for n in places]
    card = len(chain) - 1
    while card > 1 and _vendor(chain[card - 1]) == _vendor(device):
        card -= 1
    return {"link": chain[card], "slot": chain[max(card - 1, 0)]}


def _vendor(device: str) -> str:
    with suppress(OSError):
        return kernel_files.read(f"{device}/vendor")
    return ""
