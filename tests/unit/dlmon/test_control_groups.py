"""Which directories a process's control group is, of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlmon.control_groups import (
    UNIFIED,
    find_group,
    own_group,
    parse_membership,
    parse_mounts,
)

V2_MOUNT = "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID_MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
HYBRID_MEMBERSHIP = """\
9:name=systemd:/
4:memory:/jobs/a
1:cpu,cpuacct:/jobs
0::/
"""


def test_mounts_of_a_hybrid_machine_are_distinguished():
    mounts = parse_mounts(HYBRID_MOUNTS)
    assert [mount.point.rsplit("/", 1)[1] for mount in mounts] == [
        "cpu,cpuacct",
        "memory",
        "systemd",
        "unified",
    ]
    assert mounts[-1].controllers == {UNIFIED}
    assert {"cpu", "cpuacct"} <= mounts[0].controllers


def test_escapes_in_a_mount_point_are_undone():
    (mount,) = parse_mounts("1 2 0:1 /a\\040b /x\\134y rw - cgroup2 none rw\n")
    assert (mount.root, mount.point) == ("/a b", "/x\\y")


def test_lines_that_are_no_mounts_are_passed_over():
    assert parse_mounts("nonsense\n\n1 2 3\n") == ()


def test_membership_names_each_controller():
    paths = parse_membership(HYBRID_MEMBERSHIP)
    assert paths["cpuacct"] == "/jobs"
    assert paths["memory"] == "/jobs/a"
    assert paths[UNIFIED] == "/"


def test_a_group_path_may_hold_colons():
    assert parse_membership("0::/a:b/c\n") == {UNIFIED: "/a:b/c"}


def test_a_hybrid_machine_is_asked_by_version_1(tmp_path: Path):
    (tmp_path / "sys/fs/cgroup/memory/jobs/a").mkdir(parents=True)
    group = find_group(
        "memory", parse_mounts(HYBRID_MOUNTS), parse_membership(HYBRID_MEMBERSHIP), tmp_path
    )
    assert group.version == 1
    assert [str(d.relative_to(tmp_path)) for d in group.directories] == [
        "sys/fs/cgroup/memory/jobs/a",
        "sys/fs/cgroup/memory/jobs",
        "sys/fs/cgroup/memory",
    ]


def test_inside_a_container_the_mount_itself_is_the_group(tmp_path: Path):
    # Version 1 without a group namespace: the path is the host's, and so is the mount's root.
    mountinfo = "9 8 0:33 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    group = find_group("memory", parse_mounts(mountinfo), {"memory": "/docker/abc"}, tmp_path)
    assert group.directories == (tmp_path / "sys/fs/cgroup/memory",)


@pytest.mark.parametrize("path", ["/../other", "/gone/away", "/"])
def test_a_path_that_is_not_seen_from_here_is_the_outermost_group(tmp_path: Path, path: str):
    (tmp_path / "sys/fs/cgroup/slice/job").mkdir(parents=True)
    group = find_group("cpu", parse_mounts(V2_MOUNT), {UNIFIED: path}, tmp_path)
    assert group.directories == (tmp_path / "sys/fs/cgroup",)


def test_no_hierarchy_is_said_so():
    with pytest.raises(ValueError, match="no control group is mounted"):
        find_group("cpu", (), {})


def test_another_process_has_its_own_group(tmp_path: Path):
    (tmp_path / "sys/fs/cgroup/job").mkdir(parents=True)
    for name, text in (("mountinfo", V2_MOUNT), ("cgroup", "0::/\n")):
        path = tmp_path / "proc/self" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "proc/4711").mkdir()
    (tmp_path / "proc/4711/cgroup").write_text("0::/job\n")
    groups = [own_group("memory", tmp_path, process) for process in ("self", "4711")]
    assert [str(g.directories[0].relative_to(tmp_path)) for g in groups] == [
        "sys/fs/cgroup",
        "sys/fs/cgroup/job",
    ]
    with pytest.raises(FileNotFoundError):
        own_group("memory", tmp_path, "4712")
