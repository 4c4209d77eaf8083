"""Trees of /sys and /proc, with cards of AMD and Intel at work, as the kernel shows them.

The files of each card, their form, its limits and its levels are those of its owner's dump, where
there is one (`real_cards`), or of the kernel's documentation. Owners take dumps of idle cards: what
a card at work reads is made up.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlmon.sensors.drm import intel_memory

MIB, GIB = 2**20, 2**30


def gpu_metrics(
    revision: tuple[int, int], size: int, values: Mapping[int, tuple[str, int]]
) -> bytes:
    """Return a table of all ones, but for its header and the values by offset."""
    table = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", table, 0, size, *revision)
    for offset, (format, value) in values.items():
        struct.pack_into(f"<{format}", table, offset, value)
    return bytes(table)


def throttled(bits: int, revision: tuple[int, int] = (1, 3)) -> bytes:
    """Return a table of amdgpu's with these bits of `indep_throttle_status`."""
    size, offset = {(1, 3): (120, 112), (2, 2): (128, 120), (2, 3): (152, 120)}[revision]
    return gpu_metrics(revision, size, {offset: ("Q", bits)})


@dataclass
class MadeCard:
    """A card: its PCI ids, its bridges from the root port on, and its files below `device`."""

    driver: str
    ids: tuple[int, int, int]
    place: tuple[str, ...]
    files: dict[str, Any] = field(default_factory=dict)
    hwmon: dict[str, Any] = field(default_factory=dict)
    card_files: dict[str, Any] = field(default_factory=dict)
    gpu_id: int = 0
    slot_lanes: int = 16
    own_mib: int = 0
    """What the driver of a card of Intel's answers of its memory."""

    @property
    def bus_id(self) -> str:
        return self.place[-1]


def _link(speed: str, width: int, most: str = "", most_width: int = 0) -> dict[str, Any]:
    return {
        "current_link_speed": f"{speed} GT/s PCIe",
        "current_link_width": width,
        "max_link_speed": f"{most or speed} GT/s PCIe",
        "max_link_width": most_width or width,
    }


def _amd_hwmon(
    power: str,
    watts: float,
    cap: float,
    temperatures: Mapping[str, tuple[float, float]],
    **more: Any,
) -> dict[str, Any]:
    files: dict[str, Any] = {"name": "amdgpu", power: int(watts * 1e6), "freq1_label": "sclk"}
    if cap:
        files |= {"power1_cap": int(cap * 1e6)}
    numbers = {"edge": 1, "junction": 2, "mem": 3}
    for label, (now, limit) in temperatures.items():
        n = numbers[label]
        files |= {f"temp{n}_label": label, f"temp{n}_input": int(now * 1000)}
        if limit:
            files |= {f"temp{n}_crit": int(limit * 1000)}
    return files | more


def _levels(*mhz: int) -> str:
    return "".join(f"{n}: {level}Mhz {'*' if n == 0 else ''}\n" for n, level in enumerate(mhz))


def _amd(
    busy: int, vram: tuple[int, int], gtt: tuple[int, int], sclk: str, **more: Any
) -> dict[str, Any]:
    return {
        "gpu_busy_percent": busy,
        "mem_info_vram_used": vram[0] * MIB,
        "mem_info_vram_total": vram[1] * MIB,
        "mem_info_gtt_used": gtt[0] * MIB,
        "mem_info_gtt_total": gtt[1] * MIB,
        "pp_dpm_sclk": sclk,
        "power/runtime_status": "active",
        **more,
    }


