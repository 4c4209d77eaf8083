"""What is said of a run beside the one that a person chose: the factor, and how sure it is."""

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures.comparison import Reference, factor_of_reference, row_of


def row(kind, value, half=0.05, session=None, **more):
    return ComparisonRow(
        *("CPU", "seconds_per_epoch", kind, value, value - half, value + half),
        session=session,
        **more,
    )


THIS, FAST, SLOW = row("this", 9.0), row("earlier", 8.1, session="a"), row("earlier", 10.0)


def said(other, *more, this=THIS, steady=True):
    return factor_of_reference((this, other, *more), other, "base", steady)


def test_the_factor_comes_with_its_interval_and_says_that_each_ran_once():
    assert said(SLOW) == "1.11× as fast as base (1.10× to 1.12×, 1 run each)"


def test_a_slower_run_has_the_interval_of_how_much_slower():
    assert said(FAST) == "1.11× as slow as base (1.10× to 1.12×, 1 run each)"


def test_what_the_interval_leaves_open_is_no_difference():
    near = row("earlier", 9.04)
    assert said(near) == "1.00× to 1.01× as fast as base, 1 run each: no clear difference"


def test_several_like_runs_say_how_runs_differ():
    more = (row("earlier", 10.1, session="b"), row("earlier", 9.9, session="c"))
    text = said(SLOW, *more)
    assert text.startswith("1.11× as fast as base (")
    assert "1 run each" not in text


def test_unlike_runs_have_no_factor_but_what_differs():
    other = row("earlier", 10.0, comparable=False, badges=("batch 32, not 100",))
    assert said(other) == "not like base: batch 32, not 100"


def test_before_there_is_a_figure_that_is_said():
    assert factor_of_reference((SLOW,), SLOW, "base", False) == "no factor to base yet"
    early = row("this", 9.0, projected=True)
    assert said(SLOW, this=early, steady=False) == "no factor to base yet"


def test_the_chosen_row_is_found_again_and_none_where_it_is_gone():
    assert row_of((THIS, FAST, SLOW), Reference.of(FAST)) is FAST
    assert row_of((THIS, SLOW), Reference.of(FAST)) is None
    assert row_of((THIS, FAST), None) is None
