"""The tables of queries of the drivers amdgpu, i915 and xe: field, unit and path.

The files are those of the kernel's Documentation/gpu/amdgpu/thermal.rst and driver-misc.rst, and of
Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon and -xe-hwmon. hwmon's units are
millidegrees, microwatts, microjoules and hertz (Documentation/hwmon/sysfs-interface.rst).

Paths are relative to the card's folder in /sys/class/drm, the best first; names in braces stand for
the card's own (`CardFiles.names`). A reader gets the `CardFiles`; it raises OSError, LookupError or
ValueError if the value is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from dlmon.records import LARGEST
from dlmon.sensors.drm import gpu_metrics, intel_memory
from dlmon.sensors.drm.card_files import CardFiles
from dlmon.sensors.provider import BYTES_IN_MIB
from dlmon.sensors.query import Query

Parser = Callable[[str], float]
# By the speed of a lane in GT/s: the kernel's Documentation/ABI/testing/sysfs-bus-pci.
_PCIE_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}


class Unit(NamedTuple):
    """A unit of a file: its factor to the field's, the decimals, and the plausible values."""

    scale: float
    digits: int | None
    within: tuple[float, float]


_PERCENT = Unit(1, None, (0, 100))
_BYTES = Unit(1 / BYTES_IN_MIB, None, (0, 2**26))
_OWN_BYTES = _BYTES._replace(within=(1, 2**26))
# A sensor that says 0 degrees or 0 watts of a card that is awake measures nothing.
_MILLIDEGREES = Unit(1e-3, None, (1, 250))
_MICROWATTS, _MICROJOULES = Unit(1e-6, 1, (0.1, 100_000)), Unit(1e-6, 1, (0, 1e13))
_HERTZ, _MEGAHERTZ = Unit(1e-6, None, (0, 100_000)), Unit(1, None, (0, 100_000))
_HIGHEST_MEGAHERTZ = _MEGAHERTZ._replace(within=(1, 100_000))
_COUNT = Unit(1, None, (0, LARGEST))
_GENERATION, _LANES = Unit(1, None, (1, 16)), Unit(1, None, (1, 64))


class Driver(NamedTuple):
    """A kernel driver.

    Attributes:
        name: its name in /sys and in `fdinfo`.
        vendor: as in `GpuFacts`.
        own_memory: how the regions of a GPU's own memory begin in `fdinfo`.
        facts: the queries that are asked once.
        fast: those of each interval.
        slow: those of the slow tier.
    """

    name: str
    vendor: str
    own_memory: str
    facts: tuple[Query, ...]
    fast: tuple[Query, ...]
    slow: tuple[Query, ...]


def _number(field: str, unit: Unit, *paths: str, parse: Parser = float) -> Query:
    """Return the query of a number in a file."""

    def read(path: str, card: CardFiles) -> float:
        return round(card.number(path, parse) * unit.scale, unit.digits)

    return Query(field, *(partial(read, path) for path in paths), within=unit.within)


def _awake_mhz(*paths: str) -> Query:
    """Return the query of the clock of Intel's GPUs, which is 0 in each moment of sleep."""

    def read(path: str, card: CardFiles) -> float:
        mhz = round(card.number(path))
        if not mhz:
            raise LookupError("asleep when it was read")
        return mhz

    return Query("sm_mhz", *(partial(read, path) for path in paths), within=_MEGAHERTZ.within)


def _limit_w(*paths: str) -> Query:
    """Return the query of a power limit; 0 stands for none."""

    def read(path: str, card: CardFiles) -> float:
        watts = card.number(path) * _MICROWATTS.scale
        if not watts:
            raise LookupError("no limit is set")
        return round(watts, 1)

    return Query("power_limit_w", *(partial(read, path) for path in paths), within=(1, 100_000))


def _microjoules(path: str, card: CardFiles) -> float:
    """Return what a counter of energy says; one that stays at 0 counts nothing."""
    count = card.number(path)
    if not count:
        raise LookupError("the counter counts nothing")
    return count


def _energy_j(path: str, card: CardFiles) -> float:
    return round(_microjoules(path, card) * _MICROJOULES.scale, 1)


def _mean_power_w(path: str, card: CardFiles) -> float:
    """Return the mean power since the last reading, by a counter of energy.

    With Linux 6.16, the counters of Battlemage grow by thousands of watts.
    """
    watts = card.per_second(path, _microjoules(path, card)) * _MICROWATTS.scale
    with suppress(OSError, LookupError, ValueError):
        if watts > card.number("{hwmon}/power1_crit") * _MICROWATTS.scale:
            return -1
    return round(watts, 1)


