"""The current epoch of a session and the requested number, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlmon.figures.session.compared_figure import mode_of
from dlmon.records import WITHOUT_EPOCHS, SessionHeader, Status

if TYPE_CHECKING:
    from dlmon.session.snapshot import Snapshot


def epoch_word(header: SessionHeader) -> str:
    """Return the word for one pass over the samples: `epoch` only in training."""
    return "pass" if mode_of(header.options) in WITHOUT_EPOCHS else "epoch"


def last_epoch(snapshot: Snapshot) -> tuple[int, bool] | None:
    """Return the number of the current or last epoch, and whether the run ended with it complete.

    If a run was stopped before the first batch of an epoch, its last epoch is the one before. The
    same holds for a script that announces no number of epochs: it may not have begun another.
    """
    progress, model, result = snapshot.progress, snapshot.model, snapshot.result
    if progress is None or model is None or model.has_epochs is False:
        return None
    is_over = result is not None and (result.status == Status.STOPPED or model.epochs is None)
    if is_over and snapshot.epochs and not progress.step:
        return snapshot.epochs[-1].epoch + 1, snapshot.epochs[-1].whole
    return progress.epoch + 1, False


def epoch_text(snapshot: Snapshot) -> str:
    """Write the current or last epoch of the requested ones: epoch 2/3; empty without epochs.

    Further epochs that fill `--seconds` are counted separately: epoch 1/1, 4 more to fill 10 s.
    """
    last, model, word = last_epoch(snapshot), snapshot.model, epoch_word(snapshot.header)
    if last is None or model is None or model.epochs is None:
        return "" if last is None else f"{word} {last[0]}"
    number, requested = last[0], max(1, model.epochs)
    text = f"{word} {min(number, requested)}/{requested}"
    if number <= requested:
        return text
    seconds = snapshot.header.options.get("seconds")
    filled = f" to fill {seconds:g} s" if isinstance(seconds, (int, float)) else ""
    return f"{text}, {number - requested} more{filled}"
