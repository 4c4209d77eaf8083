"""Doubts about the figures of a session, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dlmon.records import Doubt, Result

DOUBT_NAMES = {
    Doubt.TOO_SHORT: "too short",
    Doubt.NOT_STEADY: "not steady",
    Doubt.STALLS: "stalls",
    Doubt.THROTTLED: "throttled",
    Doubt.GPU_SHARED: "GPU shared",
    Doubt.CPU_SHARED: "CPU shared",
    Doubt.BUSY_AT_START: "busy at the start",
    Doubt.ON_BATTERY: "on battery",
    Doubt.STEAL: "CPU steal",
    Doubt.INFERRED_SAMPLES: "samples inferred",
    Doubt.NAN_LOSS: "loss NaN or infinite",
    Doubt.UNKNOWN: "a doubt that a newer dlmon has",
}


# The numbers in these two sentences differ from run to run; those of other doubts don't.
_VARYING: dict[str, str] = {
    Doubt.CPU_SHARED: "other programs took part of the CPUs",
    Doubt.BUSY_AT_START: "machine was busy at the start",
}


def doubts_of_all(against: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the doubts that all of several runs have, each with a sentence."""
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


def in_doubt(codes: Iterable[str]) -> str:
    """Name doubts in a few words: in doubt: too short, stalls; empty without any."""
    names = dict.fromkeys(DOUBT_NAMES[Doubt(code)] for code in codes)
    return f"in doubt: {', '.join(names)}" if names else ""


def doubts_of_results(results: Iterable[Result]) -> str:
    """Name the doubts that any of several results has."""
    codes = [code for result in results for code in result.against or ()]
    return in_doubt(doubt for doubt in Doubt if doubt in {Doubt(code) for code in codes})
