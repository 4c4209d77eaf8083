"""What is known of the devices of the published numbers: `devices.csv`, with its sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from dlmon.comparison.published import read_table

NOT_KNOWN = "the peak of this device is not known"
FEWER_OPERATIONS = "over its peak: fast convolutions (Winograd, FFT) do fewer than are counted"


@dataclass(frozen=True)
class PublishedDevice:
    """One device; what its source doesn't state, or where it was sold in two kinds, is None.

    Attributes:
        boost_mhz: a GPU's boost clock, a processor's maximum turbo clock.
        tflop_s: the most float32 operations at that clock, in 10¹² a second.
        printed_tflop_s: what the article of its numbers prints for that.
        price_usd: then, in US dollars.
        source: where the figures stand.
        note: what more a person should know.
    """

    name: str
    cores: int | None
    base_mhz: int | None
    boost_mhz: int | None
    memory: str | None
    memory_gb: float | None
    bandwidth_gb_s: float | None
    tflop_s: float | None
    printed_tflop_s: float | None
    price_usd: float | None
    source: str
    note: str | None

    def peak_share(self, flop_s: float, precision: str) -> tuple[float | None, str | None]:
        """Return operations a second as a share of the peak, or None and why it is unknown.

        Operations are those of direct convolutions. A library that has faster ones (cuDNN from
        version 4 on, Nervana's neon) can therefore exceed the device's peak.
        """
        if self.tflop_s is None:
            return None, self.note or NOT_KNOWN
        if precision != "float32":
            return None, f"the peak of this device in {precision} is not known"
        share = flop_s / (self.tflop_s * 1e12)
        return (share, None) if share <= 1 else (None, FEWER_OPERATIONS)


def find_device(name: str) -> PublishedDevice | None:
    """Return what is known of a device by its name in `published.csv`."""
    return _devices().get(name)


@cache
def _devices() -> dict[str, PublishedDevice]:
    return {device.name: device for device in read_table("devices.csv", PublishedDevice)}
