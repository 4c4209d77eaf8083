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
    assert said(SLOW) == "11.1 % faster than base (10.3 to 11.9 %, 1 run each)"


def test_several_like_runs_say_how_runs_differ():
    more = (row("earlier", 10.1, session="b"), row("earlier", 9.9, session="c"))
    text = said(SLOW, *more)
    assert text.startswith("11.1 % faster than base (")
    assert "1 run each" not in text


def test_unlike_runs_have_no_factor_but_what_differs():
    other = row("earlier", 10.0, comparable=False, badges=("batch 32, not 100",))
    assert said(other) == "not compared with base: batch 32, not 100"


def test_before_there_is_a_figure_that_is_said():
    not_yet = "not compared with base: this run has no figure yet"
    assert factor_of_reference((SLOW,), SLOW, "base", False) == not_yet


def test_the_chosen_row_is_found_again_and_none_where_it_is_gone():
    assert row_of((THIS, FAST, SLOW), Reference.of(FAST)) is FAST
    assert row_of((THIS, SLOW), Reference.of(FAST)) is None
    assert row_of((THIS, FAST), None) is None
