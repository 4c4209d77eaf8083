"""Cards as their owners' dumps show them: idle, with the files that dlmon reads.

The dumps are in github.com/ilya-zlobintsev/LACT, below tests/snapshots (commit 238e315b); those of
two cards are in issues, whose addresses stand beside them. A dump has no bridges above the card,
and some leave files out, such as the memory's.

A line is NAME=VALUE. `sclk` and `mclk` are the levels of pp_dpm_sclk and pp_dpm_mclk in MHz; of a
sensor, `temp1=edge:48000:105000` stands for its label, its reading and its critical temperature.
"""

from __future__ import annotations

import re
from typing import Any

from fakes.drm_tree import MadeCard, gpu_metrics, throttled

_DUMPS = {
    "amd/rx580": """
        amdgpu 1002:67df 0000:09:00.0
        gpu_busy_percent=11 mem_busy_percent=2 mem_info_vram_used=536870912
        mem_info_vram_total=4294967296 mem_info_gtt_used=92377088 mem_info_gtt_total=8342712320
        sclk=300,600,900*,1145,1215,1257,1300,1366 mclk=300,1000,1750*
        fan1_input=595 fan1_max=3200 pwm1=35 pwm1_max=255 freq1=sclk:798080000
        freq2=mclk:1750000000 power1_average=41045000 power1_cap=155000000 temp1=edge:44000:94000
    """,
    "amd/vega56": """
        amdgpu 1002:687f 0000:0b:00.0
        gpu_busy_percent=0 mem_info_vram_used=16613376 mem_info_vram_total=8573157376
        mem_info_gtt_used=12337152 mem_info_gtt_total=8342863872
        sclk=852*,991,1138,1269,1312,1474,1538,1590 mclk=167*,500,700,920
        fan1_input=5 fan1_max=3500 pwm1=0 pwm1_max=255 freq1=sclk:26000000 freq2=mclk:167000000
        power1_average=8000000 power1_cap=260000000 temp1=edge:38000:85000
        temp2=junction:38000:105000 temp3=mem:39000:95000
    """,
    "amd/r7-240": """
        amdgpu 1002:6617 0000:01:00.0
        mem_info_vram_used=495321088 mem_info_vram_total=2147483648 mem_info_gtt_used=116916224
        mem_info_gtt_total=4069261312 sclk= mclk= pwm1=103 pwm1_max=255
        freq1=sclk:400000000 freq2=mclk:1150000000 temp1=edge:52000:120000
    """,
    "amd/rx5500xt": """
        amdgpu 1002:7340 0000:04:00.0
        gpu_busy_percent=0 sclk=300,0*,1900 mclk=100,500,625,875*
        fan1_input=0 fan1_max=3200 pwm1=0 pwm1_max=255 freq1=sclk:31000000 freq2=mclk:875000000
        power1_average=16000000 power1_cap=130000000 temp1=edge:48000:110000
        temp2=junction:48000:105000 temp3=mem:0:105000
    """,
    "amd/rx6600": """
        amdgpu 1002:73ff 0000:12:00.0
        gpu_busy_percent=0 sclk=500,2605*,2700 mclk=96*,541,675,925
        fan1_input=1395 fan1_max=3100 pwm1=0 pwm1_max=255 freq1=sclk:20000000 freq2=mclk:96000000
        power1_average=3000000 power1_cap=120000000 temp1=edge:28000:100000
        temp2=junction:28000:110000 temp3=mem:26000:100000
    """,
    "amd/rx6600xt": """
        amdgpu 1002:73ff 0000:0b:00.0
        gpu_busy_percent=0 sclk=0*,0* mclk=96*,541,675,875
        fan1_input=0 fan1_max=3300 pwm1=0 pwm1_max=255 freq1=sclk:0 freq2=mclk:96000000
        power1_average=3000000 power1_cap=100000000 temp1=edge:35000:100000
        temp2=junction:35000:110000 temp3=mem:36000:100000
    """,
    "amd/rx7600s": """
        amdgpu 1002:7480 0000:03:00.0
        gpu_busy_percent=0 sclk=255,0*,1841 mclk=96*,456,772,1000 throttled=1.3:1000000000
        fan1_input=0 fan1_max=4900 pwm1=76 pwm1_max=255 freq1=sclk:0 freq2=mclk:96000000
        power1_average=1000000 power1_cap=95000000 temp1=edge:53000:100000
        temp2=junction:54000:100000 temp3=mem:60000:105000
    """,
    "amd/rx7900xtx": """
        amdgpu 1002:744c 0000:03:00.0
        gpu_busy_percent=3 sclk=500,31*,2219 mclk=96,456,772,1249*
        fan1_input=0 fan1_max=3200 pwm1=0 pwm1_max=255 freq1=sclk:31000000 freq2=mclk:1249000000
        power1_average=68000000 power1_cap=290000000 temp1=edge:53000:100000
        temp2=junction:61000:110000 temp3=mem:68000:108000
    """,
    "amd/rx9070": """
        amdgpu 1002:7550 0000:03:00.0
        gpu_busy_percent=25 sclk=500,789*,2070 mclk=96,456,772,875,1124*,1258 throttled=1.3:0
        fan1_input=1944 fan1_max=6000 pwm1=117 pwm1_max=255 freq1=sclk:900000000
        freq2=mclk:1124000000 power1_average=49000000 power1_cap=200000000
        temp1=edge:48000:110000 temp2=junction:52000:110000 temp3=mem:72000:108000
    """,
    "amd/phoenix": """
        amdgpu 1002:15bf 0000:64:00.0
        gpu_busy_percent=0 mem_info_vram_used=1272893440 mem_info_vram_total=4294967296
        mem_info_gtt_used=211398656 mem_info_gtt_total=31433977856
        sclk=800*,1100,2700 mclk=400*,800,800,800 metrics=2.1:120
        freq1=sclk:800000000 in1=vddnb:615 power1_average=3103000 power1_input=3142000
        temp1=edge:25000
    """,
    "amd/strixpoint": """
        amdgpu 1002:150e 0000:c1:00.0
        gpu_busy_percent=3 mem_info_vram_used=514580480 mem_info_vram_total=536870912
        mem_info_gtt_used=3946811392 mem_info_gtt_total=16441004032
        sclk=600,848*,2900 mclk=400,800,1000 metrics=3.0:264
        freq1=sclk:848000000 in1=vddnb:0 power1_average=9087000 power1_input=9087000
        temp1=edge:38000
    """,
    # docs/dump.json of github.com/Umio-Yasuno/amdgpu_top (commit f81e5bd3): its driver says 0 W.
    "amd/raphael": """
        amdgpu 1002:13c0 0000:13:00.0
        gpu_busy_percent=0 mem_info_vram_used=487604224 mem_info_vram_total=536870912
        mem_info_gtt_used=1627893760 mem_info_gtt_total=16360906752
        sclk=600,2200* mclk=3000* metrics=2.1:120
        freq1=sclk:2200000000 in1=vddnb:1189 power1_input=0 temp1=edge:51000
    """,
    # github.com/Syllo/nvtop/issues/514: an MI300A has no sensor at the edge;
    # github.com/ollama/ollama/pull/13463: all its memory is GTT (the size is made up).
    "amd/mi300a": """
        amdgpu 1002:74a0 0000:01:00.0
        mem_info_vram_used=0 mem_info_vram_total=0 mem_info_gtt_used=2147483648
        mem_info_gtt_total=134217728000 temp2=junction:43000 temp3=mem:37000
    """,
    # github.com/ROCm/rocm_smi_lib/issues/160: of the two dies of an MI250, one tells the power.
    "amd/mi250-second-die": """
        amdgpu 1002:740c 0000:b6:00.0
        power1_average=0 power1_cap=0
    """,
    "intel/a380-i915": """
        i915 8086:56a5 0000:0b:00.0
        current_link_speed=2.5 current_link_width=1 gt/gt0/rps_act_freq_mhz=600
        gt/gt0/rps_RP0_freq_mhz=2450 gt/gt0/rc6_residency_ms=6534
        gt/gt0/throttle_reason_status=0 energy1_input=25637161804 fan1_input=0
        power1_max=55000000 temp1_input=55000
    """,
    "intel/a380-xe": """
        xe 8086:56a5 0000:08:00.0
        current_link_speed=2.5 current_link_width=1 tile0/gt0/freq0/act_freq=0
        tile0/gt0/freq0/rp0_freq=2450 tile0/gt0/gtidle/idle_residency_ms=2547784
        tile0/gt0/freq0/throttle/status=0 energy2=pkg:59540970520 fan1_input=945
        power2_label=pkg power2_max=55000000 temp2=pkg:56000 temp3=vram:54000
    """,
    "intel/b580": """
        xe 8086:e20b 0000:09:00.0
        current_link_speed=2.5 current_link_width=1 tile0/gt0/freq0/act_freq=0
        tile0/gt0/freq0/rp0_freq=2850 tile0/gt0/gtidle/idle_residency_ms=308607
        tile0/gt0/freq0/throttle/status=0 energy1=card:11031745544 energy2=pkg:19014248107
        fan1_input=1116 fan1_max=2160 pwm1=0 power1_label=card power1_cap=190000000
        power1_crit=380000000 temp2=pkg:54000:100000 temp3=vram:56000:105000
    """,
    "intel/b580-6.16": """
        xe 8086:e20b 0000:0b:00.0
        current_link_speed=2.5 current_link_width=1 tile0/gt0/freq0/act_freq=400
        tile0/gt0/freq0/rp0_freq=2850 tile0/gt0/gtidle/idle_residency_ms=848095
        tile0/gt0/freq0/throttle/status=0 energy1=card:0 energy2=pkg:29523753173 fan1_input=0
        power1_label=card power1_crit=380000000 temp2=pkg:46000 temp3=vram:48000
    """,
    "intel/cometlake": """
        i915 8086:9b41 0000:00:02.0
        current_link_speed=Unknown current_link_width=0 gt_act_freq_mhz=300 gt_RP0_freq_mhz=1150
    """,
    "intel/tigerlake": """
        xe 8086:9a49 0000:00:02.0
        current_link_speed=Unknown current_link_width=0 tile0/gt0/freq0/act_freq=0
        tile0/gt0/freq0/rp0_freq=1300 tile0/gt0/gtidle/idle_residency_ms=5708894
        tile0/gt0/freq0/throttle/status=0
    """,
}
_SENSOR = re.compile(r"(temp|power|energy|freq|fan|pwm|in)\d")


