"""The pages in docs say what the code says."""

import importlib.util
import re
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlmon import exit_codes
from dlmon.options.run_options import OPTIONS, SETTINGS
from dlmon.options.settings import Settings, read_settings

DOCS = Path(__file__).parents[2] / "docs"


def script_of(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def options():
    return script_of("option_tables")


@pytest.fixture(scope="module")
def records():
    return script_of("record_tables")


def test_the_pages_of_options_have_a_row_of_each_and_are_up_to_date(options):
    for path, table in options.TABLES.items():
        text = path.read_text()
        assert options.page(text, table()) == text, "run python docs/option_tables.py"
    assert all(f"| `{option.flag}" in options.commands_table() for option in OPTIONS.values())
    assert all(f"| `{name}` |" in options.settings_table() for name in SETTINGS)


def test_the_page_of_the_records_is_up_to_date(records):
    text = records.PAGE.read_text()
    assert records.page(text) == text, "run python docs/record_tables.py"


def test_a_field_that_nothing_is_said_of_is_refused(records):
    @dataclass(frozen=True)
    class Reading:
        """One reading.

        Attributes:
            described: so much of it.
        """

        described: int
        forgotten: int

    with pytest.raises(records.NoMeaning, match=r"Reading\.forgotten"):
        records.describe(Reading)


def test_the_example_of_the_settings_can_be_followed(options, tmp_path):
    _, _, rest = options.SETTINGS_PAGE.read_text().partition("```toml\n")
    config = tmp_path / "config.toml"
    config.write_text(rest.partition("```")[0])
    assert read_settings(config) != Settings()


def test_each_exit_code_is_listed_and_those_of_signals_are_the_shells():
    _, _, section = (DOCS / "commands.md").read_text().partition("## Exit codes")
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert listed == [code for name, code in vars(exit_codes).items() if name.isupper()]
    assert exit_codes.INTERRUPTED_BY_USER == 128 + signal.SIGINT
    assert exit_codes.READER_LEFT == 128 + signal.SIGPIPE
