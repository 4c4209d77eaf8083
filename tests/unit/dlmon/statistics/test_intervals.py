import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dlmon.statistics.intervals import student_95, student_95_of, student_p


# The two-sided 95 % column of any table of Student's t.
def test_quantiles_of_students_t():
    # The two-sided 95 % column of any table of Student's t.
    table = {1: 12.706, 2: 4.303, 9: 2.262, 30: 2.042, 40: 2.021, 120: 1.980, 10**9: 1.960}
    assert {degrees: student_95(degrees) for degrees in table} == pytest.approx(table, abs=0.002)
    whole = [student_95(degrees) for degrees in range(1, 300)]
    assert whole == sorted(whole, reverse=True)
    # Degrees needn't be whole.
    assert [student_95_of(degrees) for degrees in range(1, 300)] == pytest.approx(whole, abs=0.003)
    assert student_95_of(3) < student_95_of(2.5) < student_95_of(2)
    assert student_95_of(0.2) == student_95_of(1)


# Of one degree (Cauchy) and of two the distribution is known in closed form.
@given(st.floats(-1e6, 1e6))
@example(3.464098746179979e-08)
def test_how_likely_a_t_is(t):
    assert student_p(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(abs(t)), abs=1e-9)
    assert student_p(t, 2) == pytest.approx(1 - abs(t) / math.sqrt(2 + t * t), abs=1e-9)


@given(st.floats(0.5, 500), st.floats(0, 50), st.floats(0, 50))
def test_a_larger_t_is_never_more_likely(degrees, a, b):
    assert 0 <= student_p(max(a, b), degrees) <= student_p(min(a, b), degrees) + 1e-12 <= 1 + 1e-9
