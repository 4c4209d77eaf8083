"""Infer the length of a script's own loop from its command line or its progress bar.

No framework knows the length. An inferred one may be wrong, so it is reported with its source.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

EPOCHS, STEPS = "epochs", "steps"
OF_A_BAR = "the script's progress bar"
# The names of options, in lower case and without - and _.
_NAMES = {
    EPOCHS: re.compile(r"(num|n|nb|max|total)?(train|training)?epochs|(num|n|nb|max|total)epoch"),
    STEPS: re.compile(
        r"(max|total)(num|n)?(train|training)?(steps|iters|iterations)"
        r"|(num|n|nb)?(iters|iterations)|(num|n|nb)?(train|training)(steps|iters|iterations)"
    ),
}
_FIRST = {
    EPOCHS: re.compile(r"(start|initial|begin|first|last)epoch|epochstart"),
    STEPS: re.compile(r"(start|initial|begin|first)(step|iter|iteration)"),
}
_RESUMES = re.compile(r"resume(from|path|checkpoint|fromcheckpoint|training)?")
_NOT_RESUMED = ("", "0", "no", "none", "false")


class Length(NamedTuple):
    """A number of epochs or steps, and its source."""

    number: int
    source: str


def asked_length(unit: str) -> Length | None:
    """Return the number of epochs or steps that this process's script was asked for."""
    return length_of(unit, sys.argv[1:], _arguments())


def length_of(
    unit: str, words: Sequence[str], parsed: Mapping[str, Any] | None = None
) -> Length | None:
    """Return the number of epochs or steps that a command line asks for.

    None if it has several different numbers, or resumes a run without the number of its start.

    Args:
        unit: `EPOCHS` or `STEPS`.
        words: the command line.
        parsed: the arguments from argparse, with their defaults.
    """
    typed = {_bare(word): (word, value) for word, value in _typed(words)}
    options: dict[str, Any] = {name: value for name, (_, value) in typed.items()}
    options |= {_bare(name): value for name, value in (parsed or {}).items()}
    lengths = {
        name: length
        for name, value in options.items()
        if _NAMES[unit].fullmatch(name) and (length := _whole(value))
    }
    if len(set(lengths.values())) != 1:
        return None
    starts = [_whole(value) for name, value in options.items() if _FIRST[unit].fullmatch(name)]
    start = max((start for start in starts if start), default=0)
    if not start and any(_resumes(name, value) for name, value in options.items()):
        return None
    name, length = next(iter(lengths.items()))
    source = f"the script's {typed[name][0] if name in typed else f'default of {unit}'}"
    return Length(length - start, source) if length > start else None


def bar_total(ended_epochs: int, begin_s: float) -> int | None:
    """Return the total of a progress bar that counts epochs; None if there is none, or several.

    It must have started before the first epoch, and have counted the ended ones.

    Args:
        ended_epochs: epochs of the loop that have ended, at least one.
        begin_s: the begin of the loop, in seconds since 1970.
    """
    kind = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    totals = set()
    for bar in tuple(getattr(kind, "_instances", ())):
        total, initial = _whole(getattr(bar, "total", None)), getattr(bar, "initial", 0)
        is_epochs = getattr(bar, "n", 0) - initial == ended_epochs
        if total and is_epochs and getattr(bar, "start_t", begin_s) < begin_s:
            totals.add(total - initial)
    totals = {total for total in totals if total > ended_epochs}
    return totals.pop() if len(totals) == 1 else None


def _arguments() -> Mapping[str, Any] | None:
    """Return the script's parsed arguments, which the hook of argparse kept."""
    for finder in sys.meta_path:
        arguments = getattr(finder, "arguments_of_script", None)
        if arguments is not None:
            return arguments  # type: ignore[no-any-return]
    return None


def _typed(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line: --name value, --name=value and name=value."""
    for word, next_word in zip(words, [*words[1:], ""], strict=False):
        name, equals_sign, value = word.partition("=")
        if equals_sign:
            yield name, value
        elif word.startswith("--"):
            yield word, "" if next_word.startswith("-") else next_word


def _bare(name: str) -> str:
    # The last part of hydra's trainer.max_epochs.
    return name.rpartition(".")[2].replace("-", "").replace("_", "").lower()


def _whole(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    is_whole = 0 < number < 1e12 and number.is_integer() and not isinstance(value, bool)
    return int(number) if is_whole else None


def _resumes(name: str, value: Any) -> bool:
    is_set = str(value).lower() not in _NOT_RESUMED
    return (is_set and _RESUMES.fullmatch(name) is not None) or value == "resume"
