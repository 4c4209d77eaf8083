"""Write a table as Parquet with DuckDB, an extra of dlmon."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from dlmon.figures.report.summary import Cell
from dlmon.render.files import ReportError
from dlmon.render.tidy import Row, json_of

# A column without any value is one of numbers, but for these.
_TEXTS = {
    "backend", "data", "device", "device_name", "metric", "mode", "name", "operation", "phase",
    "precision", "profiler", "quantity", "reason", "session", "status", "workload",
}  # fmt: skip
_LARGEST = 2**63


def parquet_of(rows: Iterable[Row]) -> bytes:
    """Return the rows of a table as a Parquet file; unknown is null.

    Raises:
        ReportError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise ReportError(
            "a Parquet file is written by DuckDB: pip install 'dlmon[parquet]'"
        ) from None
    types: dict[str, str | None] = {}
    with tempfile.TemporaryDirectory(prefix="dlmon-") as folder:
        lines, table = Path(folder) / "rows.jsonl", Path(folder) / "table.parquet"
        with lines.open("w", encoding="utf-8") as out:
            for row in rows:
                for name, cell in row.items():
                    types[name] = _wider(types.get(name), cell)
                out.write(json_of(row) + "\n")
        columns = {
            name: kind or ("VARCHAR" if name in _TEXTS else "DOUBLE")
            for name, kind in types.items()
        }
        with duckdb.connect() as connection:
            values = connection.read_json(str(lines), columns=columns, format="newline_delimited")
            values.write_parquet(str(table))
        return table.read_bytes()


def _wider(kind: str | None, cell: Cell) -> str | None:
    """Return the type of a column of this type that also holds this cell; None if unknown yet."""
    if cell is None:
        return kind
    own = "VARCHAR"
    if isinstance(cell, bool):
        own = "BOOLEAN"
    elif isinstance(cell, (int, float)):
        own = "BIGINT" if isinstance(cell, int) and abs(cell) < _LARGEST else "DOUBLE"
    if kind in (None, own):
        return own
    return "DOUBLE" if {kind, own} == {"BIGINT", "DOUBLE"} else "VARCHAR"
