"""What dlmon set inside a script, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlmon.records import Injection, SessionHeader

# The first screen lists sessions without their snapshots.
if TYPE_CHECKING:
    from dlmon.session.snapshot import Snapshot

SET_BY_DLMON = "set by dlmon"


def injected_texts(header: SessionHeader) -> list[str]:
    """Return the injections of a session as they are typed: set:num_workers=4."""
    return [f"set:{name}={value}" for name, value in header.injected.items()]


def injections_text(snapshot: Snapshot) -> str:
    """Return the injections of a session, and which are not applied; empty without any."""
    outcomes = {injection.name: injection for injection in snapshot.injections}
    texts = []
    for name, value in snapshot.header.injected.items():
        outcome = outcomes.get(name)
        if outcome is not None:
            note = outcome_text(outcome)
        else:
            note = "" if snapshot.result is None else "not known to be applied"
        texts.append(f"{name} {value} ({note})" if note else f"{name} {value}")
    return ", ".join(texts)


def outcome_text(injection: Injection) -> str:
    """Say why an injection is not applied, or not everywhere; empty if it is."""
    if not injection.applied:
        return f"not applied: {injection.reason or 'the reason is not known'}"
    if injection.reason is None:
        return ""
    return f"not everywhere: {injection.reason}" if injection.times else injection.reason
