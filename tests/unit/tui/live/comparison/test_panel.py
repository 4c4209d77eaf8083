"""What the headline of the comparison explains."""

import pytest

from dlmon.figures.session.doubts import DOUBT_NAMES
from dlmon.records import Doubt
from tui.live.live_screen import LIVE
from tui.screens.base import topics_of


@pytest.mark.parametrize("doubt", [one for one in Doubt if one is not Doubt.UNKNOWN])
def test_every_doubt_is_explained_by_the_name_that_it_has_on_the_screen(doubt):
    assert DOUBT_NAMES[doubt].casefold() in dict(topics_of(LIVE))["in doubt"].casefold()
