"""Which directories a process's control group is, of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.control_groups import HYBRID_MEMBERSHIP, HYBRID_MOUNTS, V2_MOUNT

from dlmon.system.control_groups import (
    UNIFIED,
    find_group,
    own_group,
    parse_membership,
    parse_mounts,
)


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


def test_escapes_in_a_mount_point_are_undone_and_lines_that_are_none_passed_over():
    (mount,) = parse_mounts("nonsense\n\n1 2 0:1 /a\\040b /x\\134y rw - cgroup2 none rw\n1 2 3\n")
    assert (mount.root, mount.point) == ("/a b", "/x\\y")
    with pytest.raises(ValueError, match="no control group is mounted"):
        find_group("cpu", (), {})


def test_membership_names_each_controller():
    paths = parse_membership(HYBRID_MEMBERSHIP)
    assert (paths["cpuacct"], paths["memory"], paths[UNIFIED]) == ("/jobs", "/jobs/a", "/")
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