def real_card(name: str) -> MadeCard:
    """Return the card of a dump; the rest of it is as it was made."""
    driver, ids, bus_id, *lines = _DUMPS[name].split()
    vendor, device = (int(part, 16) for part in ids.split(":"))
    bridges = () if bus_id == "0000:00:02.0" else ("0000:00:01.1",)
    if driver in ("i915", "xe") and bridges:
        bridges += ("0000:01:00.0", "0000:02:01.0")
    card = MadeCard(driver, (vendor, device, 0), (*bridges, bus_id))
    for key, _, value in (line.partition("=") for line in lines):
        if _SENSOR.match(key):
            card.hwmon |= _sensor(key, value)
        elif key.startswith("gt"):
            card.card_files[key] = value
        else:
            card.files |= _file(key, value)
    return card


def _sensor(key: str, value: str) -> dict[str, Any]:
    if ":" not in value:
        return {key: value}
    parts = zip(("label", "input", "crit"), value.split(":"), strict=False)
    return {f"{key}_{part}": text for part, text in parts}


def _file(key: str, value: str) -> dict[str, Any]:
    if key in ("sclk", "mclk"):
        levels = enumerate(filter(None, value.split(",")))
        text = "".join(
            f"{n}: {mhz.replace('*', '')}Mhz {'*' * ('*' in mhz)}\n" for n, mhz in levels
        )
        return {f"pp_dpm_{key}": text}
    if key == "throttled":
        return {"gpu_metrics": throttled(int(value.split(":")[1], 16))}
    if key == "metrics":
        version, size = value.split(":")
        major, minor = map(int, version.split("."))
        return {"gpu_metrics": gpu_metrics((major, minor), int(size), {})}
    if key == "current_link_speed":
        value = "Unknown" if value == "Unknown" else f"{value} GT/s PCIe"
    return {key: value}


REAL = tuple(_DUMPS)
