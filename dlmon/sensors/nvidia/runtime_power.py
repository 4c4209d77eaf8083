"""Which NVIDIA GPUs are asleep, by Linux's files: to read these wakes none of them.

Linux's runtime power management turns a GPU off that nobody uses, if its
`power/control` is "auto" and the driver can (NVIDIA's README, "PCI-Express
Runtime D3"). NVML wakes each GPU that it is asked for a handle of, and keeps it
awake as long as it is open: an observer must leave a sleeping GPU alone, and
let go of an idle one now and then.
"""

from __future__ import annotations

from pathlib import Path

from dlmon.sensors import kernel_files

ROOT = Path("/")
_DISPLAY_CLASS = "0x03"

# How long a GPU must do nothing before it is let go of, at first and at most.
FIRST_IDLE_NS = 10_000_000_000
LONGEST_IDLE_NS = 640_000_000_000
# How long it is then left alone: one falls asleep some seconds after its last user went.
RELEASE_NS = 30_000_000_000


class RuntimePower:
    """The display controllers that NVIDIA's driver manages; `bus_id` is as in `GpuFacts`."""

    def __init__(self, root: Path | None = None) -> None:
        root = ROOT if root is None else root
        self._driver = root / "sys/bus/pci/drivers/nvidia"
        self._of_driver = root / "proc/driver/nvidia/gpus"
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

    def may_fall_asleep(self) -> bool:
        """Return whether any card that is awake would be suspended if nobody used it."""
        awake = self._statuses.keys() - self.asleep
        return any(self._sleeps_when_unused(card) for card in awake)

    def _is_card(self, entry: str) -> bool:
        return self._text(self._driver / entry / "class").startswith(_DISPLAY_CLASS)

    def _sleeps_when_unused(self, card: str) -> bool:
        for line in self._text(self._of_driver / card / "power").splitlines():
            name, _, status = line.partition(":")
            if name == "Runtime D3 status":
                return status.strip().startswith("Enabled")
        return False

    @staticmethod
    def _text(path: str | Path) -> str:
        try:
            return kernel_files.read(path).strip()
        except OSError:
            return ""


class ReleaseSchedule:
    """When to let go of an idle GPU, and for how long.

    A GPU that stays awake although it was let go of has another user, so that
    it is let go of more and more seldom.
    """

    def __init__(self) -> None:
        self._idle_since: int | None = None
        self._patience_ns = FIRST_IDLE_NS
        self.until: int | None = None
        """The end of the present release."""

    def should_release(self, t: int, idle: bool) -> bool:
        """Take note whether the GPUs are idle at `t`, and return whether to release them now."""
        if not idle:
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = t
        if t - self._idle_since < self._patience_ns:
            return False
        self._idle_since = None
        self._patience_ns = min(2 * self._patience_ns, LONGEST_IDLE_NS)
        self.until = t + RELEASE_NS
        return True

    def is_over(self, t: int, at_once: bool = False) -> bool:
        """Return whether the release has lasted its time, and end it then, or `at_once`."""
        if self.until is None or (t < self.until and not at_once):
            return False
        self.until = None
        return True

    def fell_asleep(self) -> None:
        """Take note that a GPU sleeps: what wakes it has a use for it."""
        self._idle_since, self._patience_ns = None, FIRST_IDLE_NS
        if self.until is not None:
            self.until = 0