def rx_7900_xtx() -> MadeCard:
    """Navi 31: two bridges of its own, metrics 1.3, power as an average."""
    return MadeCard(
        "amdgpu",
        (0x1002, 0x744C, 0xC8),
        ("0000:00:01.1", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"),
        _amd(
            97,
            (18_000, 24_560),
            (300, 31_900),
            _levels(500, 31, 2219),
            mem_busy_percent=61,
            pp_dpm_mclk=_levels(96, 456, 772, 1249),
            unique_id="b1d3a9c27f0e4c55",
            gpu_metrics=throttled(1 << 0),
            **{"ras/umc_err_count": "ue: 0\nce: 2\n"},
        ),
        _amd_hwmon(
            "power1_average",
            339,
            339,
            {"edge": (63, 100), "junction": (84, 110), "mem": (78, 108)},
            freq1_input=2_482_000_000,
            freq2_label="mclk",
            freq2_input=1_249_000_000,
            pwm1=128,
            pwm1_max=255,
            fan1_input=1604,
            fan1_max=3200,
        ),
        gpu_id=51545,
    )


def rx_6600() -> MadeCard:
    """Navi 23: eight lanes, in a slot that has fewer."""
    return MadeCard(
        "amdgpu",
        (0x1002, 0x73FF, 0xC7),
        ("0000:00:01.2", "0000:08:00.0", "0000:09:00.0", "0000:0a:00.0"),
        _amd(
            12,
            (900, 8176),
            (60, 15_900),
            _levels(500, 2750),
            mem_busy_percent=3,
            pp_dpm_mclk=_levels(96, 875),
            gpu_metrics=throttled(0),
        ),
        _amd_hwmon(
            "power1_average",
            24,
            100,
            {"edge": (41, 100), "junction": (44, 110), "mem": (40, 105)},
            freq1_input=860_000_000,
            freq2_label="mclk",
            freq2_input=875_000_000,
            pwm1=0,
            pwm1_max=255,
        ),
        gpu_id=3274,
    )


def vega_64() -> MadeCard:
    """Vega 10: no gpu_metrics."""
    return MadeCard(
        "amdgpu",
        (0x1002, 0x687F, 0xC1),
        ("0000:00:03.1", "0000:0b:00.0", "0000:0c:00.0", "0000:0d:00.0"),
        _amd(
            88,
            (6100, 8176),
            (20, 16_000),
            _levels(852, 1630),
            pp_dpm_mclk=_levels(167, 945),
            unique_id="0213a5a6e8c1f4d2",
        ),
        _amd_hwmon(
            "power1_average",
            211,
            220,
            {"edge": (70, 85), "junction": (82, 105), "mem": (79, 95)},
            freq1_input=1_536_000_000,
            freq2_label="mclk",
            freq2_input=945_000_000,
            pwm1=102,
            pwm1_max=255,
        ),
        gpu_id=22_352,
    )


def mi300x() -> MadeCard:
    """Aqua Vanjaram: no edge sensor, metrics 1.6 with energy, errors of its memory."""
    return MadeCard(
        "amdgpu",
        (0x1002, 0x74A1, 0),
        ("0000:80:01.1", "0000:81:00.0"),
        _amd(
            100,
            (151_000, 196_592),
            (40, 500_000),
            _levels(132, 2100),
            mem_busy_percent=40,
            pp_dpm_mclk=_levels(900, 1300),
            unique_id="3a1c5e8f90b2d4c6",
            product_name="AMD Instinct MI300X OAM",
            gpu_metrics=mi300x_metrics(),
            **{"ras/umc_err_count": "ue: 1\nce: 7\n"},
        ),
        _amd_hwmon(
            "power1_input",
            742,
            750,
            {"junction": (71, 100), "mem": (58, 105)},
            freq1_input=2_100_000_000,
            freq2_label="mclk",
            freq2_input=1_300_000_000,
        ),
        gpu_id=28_851,
    )


def mi300x_metrics(joules: int = 1000, power_cap: int = 5, heat: int = 0) -> bytes:
    """Return a table 1.6: the energy, and the counters of throttling."""
    zeros = dict.fromkeys((36, 48, 52), ("I", 0))
    counts = {16: ("Q", joules * 2**16), 40: ("I", power_cap), 44: ("I", heat)}
    return gpu_metrics((1, 6), 1664, zeros | counts)


def radeon_780m() -> MadeCard:
    """Phoenix: a GPU in a processor, which uses the system's memory; metrics 2.1."""
    return MadeCard(
        "amdgpu",
        (0x1002, 0x15BF, 0xDD),
        ("0000:00:08.1", "0000:64:00.0"),
        _amd(
            35,
            (1214, 4096),
            (2048, 29_978),
            _levels(800, 1100, 2700),
            pp_dpm_mclk=_levels(400, 800, 800, 800),
            gpu_metrics=gpu_metrics((2, 1), 120, {}),
        ),
        _amd_hwmon(
            "power1_average",
            21,
            0,
            {"edge": (56, 0)},
            freq1_input=1_900_000_000,
            in1_label="vddnb",
            in1_input=615,
            power1_input=21_200_000,
        ),
        gpu_id=2567,
    )


def radeon_8060s(vram_mib: int = 512, gtt_mib: int = 63_000) -> MadeCard:
    """Strix Halo: metrics 3.0; the firmware may set most of the memory aside for it."""
    return MadeCard(
        "amdgpu",
        (0x1002, 0x1586, 0xD1),
        ("0000:00:08.1", "0000:c3:00.0"),
        _amd(
            93,
            (vram_mib // 2, vram_mib),
            (30_000, gtt_mib),
            _levels(600, 2900),
            pp_dpm_mclk=_levels(400, 1000),
            gpu_metrics=strix_metrics(),
        ),
        _amd_hwmon("power1_average", 88, 0, {"edge": (66, 0)}, freq1_input=2_850_000_000),
        gpu_id=51_001,
    )


def strix_metrics(fast_limit: int = 10, core_heat: int = 0) -> bytes:
    """Return a table 3.0 with the counters of throttling."""
    zeros = dict.fromkeys(range(228, 256, 4), ("I", 0))
    return gpu_metrics((3, 0), 264, zeros | {236: ("I", fast_limit), 244: ("I", core_heat)})


def arc_a770() -> MadeCard:
    """DG2 with i915: a bridge of its own, and an endpoint that always reports one slow lane."""
    return MadeCard(
        "i915",
        (0x8086, 0x56A0, 8),
        ("0000:00:01.0", "0000:03:00.0", "0000:04:01.0", "0000:05:00.0"),
        {"power/runtime_status": "active"},
        {
            "name": "i915",
            "energy1_input": 5_000_000,
            "power1_max": 190_000_000,
            "power1_rated_max": 0,
            "in0_input": 700,
            "fan1_input": 1200,
        },
        _i915_files(act=2300, most=2400, rc6=1000),
        slot_lanes=8,
        own_mib=16_288,
    )


def uhd_770() -> MadeCard:
    """Raptor Lake's Xe with i915: no hwmon, no memory of its own."""
    return MadeCard(
        "i915",
        (0x8086, 0xA780, 4),
        ("0000:00:02.0",),
        {"power/runtime_status": "active"},
        {},
        _i915_files(act=0, most=1550, rc6=50_000),
    )


def _i915_files(act: int, most: int, rc6: int) -> dict[str, Any]:
    return {
        "gt/gt0/rps_act_freq_mhz": act,
        "gt/gt0/rps_RP0_freq_mhz": most,
        "gt/gt0/rc6_residency_ms": rc6,
        **{f"gt/gt0/throttle_reason_{name}": 0 for name in _REASONS},
    }


def arc_b580() -> MadeCard:
    """Battlemage with xe: labelled sensors of card and package."""
    return MadeCard(
        "xe",
        (0x8086, 0xE20B, 0),
        ("0000:00:06.0", "0000:02:00.0", "0000:03:01.0", "0000:04:00.0"),
        _xe_files(act=2750, most=2850, idle=1000),
        {
            "name": "xe",
            "energy1_label": "card",
            "energy1_input": 9_000_000,
            "energy2_label": "pkg",
            "energy2_input": 7_000_000,
            "power1_label": "card",
            "power1_cap": 190_000_000,
            "power1_crit": 380_000_000,
            "fan1_input": 1116,
            "fan1_max": 2160,
            "temp2_label": "pkg",
            "temp2_input": 61_000,
            "temp2_crit": 100_000,
            "temp3_label": "vram",
            "temp3_input": 68_000,
        },
        own_mib=12_216,
    )


def arc_140v() -> MadeCard:
    """Lunar Lake with xe: a GPU in a processor, without hwmon."""
    return MadeCard(
        "xe",
        (0x8086, 0x64A0, 4),
        ("0000:00:02.0",),
        _xe_files(act=1950, most=2050, idle=200),
    )


def _xe_files(act: int, most: int, idle: int) -> dict[str, Any]:
    gt = "tile0/gt0"
    throttle = {f"{gt}/freq0/throttle/reason_{name}": 0 for name in _REASONS if name != "status"}
    return {
        "power/runtime_status": "active",
        f"{gt}/freq0/act_freq": act,
        f"{gt}/freq0/rp0_freq": most,
        f"{gt}/gtidle/idle_residency_ms": idle,
        f"{gt}/freq0/throttle/status": 0,
        **throttle,
    }


_REASONS = ("status", "pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc")
AMD = (rx_7900_xtx, rx_6600, vega_64, mi300x, radeon_780m, radeon_8060s)
INTEL = (arc_a770, arc_b580, uhd_770, arc_140v)
PCI_IDS = """# Syntax of pci.ids
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t687f  Vega 10 XL/XT [Radeon RX Vega 56/64]
\t73ff  Navi 23 [Radeon RX 6600/6600 XT/6600M]
\t\t1002 0001  a board
8086  Intel Corporation
\t56a0  DG2 [Arc A770]
\te20b  Battlemage G21 [Arc B580]
\ta780  Raptor Lake-S GT1 [UHD Graphics 770]
\t64a0  Lunar Lake [Intel Arc Graphics 130V / 140V]
"""
AMDGPU_IDS = """# List of AMDGPU IDs
1.0.0
744C,\tC8,\tAMD Radeon RX 7900 XTX
15BF,\tDD,\tAMD Radeon 780M
1586,\tD1,\tAMD Radeon 8060S
"""


class Tree:
    """A made-up root folder."""

    def __init__(self, root: Path, *cards: MadeCard, same_pids: bool = True) -> None:
        self.root = root
        self.cards: list[MadeCard] = []
        self.write("usr/share/misc/pci.ids", PCI_IDS)
        self.write("usr/share/libdrm/amdgpu.ids", AMDGPU_IDS)
        (root / "sys/class/drm").mkdir(parents=True)
        (root / "proc/self/ns").mkdir(parents=True)
        (root / "proc/self/ns/pid").symlink_to(f"pid:[{4026531836 if same_pids else 4026532000}]")
        for card in cards:
            self.add(card)

    def write(self, path: str, value: Any) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, bytes):
            file.write_bytes(value)
        else:
            file.write_text(str(value) if str(value).endswith("\n") else f"{value}\n")

    def add(self, card: MadeCard, hwmon: int | None = None) -> None:
        """Plug a card in: the next `cardN`, and its node of amdkfd."""
        number = len(self.cards)
        self.cards.append(card)
        device = self.device(card)
        top = device
        for bridge in reversed(card.place[:-1]):
            top = top.parent
            vendor = card.ids[0] if bridge != card.place[0] else 0x1022
            most = 16 if bridge != card.place[0] else card.slot_lanes
            speeds = _link("16.0", card.slot_lanes, most_width=most)
            for name, value in {"vendor": f"0x{vendor:04x}", **speeds}.items():
                self._write(top / name, value)
        ids = zip(("vendor", "device", "revision"), card.ids, strict=True)
        files = {name: f"0x{value:04x}" for name, value in ids}
        if len(card.place) > 2:
            files |= _link("2.5", 1)
        for name, value in {**files, **card.files}.items():
            self._write(device / name, value)
        for name, value in card.hwmon.items():
            self._write(device / f"hwmon/hwmon{number if hwmon is None else hwmon}" / name, value)
        driver = self.root / "sys/bus/pci/drivers" / card.driver
        driver.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(driver)
        folder = device / f"drm/card{number}"
        for name, value in card.card_files.items():
            self._write(folder / name, value)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "device").symlink_to(device)
        node = f"renderD{128 + number}"
        (device / "drm" / node).mkdir()
        self.write(f"dev/dri/{node}", _regions(card))
        (self.root / f"sys/class/drm/card{number}").symlink_to(folder)
        if card.gpu_id:
            self.add_node(card, card.gpu_id)

    def add_node(self, card: MadeCard, gpu_id: int, part: int = 0) -> None:
        """Add a node of amdkfd: a card, or a further part of an MI300X."""
        nodes = self.root / "sys/class/kfd/kfd/topology/nodes"
        number = 1 + (len(list(nodes.iterdir())) if nodes.exists() else 0)
        domain, bus, device = card.bus_id.split(":")
        place = int(bus, 16) << 8 | int(device.split(".")[0], 16) << 3 | int(device[-1])
        node = f"sys/class/kfd/kfd/topology/nodes/{number}"
        self.write(f"{node}/gpu_id", gpu_id)
        lines = "simd_count 96", f"location_id {place | part}", f"domain {int(domain, 16)}"
        self.write(f"{node}/properties", "\n".join((*lines, *["gfx_target_version 90402"][:part])))

    def _write(self, path: Path, value: Any) -> None:
        self.write(str(path.relative_to(self.root)), value)

    def device(self, card: MadeCard) -> Path:
        return (
            self.root
            / "sys/devices"
            / ("pci0000:80" if card.place[0][5:7] == "80" else "pci0000:00")
            / Path(*card.place)
        )

    def set(self, card: MadeCard, **values: Any) -> None:
        """Change files of a card's device, with `/` as `__`."""
        for name, value in values.items():
            self._write(self.device(card) / name.replace("__", "/"), value)

    def set_hwmon(self, card: MadeCard, **values: Any) -> None:
        (hwmon,) = (self.device(card) / "hwmon").iterdir()
        for name, value in values.items():
            self._write(hwmon / name, value)

    def remove(self, card: MadeCard) -> None:
        """Take a card out of the machine; its `cardN` stays free."""
        number = self.cards.index(card)
        (self.root / f"sys/class/drm/card{number}").unlink()
        shutil.rmtree(self.device(card))

    def put_back(self, card: MadeCard, hwmon: int) -> None:
        """Put the card that was last plugged in back, with another number of its sensors."""
        assert self.cards.pop() is card
        self.add(card, hwmon)

    def open_card(
        self, pid: int, file: int, fdinfo: str, target: str = "/dev/dri/renderD128"
    ) -> None:
        """Let a process have a card open."""
        folder = self.root / f"proc/{pid}/fd"
        folder.mkdir(parents=True, exist_ok=True)
        link = folder / str(file)
        if not link.is_symlink():
            link.symlink_to(target)
        self.write(f"proc/{pid}/fdinfo/{file}", fdinfo)

    def compute(self, pid: int, card: MadeCard, used_mib: int, gpu_id: int = 0) -> None:
        """Let a process compute by ROCm."""
        path = f"sys/class/kfd/kfd/proc/{pid}/vram_{gpu_id or card.gpu_id}"
        self.write(path, used_mib * MIB)


