"""What `?` says of the machine's panels."""

from __future__ import annotations

from tui.machine.process_list import PROCESS_HELP

MACHINE_HELP: tuple[tuple[str, str], ...] = (
    (
        "CPU",
        "How busy all cores together are, also as a number of fully busy cores. During a run, its "
        "own share (with all processes it started) is filled, everything else striped.",
    ),
    (
        "GPU",
        "The share of time in which the GPU computed at all, its temperature, power and the "
        "limit of it, clock, and memory in use; a row each where there are many, in which ! marks "
        "a problem. g shows all figures of each.",
    ),
    (
        "held by",
        "What keeps a GPU's clock down: its power cap is usual, thermal slowdown means that "
        "it is too hot.",
    ),
    ("fan", "How fast a GPU's fan turns, of its fastest."),
    (
        "PCIe",
        "A GPU's link to the computer is slower than it could be: generation × lanes now, of the "
        "most that card and slot can do.",
    ),
    ("MIG", "The GPU is divided into instances, and then reports no utilisation."),
    ("NVLink", "What a GPU moves to and from other GPUs."),
    ("encoder, decoder", "How busy the GPU's video units are, where they are at all."),
    (
        "ECC",
        "Errors of a GPU's memory since its driver was loaded; uncorrected ones mean that the card "
        "may be failing.",
    ),
    ("energy", "What a GPU has used since the session, or this screen, was started."),
    ("run", "The cores and the memory that the training and all processes it started use."),
    (
        "limited, allowed",
        "What a container may use of the CPU, how much of that it uses, and how often it wanted "
        "more.",
    ),
    (
        "faults",
        "Pages of memory that had to be read from a disk: many of them mean too little memory.",
    ),
    ("load", "How many processes ran or waited for a core or a disk, over the last minute."),
    ("package", "The power of the processor package, without the rest of the machine."),
    ("lost, asleep", "A GPU that doesn't respond, or is suspended, shows why."),
    ("Memory", "Memory in use that can't be reclaimed, of the total."),
    ("stale", "The last readings are older than they should be: the sensors don't answer."),
)

OF_GPUS = frozenset(
    {
        *("GPU", "mem", "held by", "fan", "PCIe", "MIG", "NVLink", "encoder, decoder", "ECC"),
        *("energy", "lost, asleep"),
    }
)
"""What of it a machine without a GPU shows nothing of."""

PANEL_HELP: tuple[tuple[str, str], ...] = (
    *MACHINE_HELP,
    ("Cores", "How busy each core is: a bar each, or a column each where there are many."),
    (
        "-1m, now",
        "Under the lowest charts, how long ago that was; all charts show the same time, in the "
        "same columns.",
    ),
    ("Disk, network", "What all disks and network interfaces move, in MiB (1,048,576 bytes)."),
    *PROCESS_HELP,
)