def _fan_pct(card: CardFiles) -> float:
    """Return the duty cycle of the fan, but the speed it has where one of the two is 0."""
    duty, speed = card.number("{hwmon}/pwm1"), None
    with suppress(OSError, LookupError, ValueError):
        speed = card.number("{hwmon}/fan1_input")
        if bool(speed) != bool(duty):
            return round(100 * speed / card.number("{hwmon}/fan1_max"))
    most = card.number("{hwmon}/pwm1_max")
    return round(100 * duty / most) if most > 0 else -1


def _awake_pct(*paths: str) -> Query:
    """Return the query of the share of time without sleep, which a file counts in ms.

    This is all that Intel's drivers tell of a whole GPU without root; while a GPU computes, it is
    awake.
    """

    def read(path: str, card: CardFiles) -> float:
        # The counter is read a moment before or after the clock.
        return round(min(max(100 - card.per_second(path) / 10, 0), 100))

    return Query("utilization_pct", *(partial(read, path) for path in paths))


def _share(field: str, *paths: tuple[str, str]) -> Query:
    """Return the query of one number in percent of another."""

    def read(part: str, whole: str, card: CardFiles) -> float:
        most = card.number(whole)
        return round(100 * card.number(part) / most) if most > 0 else -1

    return Query(field, *(partial(read, *pair) for pair in paths), within=(0, 200))


def _best_link(field: str, unit: Unit, file: str, parse: Parser = float) -> Query:
    """Return the query of the best PCIe link that both card and slot support."""

    def read(card: CardFiles) -> float:
        best = (round(card.number(f"{{{end}}}/{file}", parse)) for end in ("link", "slot"))
        return min(best)

    return Query(field, read, within=unit.within)


def _highest_mhz(text: str) -> float:
    """Return the highest clock in a list such as "0: 500Mhz *" (pp_dpm_sclk)."""
    if not text:
        raise LookupError("not reported here")
    return max(float(mhz) for mhz in re.findall(r"(\d+)Mhz", text, re.IGNORECASE))


def _current_mhz(text: str) -> float:
    """Return the clock in such a list that is marked."""
    return float(re.findall(r"(\d+)Mhz *\*", text, re.IGNORECASE)[0])


def _pcie_generation(text: str) -> float:
    """Return the generation for a speed such as "16.0 GT/s PCIe"; 0 if it is unknown."""
    return _PCIE_GENERATIONS.get(text.split(" ")[0], 0)


def _errors(kind: str, text: str) -> float:
    """Return the count in lines such as "ue: 0" and "ce: 0" (amdgpu's RAS)."""
    match = re.search(rf"\b{kind}: *(\d+)", text)
    return float(match[1]) if match is not None else -1


def _temperature(field: str, *labels: str, file: str = "input") -> Query:
    paths = (f"{{hwmon}}/temp{{temp_{label}}}_{file}" for label in labels)
    return _number(field, _MILLIDEGREES, *paths)


_BEST_LINK = (
    _best_link("pcie_max_generation", _GENERATION, "max_link_speed", _pcie_generation),
    _best_link("pcie_max_width", _LANES, "max_link_width"),
)
_LINK = (
    _number("pcie_generation", _GENERATION, "{link}/current_link_speed", parse=_pcie_generation),
    _number("pcie_width", _LANES, "{link}/current_link_width"),
)
# Cards of the Instinct family have no sensor at the edge.
_AMD_LABELS = ("edge", "junction")
_RAS = "device/ras/umc_err_count"
_MEMORY_CLOCKS = "device/pp_dpm_mclk"
_FAN_SPEED = _share("fan_pct", ("{hwmon}/fan1_input", "{hwmon}/fan1_max"))

AMDGPU = Driver(
    "amdgpu",
    "amd",
    "vram",
    facts=(
        _number("memory_mib", _OWN_BYTES, "device/mem_info_vram_total"),
        _temperature("slowdown_c", *_AMD_LABELS, file="crit"),
        _number("sm_max_mhz", _HIGHEST_MEGAHERTZ, "device/pp_dpm_sclk", parse=_highest_mhz),
        _number("memory_max_mhz", _HIGHEST_MEGAHERTZ, _MEMORY_CLOCKS, parse=_highest_mhz),
        *_BEST_LINK,
    ),
    fast=(
        _number("utilization_pct", _PERCENT, "device/gpu_busy_percent"),
        _number("memory_busy_pct", _PERCENT, "device/mem_busy_percent"),
        _number("memory_used_mib", _BYTES, "device/mem_info_vram_used"),
        _number("gtt_used_mib", _BYTES, "device/mem_info_gtt_used"),
        _number("power_w", _MICROWATTS, "{hwmon}/power1_average", "{hwmon}/power1_input"),
        _temperature("temperature_c", *_AMD_LABELS),
        _temperature("junction_c", "junction"),
        _number("sm_mhz", _HERTZ, "{hwmon}/freq{freq_sclk}_input"),
        Query("throttle", gpu_metrics.throttle),
        Query("energy_j", gpu_metrics.energy_j, within=_MICROJOULES.within),
    ),
    slow=(
        _limit_w("{hwmon}/power1_cap"),
        _temperature("memory_c", "mem"),
        Query(
            "memory_mhz",
            *_number("", _HERTZ, "{hwmon}/freq{freq_mclk}_input").readers,
            *_number("", _MEGAHERTZ, _MEMORY_CLOCKS, parse=_current_mhz).readers,
            within=_MEGAHERTZ.within,
        ),
        Query("fan_pct", _fan_pct, *_FAN_SPEED.readers, within=(0, 200)),
        _number("ecc_corrected", _COUNT, _RAS, parse=partial(_errors, "ce")),
        _number("ecc_uncorrected", _COUNT, _RAS, parse=partial(_errors, "ue")),
        *_LINK,
    ),
)

