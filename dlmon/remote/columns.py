"""A sample's tables by column: compressed as ssh does, that is a tenth shorter than by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]
_TABLES = ("gpus", "processes")


def in_columns(fields: Fields) -> Fields:
    """Return a sample's fields with each table as the values of each column.

    A row that lacks a field, or has no value for it, has null there.
    """
    tables = {name: _columns(fields[name]) for name in _TABLES if fields.get(name) is not None}
    return {**fields, **tables}


def in_rows(fields: object) -> Fields:
    """Return what `in_columns` made as it was, without fields that have no value.

    Raises:
        ValueError: it was made by something else.
    """
    if not isinstance(fields, dict):
        raise ValueError("a sample is no object")
    tables = {name: _rows(fields[name]) for name in _TABLES if fields.get(name) is not None}
    return {**fields, **tables}


def _columns(rows: list[Fields]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _rows(columns: object) -> list[dict[str, Any]]:
    if not isinstance(columns, dict) or not all(
        isinstance(each, list) for each in columns.values()
    ):
        raise ValueError("a table has no columns")
    rows = zip(*columns.values(), strict=True)
    return [
        {name: value for name, value in zip(columns, row, strict=True) if value is not None}
        for row in rows
    ]
