"""The control group of a process: in which directories its limits and counts are.

Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cgroups.rst.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

UNIFIED = ""


@dataclass(frozen=True)
class Mount:
    """A mounted hierarchy: its controllers (`UNIFIED` alone for version 2) and what is seen of it.

    `root` is the group that stands at `point`: inside a container not "/".
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
        places, kind = before.split(), after.split()
        if len(places) < 5 or len(kind) < 3:
            continue
        root, point = (_unescaped(place) for place in places[3:5])
        if kind[0] == "cgroup2":
            mounts.append(Mount(frozenset({UNIFIED}), root, point))
        elif kind[0] == "cgroup":
            mounts.append(Mount(frozenset(kind[2].split(",")), root, point))
    return tuple(mounts)


def parse_membership(cgroup: str) -> dict[str, str]:
    """Return the group that each controller (`UNIFIED` for version 2) has this process in."""
    paths = {}
    for line in cgroup.splitlines():
        columns = line.split(":", 2)
        if len(columns) == 3:
            paths.update(dict.fromkeys(columns[1].split(","), columns[2]))
    return paths


def own_group(controller: str, root: Path, process: str = "self") -> Group:
    """Return the group of this process where `controller`'s limits are, or of another by its pid.

    Raises:
        OSError: what is mounted can't be read.
        ValueError: no hierarchy has this controller.
    """
    mounts = parse_mounts(_text_of(root / "proc/self/mountinfo"))
    paths = parse_membership(_text_of(root / f"proc/{process}/cgroup"))
    return find_group(controller, mounts, paths, root)


def find_group(
    controller: str, mounts: tuple[Mount, ...], paths: dict[str, str], root: Path = Path("/")
) -> Group:
    """Return where `controller`'s limits are; version 1 has it if both are mounted.

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
    # A path outside of what is mounted here belongs to a parent namespace.
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


def _text_of(path: Path) -> str:
    return path.read_text("utf-8", "replace")
