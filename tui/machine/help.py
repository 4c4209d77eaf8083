"""The help pages of the machine's panels."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
MACHINE, PROCESSES = _HERE / "machine.md", _HERE / "processes.md"
PANEL: tuple[Path, ...] = (MACHINE, _HERE / "panel.md", PROCESSES)

GPU_TOPICS = frozenset(
    {
        *("GPU", "mem", "throttled", "fan", "PCIe", "MIG", "NVLink", "encoder, decoder", "ECC"),
        *("energy", "lost, asleep"),
    }
)
"""The topics to leave out on a machine without a GPU."""
