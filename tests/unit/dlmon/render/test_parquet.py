"""Tables as Parquet: the types of columns, whatever stands in them."""

import builtins
import math

import duckdb
import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.render.files import ReportError
from dlmon.render.parquet import parquet_of
from dlmon.render.tidy import TABLES, rows_of


def read(tmp_path, rows):
    """Return the types of the columns of a table, and its rows."""
    path = tmp_path / "table.parquet"
    path.write_bytes(parquet_of(iter(rows)))
    table = duckdb.read_parquet(str(path))
    return dict(zip(table.columns, map(str, table.types), strict=True)), table.fetchall()


def test_a_column_has_the_type_of_its_values_and_unknown_ones_are_null(tmp_path):
    columns = {
        "samples": (None, 3, 4),
        "seconds": (1, 2.5, math.nan),
        "whole": (True, None, False),
        "status": ("failed", None, "=1+1"),
        "wait_ms": (None, None, None),
        "name": (None, None, None),
        "batch_size": (32, "auto", None),
        "count": (2**63, 1, None),
    }
    rows = [{name: cells[number] for name, cells in columns.items()} for number in range(3)]
    types, values = read(tmp_path, rows)
    assert types == {
        "samples": "BIGINT",
        "seconds": "DOUBLE",
        "whole": "BOOLEAN",
        "status": "VARCHAR",
        "wait_ms": "DOUBLE",
        "name": "VARCHAR",
        "batch_size": "VARCHAR",
        "count": "DOUBLE",
    }
    assert values[1] == (3, 2.5, None, None, None, None, "auto", 1.0)
    assert values[2] == (4, None, False, "=1+1", None, None, None, None)


@pytest.mark.parametrize("name", ['a"b', "x'; DROP TABLE y; --", "метрика", "a.b"])
def test_a_column_may_have_any_name(tmp_path, name):
    assert read(tmp_path, [{name: "2026-01-01"}]) == ({name: "VARCHAR"}, [("2026-01-01",)])


@pytest.mark.parametrize("table", [None, *TABLES])
def test_each_table_has_the_rows_of_the_others(tmp_path, table):
    log = write_log(tmp_path, recorded_session(gpus=1))
    try:
        expected = list(rows_of([log], table))
    except ReportError:
        assert table == "operations"
        return
    types, rows = read(tmp_path, expected)
    assert list(types) == list(expected[0])
    assert len(rows) == len(expected)
    assert rows[-1] == pytest.approx(tuple(expected[-1].values()))


def test_without_duckdb_it_is_said_what_to_install(monkeypatch):
    importing = builtins.__import__

    def without_duckdb(name, *rest):
        if name == "duckdb":
            raise ImportError
        return importing(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_duckdb)
    with pytest.raises(ReportError, match=r"pip install 'dlmon\[parquet\]'"):
        parquet_of([])
