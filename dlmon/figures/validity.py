"""What speaks against comparing by the figures of a session, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dlmon.records import Doubt, Result

if TYPE_CHECKING:
    from dlmon.session.snapshot import Validity

DOUBT_NAMES = {
    Doubt.TOO_SHORT: "too short",
    Doubt.NOT_STEADY: "not steady",
    Doubt.STALLS: "stalls",
    Doubt.THROTTLED: "throttled",
    Doubt.GPU_SHARED: "GPU shared",
    Doubt.CPU_SHARED: "CPU shared",
    Doubt.BUSY_AT_START: "busy at the start",
    Doubt.ON_BATTERY: "on battery",
    Doubt.STEAL: "CPUs taken by the host",
    Doubt.INFERRED_SAMPLES: "samples inferred",
    Doubt.UNKNOWN: "a doubt that a newer dlmon has",
}

# By how much a machine was busy differs from run to run; elsewhere the sentences are the same.
_VARYING: dict[str, str] = {
    Doubt.CPU_SHARED: "other programs took part of the CPUs",
    Doubt.BUSY_AT_START: "machine was busy at the start",
}


def doubts_of_all(against: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return what speaks against every one of several runs, a sentence by the doubt."""
    if len(against) < 2:
        return {}
    shared = {}
    for doubt, text in against[0].items():
        texts = {of_run.get(doubt) for of_run in against}
        if texts == {text}:
            shared[doubt] = text
        elif doubt in _VARYING and None not in texts:
            shared[doubt] = _VARYING[doubt]
    return shared


def said_of_all(shared: Mapping[str, str]) -> str:
    """Say once what else would stand at each of some runs; empty for nothing."""
    return f"each run shown: {'; '.join(shared.values())}" if shared else ""


def validity_text(validity: Validity | None) -> str:
    """Say whether a figure is valid, and what speaks against it; empty before there is one."""
    if validity is None:
        return ""
    return "; ".join(validity.against.values()) or "nothing casts doubt on the figures"


def in_doubt(codes: Iterable[str]) -> str:
    """Name doubts in a few words: in doubt: too short, stalls; empty where there are none."""
    names = dict.fromkeys(DOUBT_NAMES[Doubt(code)] for code in codes)
    return f"in doubt: {', '.join(names)}" if names else ""


def doubts_of_results(results: Iterable[Result]) -> str:
    """Name what speaks against the figures of any of several results."""
    codes = [code for result in results for code in result.against or ()]
    return in_doubt(doubt for doubt in Doubt if doubt in {Doubt(code) for code in codes})
