"""What a report draws of the loss: as it was read, or as epochs say it."""

from fakes.recorded import recorded_session

from dlmon.records import Metrics
from tui.report.curves import SessionCurves, charts_of


def losses(records):
    curves = SessionCurves(records[0])
    for record in records[1:]:
        curves.fold(record)
    charts = {chart.title: chart for chart in charts_of([curves], ["it"])}
    return {line.label: line.columns.mean for line in charts["Loss"].lines} if charts else {}


def test_the_loss_is_drawn_with_its_validation():
    drawn = losses(recorded_session())
    assert list(drawn) == ["this run", "validation of each epoch"]
    known = [value for value in drawn["this run"] if value is not None]
    assert known[0] > 2
    assert known[-1] < 0.7
    validated = {round(v, 4) for v in drawn["validation of each epoch"] if v is not None}
    assert {1.8, 0.9, 0.6} <= validated


def test_an_older_log_draws_the_losses_of_its_epochs():
    drawn = losses([r for r in recorded_session() if not isinstance(r, Metrics)])
    known = {round(value, 4) for value in drawn["this run"] if value is not None}
    assert {1.8, 0.9, 0.6} <= known


def test_a_loss_that_is_no_number_is_a_gap():
    drawn = losses(recorded_session("training", ended=2, nan_loss=True))
    values = drawn["this run"]
    assert values[-1] is None or len(values) < 60
    assert all(value is None or value > 0 for value in values)
