"""The meanings of Xid codes, by which NVIDIA's driver reports errors of a GPU.

From NVIDIA's catalogue (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html).
"""

from __future__ import annotations

XID_MEANINGS = {
    8: "it stopped processing a program's work",
    13: "exception in a kernel, such as an index out of range",
    31: "a program used memory that is not its own (page fault)",
    32: "corrupted commands, mostly by its PCIe link",
    38: "error in the driver's firmware",
    43: "a program's work was stopped, after an error of its own",
    45: "a program's work was cleared away, after another error or a kill",
    48: "memory error that could not be corrected (ECC)",
    61: "warning of its micro-controller",
    62: "its micro-controller halted",
    63: "faulty memory was set aside",
    64: "faulty memory could not be set aside",
    74: "NVLink error",
    79: "it has fallen off the bus",
    92: "many memory errors that were corrected",
    94: "memory error, contained: one program is hit",
    95: "memory error, not contained: it needs a reset",
    109: "timeout as it switched between programs",
    119: "its system processor (GSP) does not answer",
    120: "error of its system processor (GSP)",
    121: "errors of its link to the CPU (C2C) that were corrected",
    140: "memory error that it could not recover from (ECC)",
    143: "it could not be initialised",
    154: "it needs a step to recover, such as a reset",
}


def xid_text(code: int) -> str:
    """Return "Xid 79: it has fallen off the bus"; for an unknown code, "Xid 79" alone."""
    meaning = XID_MEANINGS.get(code)
    return f"Xid {code}" if meaning is None else f"Xid {code}: {meaning}"
