"""The pages in docs say what the code says."""

import importlib.util
import re
import shlex
import signal
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from dlmon import exit_codes
from dlmon.cli.command_line import command_line
from dlmon.options.run_options import OPTIONS, SETTINGS
from dlmon.options.settings import Settings, read_settings

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


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


def test_the_table_of_options_has_a_row_of_each_and_is_up_to_date(options):
    text = options.PAGE.read_text()
    assert options.page(text) == text, "run python docs/option_tables.py"
    assert all(f"| `{option.flag}" in options.table() for option in OPTIONS.values())
    assert all(f"| `{name}` |" in options.table() for name in SETTINGS)


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


def test_the_example_of_the_settings_can_be_followed(tmp_path):
    _, _, rest = (DOCS / "settings.md").read_text().partition("```toml\n")
    config = tmp_path / "config.toml"
    config.write_text(rest.partition("```")[0])
    assert read_settings(config) != Settings()


def test_each_exit_code_is_listed_and_those_of_signals_are_the_shells():
    _, _, section = (DOCS / "commands.md").read_text().partition("## Exit codes")
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert listed == [code for name, code in vars(exit_codes).items() if name.isupper()]
    assert exit_codes.INTERRUPTED_BY_USER == 128 + signal.SIGINT
    assert exit_codes.READER_LEFT == 128 + signal.SIGPIPE


def commands_in(page):
    """Yield the words of each dlmon command in the code blocks of a page."""
    for block in re.findall(r"(?ms)^(?:> )?```\n(.*?)^(?:> )?```", page.read_text()):
        for line in re.findall(r"(?m)^(?:> )?(?:\$ )?(?:srun (?:--\S+ )*)?(dlmon .*)$", block):
            words = shlex.split(line, comments=True)
            end = next((at for at, word in enumerate(words) if word in {"|", ">", "&&"}), None)
            yield [word for word in words[1:end] if word != "…"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_dlmon_has_the_commands_and_options_of_the_examples(page):
    for words in filter(None, commands_in(page)):
        _, command, rest = command_line.resolve_command(click.Context(command_line), words)
        command.make_parser(click.Context(command)).parse_args(rest)


def test_an_option_that_dlmon_lacks_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("> ```\n> dlmon exec --forever -- python train.py\n> ```\n")
    with pytest.raises(click.NoSuchOption, match="--forever"):
        test_dlmon_has_the_commands_and_options_of_the_examples(page)


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.stem)
def test_each_page_begins_with_what_it_is_for_and_three_commands(page):
    box = re.search(
        r"^# .*\n\n> \*\*60 seconds\.\*\* (?:.*\n>)+? ```\n((?:> .*\n)+)> ```\n", page.read_text()
    )
    assert box, page
    assert len(box[1].splitlines()) == 3, page
