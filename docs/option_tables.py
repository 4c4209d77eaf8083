"""Write the tables of options in docs/commands.md and docs/settings.md.

    python docs/option_tables.py

They are made of the table in dlmon/options/run_options.py. A unit test compares the pages with what
this makes.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

from dlmon.options.option import Option
from dlmon.options.run_options import OPTIONS, SETTINGS, RunOptions

COMMANDS, SETTINGS_PAGE = (
    Path(__file__).with_name(name) for name in ("commands.md", "settings.md")
)
BEGIN = "<!-- From here on: made by docs/option_tables.py; don't edit. -->"
END = "<!-- To here: made by docs/option_tables.py. -->"

TOML_VALUES = {int: "a whole number", float: "a number", str: "text", bool: "`true` or `false`"}


def page(text: str, table: str) -> str:
    """Return a page with a table in place of the one that it has."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def commands_table() -> str:
    """Return the options of `run`, as one types them."""
    rows = []
    for option in OPTIONS.values():
        typed = option.flag if option.is_switch else f"{option.flag} {option.values_text}"
        rows.append(f"| `{_cell(typed)}` | {_default(option)} | {_cell(option.help)} |")
    return "\n".join(["| option | default | what it does |", "| --- | --- | --- |", *rows])


def settings_table() -> str:
    """Return the keys of the table `run` in config.toml."""
    types = get_type_hints(RunOptions)
    rows = []
    for name in SETTINGS:
        option = OPTIONS[name]
        (kind,) = {types[name], *get_args(types[name])} & set(TOML_VALUES)
        value = _one_of(option) if option.choices else TOML_VALUES[kind]
        default = "`false`" if option.is_switch else _default(option)
        rows.append(f"| `{name}` | {value} | {default} |")
    return "\n".join(["| key | value | default |", "| --- | --- | --- |", *rows])


def _one_of(option: Option) -> str:
    *others, last = [f'`"{word}"`' for word in option.values_text.split("|")]
    return f"{', '.join(others)} or {last}"


def _default(option: Option) -> str:
    said_in_words = option.default is None or option.is_switch
    return option.default_text if said_in_words else f"`{option.default_text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


TABLES = {COMMANDS: commands_table, SETTINGS_PAGE: settings_table}

if __name__ == "__main__":
    for path, table in TABLES.items():
        path.write_text(page(path.read_text(), table()))
