"""What dlmon says of recorded logs stays as it is: `tests/golden/figures` has each figure."""

from __future__ import annotations

import json

import pytest
from golden.figures import FIGURES, all_figures, flat, logs_in, text_of

MOST_SHOWN = 40
NOT_THERE = "–"


def is_the_same(old, new):
    """Return whether a figure is as it was; one that no log had before may be unknown in it."""
    is_unknown = new in (None, "") or str(new).startswith("0 of ")
    return old == new or (old == NOT_THERE and is_unknown)


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    with logs_in(tmp_path_factory.mktemp("golden")) as logs:
        yield all_figures(logs)


def test_each_log_has_a_file_of_figures(figures):
    assert sorted(figures) == sorted(path.stem for path in FIGURES.glob("*.json"))


@pytest.mark.parametrize("name", sorted(path.stem for path in FIGURES.glob("*.json")))
def test_no_figure_has_changed(name, figures):
    texts = (FIGURES / f"{name}.json").read_text(), text_of(figures[name]())
    before, after = (flat(json.loads(text)) for text in texts)
    pairs = {
        key: (before.get(key, NOT_THERE), after.get(key, NOT_THERE))
        for key in sorted(before | after)
    }
    changed = [
        f"{key}: {old!r} -> {new!r}"
        for key, (old, new) in pairs.items()
        if not is_the_same(old, new)
    ]
    if changed:
        shown = "\n".join(changed[:MOST_SHOWN])
        pytest.fail(f"{len(changed)} figures of {name} are others:\n{shown}", pytrace=False)
