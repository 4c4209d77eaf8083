"""What the name of a metric says of it. Pure."""

from __future__ import annotations

import re

_LOWER_IS_BETTER = {
    "loss", "error", "err", "mae", "mse", "rmse", "mape", "msle", "perplexity", "ppl", "nll",
    "wer", "cer", "fid", "crossentropy", "divergence", "hinge",
}  # fmt: skip
_HIGHER_IS_BETTER = {
    "accuracy", "acc", "auc", "auroc", "precision", "recall", "f1", "iou", "miou", "dice", "bleu",
    "rouge", "map", "r2", "psnr", "ssim", "ndcg", "mrr",
}  # fmt: skip
# Of these, such as neg_log_loss or loss_scale, the rest of the name says nothing.
_TELLS_NOTHING = {"neg", "negative", "scale", "weight", "norm"}
_WORDS = re.compile(r"[^\W_]+")


def lower_is_better(name: str) -> bool | None:
    """Return whether less of a metric is better; None where its name doesn't tell."""
    words = {word.lower() for word in _WORDS.findall(name)}
    if words & _TELLS_NOTHING:
        return None
    lower, higher = bool(words & _LOWER_IS_BETTER), bool(words & _HIGHER_IS_BETTER)
    if lower == higher:
        return True if name.lower().endswith(("loss", "error")) else None
    return lower