def _regions(card: MadeCard) -> bytes:
    """Return the driver's answer of its regions of memory: the system's and, if any, its own."""
    sizes = [16 * GIB, *([card.own_mib * MIB] if card.own_mib else [])]
    head = struct.pack("<I12x" if card.driver == "i915" else "<I4x", len(sizes))
    regions = (struct.pack("<H6xQ72x", kind, size) for kind, size in enumerate(sizes))
    return head + b"".join(regions)


def let_drivers_answer(root: Path, replace: Callable[[Any, str, Any], None]) -> None:
    """Have the drivers of a tree's cards answer what `_regions` wrote; `replace` is setattr."""
    replace(intel_memory, "DEVICES", root / "dev/dri")
    for name in ("_ask_xe", "_ask_i915"):
        replace(intel_memory, name, lambda descriptor: os.read(descriptor, 1 << 16))


def fdinfo(card: MadeCard, client: int, *lines: str) -> str:
    """Return the text of /proc/PID/fdinfo/FILE for an open card."""
    head = (
        "pos:\t0",
        "flags:\t02100002",
        "mnt_id:\t24",
        "ino:\t905",
        f"drm-driver:\t{card.driver}",
    )
    parts = (f"drm-client-id:\t{client}", f"drm-pdev:\t{card.bus_id}")
    return "\n".join((*head, *parts, *(line.replace(": ", ":\t", 1) for line in lines), ""))
