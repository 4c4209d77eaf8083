"""The pages say of the options what their table says."""

import importlib.util
from pathlib import Path

import pytest

from dlmon.options.run import OPTIONS, SETTINGS
from dlmon.options.settings import Settings, read_settings

SCRIPT = Path(__file__).parents[4] / "docs" / "option_tables.py"


@pytest.fixture(scope="module")
def option_tables():
    spec = importlib.util.spec_from_file_location("option_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(option_tables):
    for path, table in option_tables.TABLES.items():
        text = path.read_text()
        assert option_tables.page(text, table()) == text, "run python docs/option_tables.py"


def test_each_option_has_a_row(option_tables):
    assert all(f"| `{option.flag}" in option_tables.commands_table() for option in OPTIONS.values())
    assert all(f"| `{name}` |" in option_tables.settings_table() for name in SETTINGS)


def test_what_stands_around_a_table_stays(option_tables):
    text = f"above\n{option_tables.BEGIN}\nold\n{option_tables.END}\nbelow\n"
    made = option_tables.page(text, "new")
    assert made.startswith("above\n")
    assert made.endswith("\nbelow\n")
    assert "\nold\n" not in made


def test_the_example_of_the_settings_can_be_followed(option_tables, tmp_path):
    _, _, rest = option_tables.SETTINGS_PAGE.read_text().partition("```toml\n")
    config = tmp_path / "config.toml"
    config.write_text(rest.partition("```")[0])
    assert read_settings(config) != Settings()
