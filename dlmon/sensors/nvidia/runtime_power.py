"""Whether all NVIDIA GPUs are asleep, by Linux's files: to read these wakes none of them.

Linux's runtime power management turns a GPU off that nobody uses, if its
`power/control` is "auto" and the driver can (NVIDIA's README, "PCI-Express
Runtime D3"). NVML wakes each GPU that it is asked for a handle of, and keeps it
awake as long as it is open: an observer must leave sleeping GPUs alone.
"""

from __future__ import annotations

from pathlib import Path

from dlmon.sensors import kernel_files

ROOT = Path("/")
_DISPLAY_CLASS = "0x03"


class RuntimePower:
    """The display controllers that NVIDIA's driver manages."""

    def __init__(self, root: Path | None = None) -> None:
        root = ROOT if root is None else root
        self._driver = root / "sys/bus/pci/drivers/nvidia"
        self._statuses: list[str] = []

    def find_cards(self) -> None:
        """Find the cards; one that Linux may not suspend has no status that says it is."""
        try:
            entries = list(self._driver.iterdir())
        except OSError:
            entries = []
        cards = [entry for entry in entries if _text(entry / "class").startswith(_DISPLAY_CLASS)]
        self._statuses = [str(card / "power/runtime_status") for card in cards]

    @property
    def all_asleep(self) -> bool:
        """Whether there are cards, and none is awake."""
        return bool(self._statuses) and all(_text(path) == "suspended" for path in self._statuses)


def _text(path: str | Path) -> str:
    try:
        return kernel_files.read(path).strip()
    except OSError:
        return ""
