"""What only Linux has is used where a Mac doesn't come: a new use has to be guarded, and listed."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAC = ROOT / "tests/fakes/mac/sitecustomize.py"
# Each stands behind `IS_MACOS`, a `hasattr`, or an option that needs Linux.
GUARDED = {
    "CLOCK_BOOTTIME": {"sensors/processes/tree.py", "system/foreign_processes.py"},
    "SO_PEERCRED": {"protocol/control.py"},
    "memfd_create": {"launch/supervisor_process.py"},
    "pidfd_open": {"supervisor/child.py", "system/foreign_processes.py"},
    "pidfd_send_signal": {"system/foreign_processes.py"},
    "sched_getaffinity": {
        *("options/checks.py", "sensors/linux/cpu.py", "supervisor/supervisor.py", "backends.py"),
    },
    "sched_setaffinity": {"backends.py"},
}


def only_linux_has():
    """Return the names that the tests of a Mac remove."""
    tree = ast.parse(MAC.read_text())
    [removed] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "ONLY_LINUX"
    ]
    return {name for names in removed.values for name in ast.literal_eval(names).split()}


def test_what_only_linux_has_is_used_where_a_mac_does_not_come():
    names, used = only_linux_has(), {}
    for folder in ("dlmon", "tui", "workloads"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and node.attr in names:
                    file = path.relative_to(ROOT / folder).as_posix()
                    used.setdefault(node.attr, set()).add(file)
    assert used == GUARDED
