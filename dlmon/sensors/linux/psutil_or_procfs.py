"""psutil where it can be imported, else what we have in its place.

A machine that only dlmon's source was sent to may lack psutil, or have one whose
compiled part doesn't load: built for another architecture, or in a folder mounted noexec.
"""

from __future__ import annotations

try:
    import psutil as system
except (ImportError, OSError):
    from dlmon.sensors.linux import procfs as system  # type: ignore[no-redef]

__all__ = ["system"]
