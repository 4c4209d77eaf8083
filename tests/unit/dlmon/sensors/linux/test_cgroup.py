"""Control groups of both versions, read from trees of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes.control_groups import HYBRID_MEMBERSHIP, HYBRID_MOUNTS, V2_MOUNT

from dlmon.records import Cpu, Memory
from dlmon.records.changes import merge
from dlmon.sensors.linux.cgroup import MACHINE_ONLY, CgroupProvider, cpu_limit, memory_limit
from dlmon.sensors.provider import SensorReading

CPU_FIELDS = ("throttled_pct", "limit_used_pct")
MIB = 2**20
SECOND = 1_000_000_000


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": f"MemTotal: {64 * 2**20} kB\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def v2_machine(root: Path, files: dict[str, str]) -> Path:
    base = {"proc/self/mountinfo": V2_MOUNT, "proc/self/cgroup": "0::/slice/job\n"}
    return write(root, base | {f"sys/fs/cgroup/{name}": text for name, text in files.items()})


def hybrid_machine(root: Path, files: dict[str, str]) -> Path:
    base = {"proc/self/mountinfo": HYBRID_MOUNTS, "proc/self/cgroup": HYBRID_MEMBERSHIP}
    return write(root, base | {f"sys/fs/cgroup/{name}": text for name, text in files.items()})


CPU_V1 = {"cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("limit", "version", "files", "expected"),
    [
        (cpu_limit, 2, {"cpu.max": "max 100000\n"}, None),
        (cpu_limit, 2, {"cpu.max": "150000 100000\n"}, 1.5),
        (cpu_limit, 1, {}, None),
        (cpu_limit, 1, CPU_V1 | {"cpu.cfs_quota_us": "-1\n"}, None),
        (cpu_limit, 1, CPU_V1 | {"cpu.cfs_quota_us": "350000\n"}, 3.5),
        (memory_limit, 2, {}, None),
        (memory_limit, 2, {"memory.max": "max\n"}, None),
        (memory_limit, 2, {"memory.max": f"{MIB}\n"}, MIB),
        (memory_limit, 1, {"memory.limit_in_bytes": "9223372036854771712\n"}, None),
        (memory_limit, 1, {"memory.limit_in_bytes": f"{2 * MIB}\n"}, 2 * MIB),
        *((cpu_limit, 2, {"cpu.max": text}, ValueError) for text in ("", "lots 100000", "1 0")),
    ],
)
def test_a_limit_is_what_the_files_of_the_group_say(
    tmp_path: Path, limit, version, files, expected
):
    write(tmp_path, files)
    if expected is ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - the words are int()'s
            limit(version, tmp_path)
    else:
        assert limit(version, tmp_path) == expected


def test_the_tightest_limit_of_all_ancestors_counts(tmp_path: Path):
    root = v2_machine(
        tmp_path,
        {
            "slice/job/cpu.max": "400000 100000\n",
            "slice/job/memory.max": "max\n",
            "slice/cpu.max": "250000 100000\n",
            "slice/memory.max": f"{4096 * MIB}\n",
        },
    )
    facts = CgroupProvider(root).facts()
    assert facts.cpu_limit == 2.5
    assert facts.memory_limit_mib == 4096


def test_where_a_limit_is_set_its_group_is_what_counts(tmp_path: Path):
    root = v2_machine(
        tmp_path,
        {
            "slice/job/cpu.max": "max 100000\n",
            "slice/cpu.max": "200000 100000\n",
            "slice/cpu.stat": "usage_usec 500000\nnr_periods 10\nnr_throttled 0\n",
            "slice/job/memory.max": f"{1024 * MIB}\n",
            "slice/job/memory.current": f"{300 * MIB}\n",
            "slice/job/memory.stat": f"inactive_file {100 * MIB}\n",
        },
    )
    provider = CgroupProvider(root)
    provider.facts()
    assert provider.fast(0).cpu == Cpu(why=dict.fromkeys(CPU_FIELDS, "no earlier reading yet"))
    (root / "sys/fs/cgroup/slice/cpu.stat").write_text(
        "usage_usec 2000000\nnr_periods 20\nnr_throttled 9\n"
    )
    reading = provider.fast(SECOND)
    assert reading.cpu == Cpu(throttled_pct=90.0, limit_used_pct=75.0)
    assert reading.memory == Memory(used_mib=200)


def test_without_a_limit_nothing_is_claimed(tmp_path: Path):
    provider = CgroupProvider(v2_machine(tmp_path, {"slice/job/cpu.max": "max 100000\n"}))
    facts = provider.facts()
    assert facts.why == {
        "cpu_limit": "no CPU limit is set",
        "memory_limit_mib": "no memory limit is set",
    }
    reading = provider.fast(0)
    assert reading.cpu == Cpu(why=dict.fromkeys(CPU_FIELDS, "no CPU limit is set"))
    assert reading.memory is None


def test_limits_and_use_of_a_hybrid_machine(tmp_path: Path):
    jobs, unread = "cpu,cpuacct/jobs", "pgmajfault 1\n"
    root = hybrid_machine(
        tmp_path,
        {
            f"{jobs}/cpu.cfs_quota_us": "200000\n",
            f"{jobs}/cpu.cfs_period_us": "100000\n",
            f"{jobs}/cpu.stat": "nr_periods 1\nnr_throttled 1\nthrottled_time 5\n",
            f"{jobs}/cpuacct.usage": f"{SECOND}\n",
            "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "memory/jobs/a/memory.limit_in_bytes": f"{512 * MIB}\n",
            "memory/jobs/a/memory.usage_in_bytes": f"{100 * MIB}\n",
            "memory/jobs/a/memory.stat": f"total_inactive_file {10 * MIB}\ntotal_pgmajfault 8\n",
            "unified/cpu.stat": "usage_usec 1\n",
        },
    )
    provider = CgroupProvider(root)
    facts = provider.facts()
    assert (facts.cpu_limit, facts.memory_limit_mib) == (2.0, 512)
    assert provider.fast(0).memory == Memory(used_mib=90)
    provider.slow(0)
    (root / f"sys/fs/cgroup/{jobs}/cpuacct.usage").write_text(f"{2 * SECOND}\n")
    (root / "sys/fs/cgroup/memory/jobs/a/memory.stat").write_text(f"{unread}total_pgmajfault 18\n")
    assert provider.fast(SECOND).cpu.limit_used_pct == 50.0
    assert provider.slow(5 * SECOND).memory == Memory(
        major_faults_s=2.0, why=dict.fromkeys(("swap_used_mib", "swap_mib_s"), MACHINE_ONLY)
    )


def test_a_groups_swap_and_major_faults_count_where_its_memory_is_limited(tmp_path: Path):
    root = v2_machine(
        tmp_path,
        {
            "slice/job/memory.max": f"{512 * MIB}\n",
            "slice/job/memory.swap.current": f"{30 * MIB}\n",
            "slice/job/memory.stat": "pgfault 900\npgmajfault 40\npswpin 100\npswpout 50\n",
        },
    )
    provider = CgroupProvider(root)
    provider.facts()
    no_rates = dict.fromkeys(("swap_mib_s", "major_faults_s"), "no earlier reading yet")
    assert provider.slow(0).memory == Memory(swap_used_mib=30, why=no_rates)
    pages = 10 * MIB // os.sysconf("SC_PAGE_SIZE")
    (root / "sys/fs/cgroup/slice/job/memory.stat").write_text(
        f"pgmajfault 65\npswpin {100 + pages}\npswpout {50 + pages}\n"
    )
    assert provider.slow(5 * SECOND).memory == Memory(
        swap_used_mib=30, swap_mib_s=4.0, major_faults_s=5.0
    )


def test_the_machines_swap_rate_is_not_taken_for_that_of_a_limited_group(tmp_path: Path):
    limited = {"slice/job/memory.max": f"{512 * MIB}\n", "slice/job/memory.stat": "pgmajfault 4\n"}
    provider = CgroupProvider(v2_machine(tmp_path, limited))
    provider.facts()
    machines = SensorReading(memory=Memory(swap_mib_s=70.0))
    reported = merge(machines, provider.slow(0)).memory
    assert reported is not None
    assert reported.swap_mib_s is None
    assert reported.why["swap_mib_s"] == MACHINE_ONLY


@pytest.mark.parametrize(
    ("limits", "swap_mib"),
    [
        ({"slice/job/memory.swap.max": f"{100 * MIB}\n"}, 100),
        ({"slice/job/memory.swap.max": "0\n"}, 0),
        ({"slice/job/memory.swap.max": "max\n"}, None),
        ({"slice/job/memory.swap.max": f"{4096 * MIB}\n"}, None),
        ({"slice/job/memory.swap.max": "max\n", "slice/memory.swap.max": f"{7 * MIB}\n"}, 7),
        ({}, None),
    ],
)
def test_swap_is_what_the_group_may_use_of_it(tmp_path: Path, limits, swap_mib):
    root = v2_machine(tmp_path, {"slice/job/memory.max": f"{512 * MIB}\n", **limits})
    meminfo = f"MemTotal: {64 * 2**20} kB\nSwapTotal: {2 * 2**20} kB\n"
    (root / "proc/meminfo").write_text(meminfo)
    facts = CgroupProvider(root).facts()
    assert (facts.memory_limit_mib, facts.swap_mib) == (512, swap_mib)


def test_a_machine_without_proc_says_so(tmp_path: Path):
    provider = CgroupProvider(tmp_path)
    assert provider.facts().why == dict.fromkeys(
        ("cpu_limit", "memory_limit_mib"), "not reported here"
    )
    assert provider.fast(0).cpu == Cpu(why=dict.fromkeys(CPU_FIELDS, "not reported here"))
