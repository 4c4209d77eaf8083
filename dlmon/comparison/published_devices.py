"""What is known of the devices of the published numbers: `devices.csv`, with its sources."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

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
        version 4 on, Nervana's neon) can so come to more than the device has.
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
    table = resources.files("dlmon.comparison").joinpath("devices.csv").read_text(encoding="utf-8")
    return {
        row["device"]: PublishedDevice(
            name=row["device"],
            cores=_whole(row["cores"]),
            base_mhz=_whole(row["base_mhz"]),
            boost_mhz=_whole(row["boost_mhz"]),
            memory=row["memory"] or None,
            memory_gb=_number(row["memory_gb"]),
            bandwidth_gb_s=_number(row["bandwidth_gb_s"]),
            tflop_s=_number(row["tflop_s"]),
            printed_tflop_s=_number(row["printed_tflop_s"]),
            price_usd=_number(row["price_usd"]),
            source=row["source"],
            note=row["note"] or None,
        )
        for row in csv.DictReader(table.splitlines())
    }


def _whole(text: str) -> int | None:
    return int(text) if text else None


def _number(text: str) -> float | None:
    return float(text) if text else None
