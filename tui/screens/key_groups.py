"""The groups of keys in the help and in the palette."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

GROUPS = {
    "Run": "launch edit_script sweep reset_options stop detach again stop_and_again signal delete "
    "leave close app.quit",
    "Look": "",
    "Time": "move_cursor zoom zoom_in zoom_out choose_epoch zoom_to_epoch next_view pan "
    "go_to_start go_to_end follow pause change_speed seek seek_mark seek_start seek_end fit_axis",
    "Move": "move move_page scroll scroll_log page page_log choose_pane "
    "next_panel previous_panel pick close_log escape filter clear_filter search next_match",
    "Share": "export report copy copy_command rename",
}
"""The actions of each group of the help; those that are not named are of "Look"."""
_FUNCTION_KEY = re.compile(r"f\d+")
_GROUP_OF = {action: group for group, actions in GROUPS.items() for action in actions.split()}


def group_of(action: str) -> str:
    """Return the group of an action of a binding."""
    return _GROUP_OF.get(action.partition("(")[0], "Look")


def without_function_keys(keys: Sequence[str]) -> Sequence[str]:
    """Return the keys of an action; function keys only where there are no others."""
    return [key for key in keys if not _FUNCTION_KEY.fullmatch(key)] or keys


class KeyHelp(NamedTuple):
    """The keys of an action, its name, and a sentence that explains it."""

    group: str
    keys: str
    name: str
    sentence: str
