"""Lists that are paged through in a window of any size."""

import pytest
from fakes.hands import Hands
from fakes.states import on_stage
from textual.geometry import Size
from textual.widgets import OptionList

from tui.textual_internals import SteadyOptionList

SIZES = ((80, 24), (40, 10), (20, 5), (60, 2), (1, 1))
# How each is opened: the view that it lies on, and the keys.
OPENED = {
    "workloads": ("home", []),
    "hosts": ("home", ["h"]),
    "themes": ("live", ["t"]),
    "columns": ("sessions", ["V"]),
    "palette": ("live", ["ctrl+p"]),
}
KEYS = ("pagedown", "pageup", "end", "pagedown", "home", "pageup", "down", "up")
ACTIONS = ("page_down", "page_up", "last", "page_down", "first", "page_up")


@pytest.mark.parametrize("name", OPENED)
async def test_a_list_is_paged_through_where_it_has_no_room_too(name):
    view, keys = OPENED[name]
    hosts = {"lab": ("gpu1", "gpu2")}
    async with on_stage("earlier-runs", view, hosts=hosts) as stage:
        await stage.press(*keys)
        await stage.pilot.pause()
        hands, lists = Hands(stage.app), list(stage.app.screen.query(OptionList))
        assert lists
        assert name == "palette" or all(isinstance(each, SteadyOptionList) for each in lists)
        for size in SIZES:
            # Before it is laid out for its new size, too.
            hands.resize(Size(*size))
            hands.press(*KEYS)
            await stage.pilot.pause()
            hands.press(*KEYS)
            await stage.pilot.pause()
            for each in lists if name != "palette" else ():
                for action in ACTIONS:
                    await each.run_action(action)
            await stage.pilot.pause()
            assert stage.app.is_running, size
