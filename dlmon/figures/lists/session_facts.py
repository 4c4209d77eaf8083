"""Write what is known of a recorded session beside its result: its machine, software and time."""

from __future__ import annotations

from dlmon.figures.machine.readings import identity
from dlmon.figures.session.time_breakdown import PartRow, breakdown_rows, part_name
from dlmon.records import Result, SessionHeader, TimePart


def machine_text(header: SessionHeader) -> str:
    """Return the host of a session, and its processor, memory and GPUs."""
    return "  ".join((header.host, *identity(header.machine)))


def software_text(header: SessionHeader) -> str:
    """Return the names and versions of a session's software, as far as they are known."""
    versions = dict(header.versions)
    backend, version = versions.pop("backend", None), versions.pop("backend_version", None)
    known = [f"{name} {text}" for name, text in versions.items() if text is not None]
    return "  ".join([*known, *([f"{backend} {version or ''}".rstrip()] if backend else [])])


def time_rows(result: Result, header: SessionHeader) -> tuple[PartRow, ...]:
    """Return the parts of a session's time; none if they are not recorded."""
    known = {part.value: part for part in TimePart}
    seconds = {known[name]: s for name, s in (result.account or {}).items() if name in known}
    return breakdown_rows(seconds, {part: part_name(part, header.is_script) for part in TimePart})
