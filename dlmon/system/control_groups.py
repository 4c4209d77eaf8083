"""The control group of a process: the directories that hold its limits and counts.

Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cgroups.rst.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

UNIFIED = ""


@dataclass(frozen=True)
class Mount:
    """A mounted hierarchy with its controllers (`UNIFIED` alone for version 2).

    `root` is the group that is mounted at `point`: "/", except in a container.
    """

    controllers: frozenset[str]
    root: str
    point: str


@dataclass(frozen=True)
class Group:
    """The directories of one controller's group and of its ancestors, innermost first."""

    version: int
    directories: tuple[Path, ...]


def parse_mounts(mountinfo: str) -> tuple[Mount, ...]:
    """Return the control group hierarchies in /proc/self/mountinfo (proc(5))."""
    mounts = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        columns, file_system = before.split(), after.split()
        if len(columns) < 5 or len(file_system) < 3:
            continue
        root, point = map(_unescaped, columns[3:5])
        if file_system[0] == "cgroup2":
            mounts.append(Mount(frozenset({UNIFIED}), root, point))
        elif file_system[0] == "cgroup":
            mounts.append(Mount(frozenset(file_system[2].split(",")), root, point))
    return tuple(mounts)


def parse_membership(cgroup: str) -> dict[str, str]:
    """Return the process's group by controller (`UNIFIED` for version 2)."""
    paths = {}
    for line in cgroup.splitlines():
        columns = line.split(":", 2)
        if len(columns) == 3:
            paths.update(dict.fromkeys(columns[1].split(","), columns[2]))
    return paths


def own_group(controller: str, root: Path, process: str = "self") -> Group:
    """Return the group of this process, or of a pid, that has `controller`'s limits.

    Raises:
        OSError: the mounts can't be read.
        ValueError: no hierarchy has this controller.
    """
    mounts = parse_mounts((root / "proc/self/mountinfo").read_text("utf-8", "replace"))
    paths = parse_membership((root / f"proc/{process}/cgroup").read_text("utf-8", "replace"))
    return find_group(controller, mounts, paths, root)


def find_group(
    controller: str, mounts: tuple[Mount, ...], paths: dict[str, str], root: Path = Path("/")
) -> Group:
    """Return the group that has `controller`'s limits: in version 1 if both are mounted.

    Raises:
        ValueError: no hierarchy has this controller.
    """
    for version, name in ((1, controller), (2, UNIFIED)):
        for mount in mounts:
            if name in mount.controllers and name in paths:
                return Group(version, _directories(mount, paths[name], root))
    raise ValueError("no control group is mounted")


def _directories(mount: Mount, path: str, root: Path) -> tuple[Path, ...]:
    """Return the group's directory below the mount and those above it, innermost first."""
    top = root / mount.point.lstrip("/")
    prefix = mount.root.rstrip("/")
    # A path outside the mounted root belongs to a parent namespace.
    inside = path == mount.root or path.startswith(prefix + "/")
    below = [part for part in path[len(prefix) :].split("/") if part] if inside else []
    directories = [top]
    for part in below:
        if part == ".." or not (directories[-1] / part).is_dir():
            return (top,)
        directories.append(directories[-1] / part)
    return tuple(reversed(directories))


def _unescaped(path: str) -> str:
    """Undo the octal escapes for blanks and backslashes in mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
