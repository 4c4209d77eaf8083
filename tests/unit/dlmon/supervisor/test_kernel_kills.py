"""Whether the kernel has just killed for want of memory, read from trees of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.control_groups import V2_MOUNT

from dlmon.supervisor.kernel_kills import KernelKills

PID = 4711
V1_MOUNT = "36 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
MACHINES = {
    "version 1": (V1_MOUNT, "4:memory:{}\n0::/\n", "sys/fs/cgroup/memory{}/memory.oom_control"),
    "version 2": (V2_MOUNT, "0::{}\n", "sys/fs/cgroup{}/memory.events"),
}


class Machine:
    """A machine's files, whose counts and groups change."""

    def __init__(self, root: Path, mount: str, membership: str, counter: str) -> None:
        self.root, self._membership, self._counter = root, membership, counter
        self.write("proc/self/mountinfo", mount)
        self.count_of_machine(0)
        self.move("/job")
        self.count(0)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def move(self, group: str) -> None:
        self.write(f"proc/{PID}/cgroup", self._membership.format(group))

    def count(self, kills: int, group: str = "/job") -> None:
        self.write(self._counter.format(group), f"under_oom 0\noom_kill {kills}\n")

    def count_of_machine(self, kills: int) -> None:
        self.write("proc/vmstat", f"nr_free_pages 12\noom_kill {kills}\n")


@pytest.fixture(params=MACHINES)
def machine(request, tmp_path):
    return Machine(tmp_path, *MACHINES[request.param])


def kills_of(machine: Machine, readings: int = 2) -> KernelKills:
    kills = KernelKills(machine.root)
    for _ in range(readings):
        kills.read(PID)
    return kills


def kill_elsewhere(machine):
    machine.count(1, "/other")
    machine.count_of_machine(1)


@pytest.mark.parametrize(
    ("kill", "readings_after", "has_killed"),
    [
        (lambda machine: machine.count(1), 0, True),
        (lambda machine: machine.count(1), 1, True),
        (lambda machine: machine.count(1), 2, False),
        (kill_elsewhere, 0, False),
    ],
    ids=["just now", "seen once", "long ago", "in another group"],
)
def test_a_kill_in_the_process_s_own_group_is_seen_for_a_while(
    machine, kill, readings_after, has_killed
):
    kills = kills_of(machine)
    assert not kills.has_just_killed()
    kill(machine)
    for _ in range(readings_after):
        kills.read(PID)
    assert kills.has_just_killed() is has_killed


def test_a_process_that_moved_is_read_where_it_is_now(machine):
    machine.count(7, "/elsewhere")
    kills = kills_of(machine)
    machine.move("/elsewhere")
    kills.read(PID)
    assert not kills.has_just_killed()
    machine.count(8, "/elsewhere")
    assert kills.has_just_killed()


def test_a_process_that_is_ending_is_read_where_it_was(tmp_path):
    # In version 1 it is shown in the outermost group from then on.
    machine = Machine(tmp_path, *MACHINES["version 1"])
    machine.count(0, "")
    kills = kills_of(machine)
    machine.move("/")
    kills.read(PID)
    machine.count(1)
    assert kills.has_just_killed()


@pytest.mark.parametrize("mount", ["", V2_MOUNT])
def test_without_a_group_that_counts_the_machine_s_count_holds(tmp_path, mount):
    machine = Machine(tmp_path, mount, "0::{}\n", "nowhere{}")
    kills = kills_of(machine)
    assert not kills.has_just_killed()
    machine.count_of_machine(1)
    assert kills.has_just_killed()
