"""Floating-point operations per token in training, from the weights and attention of a network.

A weight of a matrix is multiplied with each token once in the forward pass and twice in the
backward pass: for the gradient of its input and for its own. A multiplication and an addition are
two operations, so a weight takes 6 (Chowdhery et al., PaLM, appendix B). In an attention layer
each token meets all tokens of its sequence twice: 12 · width · sequence operations. As in PaLM,
causal attention counts in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

WHOLE = "all"
"""The attention span of a layer that looks at the whole sequence."""
WEIGHTS_AND_ATTENTION, WEIGHTS, COUNTED = "weights and attention", "weights", "counted"


@dataclass(frozen=True)
class Weight:
    """A weight matrix that tokens are multiplied with.

    Attributes:
        elements: the number of its elements over all ranks.
        trains: whether it has a gradient.
        active: the share of it that a token is multiplied with; below 1 in a mixture of experts.
        is_recomputed: whether the backward pass computes its product again.
    """

    elements: int
    trains: bool = True
    active: float = 1.0
    is_recomputed: bool = False


@dataclass(frozen=True)
class Operations:
    """The operations of one token.

    Attributes:
        per_token: without attention between tokens.
        attention: operations for each token in the span, by the span: a number of tokens or WHOLE.
        recomputed: operations that the backward pass repeats; of attention it repeats a third.
    """

    per_token: int
    attention: Mapping[str, int]
    recomputed: int = 0

    @property
    def source(self) -> str:
        return WEIGHTS_AND_ATTENTION if self.attention else WEIGHTS


def operations_of(weights: Iterable[Weight], attention: Mapping[str, int]) -> Operations:
    """Return the operations of one token.

    A frozen weight after a trained one takes 4: the gradient passes through it. The backward pass
    ends at the first trained weight, which needs no gradient of its input.

    Args:
        weights: in the order in which tokens reach them.
        attention: layers · width by attention span.
    """
    forward = total = recomputed = passed = 0.0
    has_gradient = is_first = True
    for weight in weights:
        if is_first:
            has_gradient, is_first = weight.trains, False
        active = weight.elements * weight.active
        forward += 2 * active
        total += 4 * active if weight.trains else 2 * active
        if has_gradient:
            total += 2 * active
            passed += 2 * active
            recomputed += 2 * active if weight.is_recomputed else 0
        has_gradient |= weight.trains
    # Attention in layers without a backward pass takes a third.
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
    return operations + sum(
        per_pair * _tokens_in(span, sequence) for span, per_pair in attention.items()
    )


def _tokens_in(span: str, sequence: float) -> float:
    # The span comes from a log, which may hold anything.
    is_number = span.isascii() and span.isdecimal() and len(span) < 12
    return min(sequence, int(span)) if is_number else sequence
