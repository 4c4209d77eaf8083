"""The floating-point operations that a token takes in training, of what a network consists of.

A weight of a matrix is multiplied with each token once on the way forward, and twice on the way
back: for the gradient of its input and for its own. A product of two numbers and its sum are two
operations, so a weight takes 6 (Chowdhery et al., PaLM, appendix B). In a layer of attention each
token meets all tokens of its sequence, twice: 12 · width · sequence operations. As in PaLM,
attention that looks back only counts in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

WHOLE = "all"
"""A span of attention: the whole sequence."""
WEIGHTS_AND_ATTENTION, WEIGHTS, COUNTED = "weights and attention", "weights", "counted"


@dataclass(frozen=True)
class Weight:
    """A matrix of weights that tokens are multiplied with, in the order of the layers.

    Attributes:
        elements: its numbers, all of them where ranks share them.
        trains: whether it has a gradient.
        active: the share of it that a token is multiplied with; below 1 in a mixture of experts.
        is_recomputed: whether its product is computed again for the way back.
    """

    elements: int
    trains: bool = True
    active: float = 1.0
    is_recomputed: bool = False


@dataclass(frozen=True)
class Operations:
    """What a token takes.

    Attributes:
        per_token: without attention between tokens.
        attention: for each token that it meets, by how many tokens back its layers look, or WHOLE.
        recomputed: further operations for the way back that add nothing; of attention, a third.
    """

    per_token: int
    attention: Mapping[str, int]
    recomputed: int = 0

    @property
    def source(self) -> str:
        return WEIGHTS_AND_ATTENTION if self.attention else WEIGHTS


def operations_of(weights: Iterable[Weight], attention: Mapping[str, int]) -> Operations:
    """Return what a token takes.

    A frozen weight behind one that trains takes 4: the gradient goes through it. Nothing goes back
    before the first that trains, which then has no gradient of its input to compute either.

    Args:
        weights: in the order in which tokens reach them.
        attention: layers · width, by how many tokens back they look.
    """
    forward = total = recomputed = passed = 0.0
    has_gradient = is_first = True
    for weight in weights:
        if is_first:
            has_gradient, is_first = weight.trains, False
        each = weight.elements * weight.active
        forward += 2 * each
        total += 4 * each if weight.trains else 2 * each
        if has_gradient:
            total += 2 * each
            passed += 2 * each
            recomputed += 2 * each if weight.is_recomputed else 0
        has_gradient |= weight.trains
    # Of attention in layers that nothing goes back through, a third is left.
    share = passed / forward if forward else 0.0
    return Operations(
        round(total),
        {span: round((4 + 8 * share) * size) for span, size in attention.items()},
        round(recomputed),
    )


def per_token(
    operations: int, attention: Mapping[str, float], sequence: float | None
) -> float | None:
    """Return the operations of a token in sequences of a mean length; None without that length."""
    if not attention:
        return operations
    if sequence is None:
        return None
    return operations + sum(each * _met(span, sequence) for span, each in attention.items())


def _met(span: str, sequence: float) -> float:
    # A log may say anything.
    is_number = span.isascii() and span.isdecimal() and len(span) < 12
    return min(sequence, int(span)) if is_number else sequence
