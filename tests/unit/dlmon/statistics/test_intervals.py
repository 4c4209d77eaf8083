import pytest

from dlmon.statistics.intervals import student_95


# The two-sided 95 % column of any table of Student's t.
@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (40, 2.021), (120, 1.980), (10**9, 1.960)],
)
def test_quantiles_of_students_t(degrees, quantile):
    assert student_95(degrees) == pytest.approx(quantile, abs=0.002)


def test_students_t_never_grows_with_the_degrees_of_freedom():
    quantiles = [student_95(degrees) for degrees in range(1, 300)]
    assert quantiles == sorted(quantiles, reverse=True)