# The reasons of Intel's register GT0_PERF_LIMIT_REASONS, in NVML's words for the same.
_INTEL_REASONS = {
    **dict.fromkeys(("pl1", "pl2", "pl4"), "power cap"),
    **dict.fromkeys(("thermal", "ratl"), "thermal slowdown"),
    **dict.fromkeys(("prochot", "vr_thermalert"), "hardware thermal slowdown"),
    "vr_tdc": "current limit",
}


def _intel_throttle(status: str, prefix: str) -> Query:
    """Return the query of the reasons whose files hold a 1, unless the status is 0."""

    def read(card: CardFiles) -> tuple[str, ...]:
        if card.number(status) == 0:
            return ()
        reasons = (word for name, word in _INTEL_REASONS.items() if card.number(prefix + name))
        return tuple(dict.fromkeys(reasons)) or ("other",)

    return Query("throttle", read)


# xe has sensors of the card and of its package, i915 one of the card, without a label. The limit
# of a Battlemage is its cap.
_ENERGY = [f"{{hwmon}}/energy{n}_input" for n in ("{energy_card}", "{energy_pkg}", "1")]
_LIMIT = [
    f"{{hwmon}}/power{n}_{kind}"
    for n in ("{power_card}", "{power_pkg}", "1")
    for kind in ("max", "cap")
]
_POWER = (
    Query("power_w", *(partial(_mean_power_w, path) for path in _ENERGY), within=(0, 100_000)),
    Query("energy_j", *(partial(_energy_j, path) for path in _ENERGY), within=_MICROJOULES.within),
)
_GT0, _TILE0 = "gt/gt0", "device/tile0/gt0"

I915 = Driver(
    "i915",
    "intel",
    "local",
    facts=(
        Query(
            "memory_mib",
            # This file is that of Intel's own release of the driver.
            *_number("", _BYTES, "lmem_total_bytes").readers,
            intel_memory.of_i915,
            within=_OWN_BYTES.within,
        ),
        _number("sm_max_mhz", _MEGAHERTZ, f"{_GT0}/rps_RP0_freq_mhz", "gt_RP0_freq_mhz"),
        *_BEST_LINK,
    ),
    fast=(
        _awake_pct(f"{_GT0}/rc6_residency_ms", "power/rc6_residency_ms"),
        *_POWER,
        _number("temperature_c", _MILLIDEGREES, "{hwmon}/temp1_input"),
        _awake_mhz(f"{_GT0}/rps_act_freq_mhz", "gt_act_freq_mhz"),
        _intel_throttle(f"{_GT0}/throttle_reason_status", f"{_GT0}/throttle_reason_"),
    ),
    slow=(_limit_w(*_LIMIT), *_LINK),
)
XE = Driver(
    "xe",
    "intel",
    "vram",
    facts=(
        Query("memory_mib", intel_memory.of_xe, within=_OWN_BYTES.within),
        _temperature("slowdown_c", "pkg", file="crit"),
        _number("sm_max_mhz", _MEGAHERTZ, f"{_TILE0}/freq0/rp0_freq"),
        *_BEST_LINK,
    ),
    fast=(
        _awake_pct(f"{_TILE0}/gtidle/idle_residency_ms"),
        *_POWER,
        _temperature("temperature_c", "pkg"),
        _awake_mhz(f"{_TILE0}/freq0/act_freq"),
        _intel_throttle(f"{_TILE0}/freq0/throttle/status", f"{_TILE0}/freq0/throttle/reason_"),
    ),
    slow=(_limit_w(*_LIMIT), _temperature("memory_c", "vram"), _FAN_SPEED, *_LINK),
)
DRIVERS = {driver.name: driver for driver in (AMDGPU, I915, XE)}
