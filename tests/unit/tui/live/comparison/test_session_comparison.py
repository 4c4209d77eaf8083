"""What the headline compares with: published, before, or what somebody chose."""

from dlmon.comparison.compare import ComparisonRow
from dlmon.comparison.published import published
from dlmon.figures.comparison import Reference
from tui.live.comparison.session_comparison import Comparison


def rows():
    """Return this run, two published rows of which the first is near, and two earlier runs."""
    near, far = published("cifar10-cnn")[:2]
    metric = "seconds_per_epoch"
    return (
        ComparisonRow("this run", metric, "this", 8.0),
        ComparisonRow("near", metric, "published", 9.0, published=near),
        ComparisonRow("far", metric, "published", 40.0, published=far),
        ComparisonRow("older", metric, "earlier", 9.0, session="a"),
        ComparisonRow("newer", metric, "earlier", 9.5, session="b"),
    )


def in_headline(reference=None, steady=True):
    compared = rows()
    _, near, far, older, newer = map(Reference.of, compared)
    names = {near: "near", far: "far", older: "older", newer: "newer"}
    chosen = None if reference is None else next(r for r, n in names.items() if n == reference)
    shown = Comparison("", compared, {}, {}, chosen, before=newer, steady=steady)
    return [names[one] for one in shown.in_headline]


def test_it_is_the_nearest_published_and_the_run_before_unless_something_was_chosen():
    assert in_headline() == ["near", "newer"]
    assert in_headline("older") == ["older", "near"]
    assert in_headline("far") == ["far", "near"]


def test_what_is_chosen_and_not_there_is_not_in_it():
    shown = Comparison("", rows(), {}, {}, Reference("gone"), steady=True)
    assert [one.published is not None for one in shown.in_headline] == [True]
    assert Comparison("", (), {}, {}).in_headline == []
