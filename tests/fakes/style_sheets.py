"""Let the apps of one process parse a style sheet once, not each of them again."""

from __future__ import annotations

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

_textuals_parse_rules = Stylesheet._parse_rules
_parsed: dict[tuple[object, ...], list[RuleSet]] = {}


def _parse_rules(sheet: Stylesheet, css: str, read_from, *rest, **more) -> list[RuleSet]:
    """Return what was made of the same text with the same variables before, if it was."""
    variables = frozenset(sheet._variables.items())
    key = (variables, css, read_from, rest, frozenset(more.items()))
    if key not in _parsed:
        _parsed[key] = _textuals_parse_rules(sheet, css, read_from, *rest, **more)
    return _parsed[key]


def install(monkeypatch) -> None:
    """Have every app take what an earlier one has parsed."""
    monkeypatch.setattr(Stylesheet, "_parse_rules", _parse_rules)
    # Textual's own is `id` as well, but in Python: it is asked for a hundred times a widget.
    monkeypatch.setattr(RuleSet, "__hash__", object.__hash__)
