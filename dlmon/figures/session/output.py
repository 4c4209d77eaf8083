"""The start-up messages of libraries, merged into one line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

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

# These sound like trouble, but every healthy start prints them.
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
    """Return whether every start of TensorFlow, CUDA or XLA prints a line."""
    text = line.text.strip()
    if _WITHOUT_LEVEL.fullmatch(text):
        return True
    message = _LEVEL.fullmatch(text)
    if message is None:
        return False
    if _HARMLESS.fullmatch(message["text"].strip()):
        return True
    return (message["old"] or message["new"]) == "I" and not _TROUBLE.search(message["text"])


def merge_startup_messages(output: Iterable[Output], until_ns: int | None) -> tuple[Output, ...]:
    """Return the output with one line in place of all start-up messages, where the first was."""
    lines: list[Output] = []
    first: int | None = None
    count = 0
    for line in output:
        is_early = until_ns is None or line.t <= until_ns
        if is_early and is_startup_message(line):
            count += 1
            if first is None:
                first = len(lines)
                lines.append(line)
        else:
            lines.append(line)
    if first is not None and count > 1:
        text = f"{count} start-up messages (in the log: l)"
        lines[first] = replace(lines[first], stream="stderr", text=text)
    return tuple(lines)
