"""The workloads are filtered by what is typed."""

from dataclasses import replace

import pytest

from tui.home.workload_list import matching, with_headings
from workloads.catalog import WORKLOADS

ALL = [WORKLOADS[name] for name in ("cifar10-cnn", "mnist-mlp-small", "mnist-mlp-wide")]
CIFAR, SMALL, WIDE = ALL


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", [CIFAR, SMALL, WIDE]),
        ("   ", [CIFAR, SMALL, WIDE]),
        ("mnist", [SMALL, WIDE]),
        ("/mnist", [SMALL, WIDE]),
        ("CIFAR", [CIFAR]),
        ("wide mlp", [WIDE]),
        ("hidden layer", [SMALL, WIDE]),
        ("colour mnist", []),
        ("[/x]", []),
    ],
)
def test_every_word_must_be_in_the_name_the_family_or_the_title(typed, found):
    assert matching(ALL, typed) == found


def test_a_family_stands_together_under_its_name():
    late = replace(CIFAR, name="cifar10-late")
    found = matching([CIFAR, SMALL, late], "")
    assert with_headings(found) == ["CIFAR-10", CIFAR, late, "MNIST", SMALL]


def test_without_workloads_there_are_no_headings():
    assert with_headings([]) == []
