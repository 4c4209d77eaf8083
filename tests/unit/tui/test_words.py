"""What people read is in standard English: none of the odd words that once stood there."""

import ast
import re
from importlib import import_module
from pathlib import Path

import click
import pytest

import dlmon
import tui
from dlmon.cli.command_line import COMMANDS, command_line

ROOT = Path(tui.__file__).parent.parent
# Each once stood where a standard term belongs; a phrase with "a" stood for "per".
ODD = (
    r"told|untold|tells? of|reckon\w*|anew|whence|thereby|henceforth|lacking|lack of|be it|"
    r"amounts? to|a begin|the begin|all the same|beside each other|of unlike|is heard|"
    r"hearsay|doubtful of|makes? of it|in vain|wont|"
    r"(?:samples|steps|batches|MiB|KiB|MB|KB|kB|bytes|readings|times|updates) a second|"
    r"a second each|an hour of this|MB an hour|USD an hour|ms a GPU|a GPU every|W a GPU|"
    r"ms a batch|(?:steps|s|samples) an epoch|a million samples"
)
PATTERN = re.compile(rf"\b(?:{ODD})\b", re.IGNORECASE)
# A sentence has blanks; keys of dictionaries and names of styles have none.
SOURCES = sorted(path for top in (tui, dlmon) for path in Path(top.__file__).parent.rglob("*.py"))
PAGES = sorted([*ROOT.joinpath("docs").glob("*.md"), *ROOT.joinpath("tui").rglob("*.md")])


def shown_strings(path):
    """Yield the texts of a module that are no docstrings, with their lines."""
    described = set()
    # A statement comes before what stands in it.
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr):
            described.add(id(node.value))
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in described and " " in node.value.strip():
            yield node.lineno, node.value


def odd_words(text):
    return [found.group() for found in PATTERN.finditer(text)]


@pytest.mark.parametrize("sentence", ["3 samples a second", "what it amounts to", "drawn anew"])
def test_an_odd_word_is_found(sentence):
    assert odd_words(sentence)


def test_no_odd_word_is_shown_by_a_screen_a_command_or_the_doctor():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in SOURCES
        for line, text in shown_strings(path)
        for word in odd_words(text)
    ]
    assert found == []


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_no_odd_word_stands_in_the_help_of_a_command(name):
    command = command_line
    if name:
        module, _, function = COMMANDS[name].partition(".")
        command = getattr(import_module(f"dlmon.cli.{module}"), function)
    text = " ".join(command.get_help(click.Context(command, info_name=name or "dlmon")).split())
    assert odd_words(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_odd_word_stands_in_the_documentation(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    assert [word for each in paragraphs for word in odd_words(each)] == []
