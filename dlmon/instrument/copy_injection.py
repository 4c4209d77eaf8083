"""Set `non_blocking` in the copies of tensors from pinned memory to a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from dlmon.instrument.injections import Injections, set_up
from dlmon.instrument.reporter import hide_this_frame

_NAME = "non_blocking"
NOTHING_PINNED = "no tensor in pinned memory was copied to a GPU: DataLoader(..., pin_memory=True)"


def into_copies(torch: Any, injections: Injections) -> None:
    """Set it in `Tensor.to` and `Tensor.cuda`, unless the script says it there itself."""

    def install() -> None:
        for name in ("to", "cuda"):
            setattr(torch.Tensor, name, _replaced(getattr(torch.Tensor, name), injections))

    set_up(injections, (_NAME,), NOTHING_PINNED, install)


def _replaced(copy: Callable[..., Any], injections: Injections) -> Callable[..., Any]:
    @wraps(copy)
    def replaced(tensor: Any, *arguments: Any, **named: Any) -> Any:
        is_set = False
        try:
            # A copy back from a GPU must wait: the CPU would read it before it is complete.
            says_it = _NAME in named or any(isinstance(value, bool) for value in arguments)
            if not says_it and tensor.is_cpu and tensor.is_pinned() and injections.value(_NAME):
                named, is_set = {**named, _NAME: True}, True
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            injections.refused((_NAME,), error)
        try:
            copied = copy(tensor, *arguments, **named)
        except BaseException as error:
            hide_this_frame(error)
            raise
        if is_set and getattr(copied, "is_cuda", False):
            injections.applied(_NAME)
        return copied

    return replaced
