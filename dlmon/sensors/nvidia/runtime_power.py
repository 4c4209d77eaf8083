"""Which NVIDIA GPUs are asleep, by Linux's files: to read these wakes none of them.

Linux's runtime power management turns a GPU off that nobody uses, if its
`power/control` is "auto" and the driver can (NVIDIA's README, "PCI-Express
Runtime D3"). NVML wakes each GPU that it is asked for a handle of, and keeps it
awake as long as it is open: an observer must leave a sleeping GPU alone.
"""

from __future__ import annotations

from pathlib import Path

from dlmon.sensors import kernel_files

ROOT = Path("/")
_DISPLAY_CLASS = "0x03"


class RuntimePower:
    """The display controllers that NVIDIA's driver manages; `bus_id` is as in `GpuFacts`."""

    def __init__(self, root: Path | None = None) -> None:
        root = ROOT if root is None else root
        self._driver = root / "sys/bus/pci/drivers/nvidia"
        self._statuses: dict[str, str] = {}
        self.cards: tuple[str, ...] = ()
        """Every card's bus id, in NVML's order."""
        self.asleep: frozenset[str] = frozenset()
        """Those that were suspended when they were looked at last."""

    def find_cards(self) -> None:
        """Find the cards, and which of them Linux may suspend."""
        try:
            entries = [entry.name for entry in self._driver.iterdir()]
        except OSError:
            entries = []
        cards = [entry for entry in entries if self._is_card(entry)]
        self.cards = tuple(sorted(cards, key=lambda card: (len(card), card)))
        self._statuses = {
            card: str(self._driver / card / "power/runtime_status")
            for card in self.cards
            if self._text(self._driver / card / "power/control") != "on"
        }

    def update(self) -> None:
        self.asleep = frozenset(
            card for card, status in self._statuses.items() if self._text(status) == "suspended"
        )

    @property
    def all_asleep(self) -> bool:
        """Whether there are cards, and none is awake."""
        return bool(self.cards) and len(self.asleep) == len(self.cards)

    def _is_card(self, entry: str) -> bool:
        return self._text(self._driver / entry / "class").startswith(_DISPLAY_CLASS)

    @staticmethod
    def _text(path: str | Path) -> str:
        try:
            return kernel_files.read(path).strip()
        except OSError:
            return ""
