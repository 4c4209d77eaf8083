"""Read the fields of a record, any of which may fail without the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dlmon.sensors import kernel_files


def ask(questions: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask for each field of a record; return the values, and the reasons of those that failed."""
    values: dict[str, Any] = {}
    why: dict[str, str] = {}
    for name, question in questions.items():
        try:
            values[name] = question()
        except (OSError, ValueError, LookupError) as error:
            why[name] = kernel_files.reason(error)
    return values, why
