"""Write the table of options in docs/commands.md.

    python docs/option_tables.py

It is made of the table in dlmon/options/run_options.py. A unit test compares the page with what
this makes.
"""

from __future__ import annotations

from pathlib import Path

from dlmon.options.option import Option
from dlmon.options.run_options import OPTIONS, SETTINGS

PAGE = Path(__file__).with_name("commands.md")
BEGIN = "<!-- From here on: made by docs/option_tables.py; don't edit. -->"
END = "<!-- To here: made by docs/option_tables.py. -->"


def page(text: str) -> str:
    """Return the page with its table made again."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def table() -> str:
    """Return the options of `run`, their defaults, and the keys of config.toml for them."""
    rows = []
    for name, option in OPTIONS.items():
        typed = option.flag if option.is_switch else f"{option.flag} {option.values_text}"
        key = f"`{name}`" if name in SETTINGS else "–"
        rows.append(f"| `{_cell(typed)}` | {_default(option)} | {key} |")
    return "\n".join(["| option | default | key of `[run]` |", "| --- | --- | --- |", *rows])


def _default(option: Option) -> str:
    is_said_in_words = option.default is None or option.is_switch
    return option.default_text if is_said_in_words else f"`{option.default_text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
