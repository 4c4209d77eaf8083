"""What TensorFlow, CUDA and XLA print when they start, told apart from all else. Pure.

Only what is known to mean nothing to a person counts, and nothing that speaks of trouble: a line
that is folded by mistake hides an error, one that is not folded takes a row.
"""

from __future__ import annotations

import re

from dlmon.records import Output

# 2026-11-20 14:56:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] …
# I0000 00:00:1763650560.123456    1234 gpu_device.cc:2022] …
_LEVEL = re.compile(
    r"(?:\d{4}-\d\d-\d\d [\d:.]+: (?P<old>[IWEF]) |(?P<new>[IWEF])\d{4} [\d:.]+ +\d+ )"
    r"(?P<file>\S+\.(?:cc|h|cu)):\d+\] (?P<text>.*)"
)
_TROUBLE = re.compile(
    r"\b(?:error|errors|fail\w*|could not|couldn't|can ?not|can't|unable|not be used|invalid|"
    r"denied|out of memory|oom|exception|traceback|abort\w*|fatal|missing|no such|warning)\b|"
    r"CUDA_ERROR|_ERROR\b",
    re.IGNORECASE,
)
# What sounds like trouble, and is printed by every healthy start.
_HARMLESS = re.compile(
    r"Unable to register (?P<plugin>cuDNN|cuFFT|cuBLAS) factory: Attempting to register factory "
    r"for plugin (?P=plugin) when one has already been registered"
    r"|computation placer already registered\. Please check linkage and avoid linking the same "
    r"target more than once\."
    r"|oneDNN custom operations are on\. You may see slightly different numerical results due to "
    r"floating-point round-off errors from different computation orders\..*"
    r"|TF-TRT Warning: Could not find TensorRT"
)
_WITHOUT_LEVEL = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    r"|To enable the following instructions: .*rebuild TensorFlow with the appropriate compiler "
    r"flags\."
)


def is_startup_message(line: Output) -> bool:
    """Return whether a line is one that every start of TensorFlow, CUDA or XLA prints."""
    text = line.text.strip()
    if _WITHOUT_LEVEL.fullmatch(text):
        return True
    found = _LEVEL.fullmatch(text)
    if found is None:
        return False
    if _HARMLESS.fullmatch(found["text"].strip()):
        return True
    return (found["old"] or found["new"]) == "I" and not _TROUBLE.search(found["text"])


def startup_text(count: int) -> str:
    """Name the messages that are folded, and where they are."""
    return f"{count} start-up message{'' if count == 1 else 's'} (in the log: l)"
