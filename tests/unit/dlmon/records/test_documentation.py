"""The page of the records says what the dataclasses say."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[4] / "docs" / "record_tables.py"


@pytest.fixture(scope="module")
def record_tables():
    spec = importlib.util.spec_from_file_location("record_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_records_is_up_to_date(record_tables):
    text = record_tables.PAGE.read_text()
    assert record_tables.page(text) == text, "run python docs/record_tables.py"


def test_a_page_that_is_stale_is_made_anew(record_tables):
    text = record_tables.PAGE.read_text()
    stale = text.replace("| `pid` | integer |", "| `pid` | string |")
    assert stale != text
    assert record_tables.page(stale) == text


def test_what_stands_around_the_tables_stays(record_tables):
    made = record_tables.page(f"above\n{record_tables.BEGIN}\nold\n{record_tables.END}\nbelow\n")
    assert made.startswith("above\n")
    assert made.endswith("\nbelow\n")
    assert "\nold\n" not in made


def test_a_field_that_nothing_is_said_of_is_refused(record_tables):
    @dataclass(frozen=True)
    class Reading:
        """One reading.

        Attributes:
            described: so much of it.
        """

        described: int
        forgotten: int

    with pytest.raises(record_tables.NoMeaning, match=r"Reading\.forgotten"):
        record_tables.describe(Reading)
