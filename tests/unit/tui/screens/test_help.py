"""The keys of the help, in groups side by side."""

import pytest
from rich.console import Console

from tui.screens.help import _few_keys, _key_columns
from tui.screens.key_groups import KeyHelp


@pytest.mark.parametrize(
    ("keys", "few"),
    [
        ("g f4", "g"),
        ("f1", "f1"),
        ("← → shift+← shift+→", "← →"),
        ("tab shift+tab", "tab"),
        ("1 2 3 4 5 6 7", "1–7"),
        ("1 2", "1–2"),
    ],
)
def test_an_action_has_its_first_keys_and_digits_are_a_range(keys, few):
    assert _few_keys(keys) == few


@pytest.mark.parametrize(("width", "columns"), [(76, 3), (106, 4), (20, 1)])
def test_groups_stand_side_by_side_and_no_name_is_cut_in_a_word(width, columns):
    groups = ("Run", "Look", "Time", "Share")
    keys = [KeyHelp(group, "x", "Fit the throughput again", "") for group in groups]
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(_key_columns(keys, width))
    rows = [row.rstrip() for row in capture.get().splitlines()]
    assert " ".join(rows[0].split()) == " ".join(groups[:columns])
    whole = f"x … {keys[0].name} {' '.join(groups)}".split()
    assert {word for row in rows for word in row.split()} <= {*whole}
