"""The panel of the parts of a step."""

from dataclasses import replace

from fakes.recorded import folded, recorded_session

from dlmon.records import StepParts
from tui.live.step_panel import StepPanel


def test_before_the_first_steady_step_nothing_of_later_steps_is_shown():
    session = folded(recorded_session("training"))
    steady, later = session.loops.longest.steady, session.snapshot()
    before = replace(later, step_ms=None, judged_parts=None)
    parts = StepParts(1, 1, 100, forward_us=30, backward_us=50)
    for known in (later, replace(later, judged_parts=parts)):
        panel = StepPanel()
        panel.show(known, steady)
        assert panel.count == len(panel.draw(60, 20)) > 0
        panel.show(before, steady)
        assert panel.count == 0
        assert panel.draw(60, 20) == []
        panel.show(known, steady)
        assert panel.count > 0
