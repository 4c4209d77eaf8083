"""How long a script's own loop is to be, by what its command line and its progress bar show.

No framework knows it. What is found so may be wrong, and is said to be found so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

EPOCHS, STEPS = "epochs", "steps"
OF_A_BAR = "the script's progress bar"
# As options are called, in small letters and without - and _.
_NAMES = {
    EPOCHS: re.compile(
        r"(num|n|nb|max|total)?(train|training)?epochs|(num|n|nb|max|total)epoch",
    ),
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
    """A number of epochs, or of steps, and what says so."""

    number: int
    said_by: str


def asked_length(what: str) -> Length | None:
    """Return how many epochs, or steps, this process's script was asked for."""
    return length_of(what, sys.argv[1:], _arguments())


def length_of(
    what: str, words: Sequence[str], parsed: Mapping[str, Any] | None = None
) -> Length | None:
    """Return how many epochs, or steps, a command line asks for.

    None where it says more than one number, or goes on from where another run ended, and does not
    say from where.

    Args:
        what: `EPOCHS` or `STEPS`.
        words: of the command line.
        parsed: what argparse made of it, with the defaults of what was left out.
    """
    typed = {_bare(word): (word, value) for word, value in _typed(words)}
    given = {name: value for name, (_, value) in typed.items()}
    options = {**given, **{_bare(name): value for name, value in (parsed or {}).items()}}
    found = {name: _whole(value) for name, value in options.items() if _NAMES[what].fullmatch(name)}
    numbers = {number for number in found.values() if number}
    if len(numbers) != 1:
        return None
    [number] = numbers
    first = [_whole(value) for name, value in options.items() if _FIRST[what].fullmatch(name)]
    before = max((one for one in first if one), default=0)
    if not before and any(_resumes(name, value) for name, value in options.items()):
        return None
    name = next(name for name, value in found.items() if value == number)
    said_by = f"the script's {typed[name][0] if name in typed else f'default of {what}'}"
    return Length(number - before, said_by) if number > before else None


def bar_total(ended: int, began_wall: float) -> int | None:
    """Return how many epochs a progress bar counts to; None where none counts epochs.

    Such a bar was there when the first epoch began, and has come as far as the epochs have.

    Args:
        ended: how many epochs of the loop have ended: one at least.
        began_wall: when the first of them began, in seconds since 1970.
    """
    kind = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    totals = set()
    for bar in tuple(getattr(kind, "_instances", ())):
        total, initial = _whole(getattr(bar, "total", None)), getattr(bar, "initial", 0)
        counted = getattr(bar, "n", 0) - initial
        if total and counted == ended and getattr(bar, "start_t", began_wall) < began_wall:
            totals.add(total - initial)
    totals = {total for total in totals if total > ended}
    return totals.pop() if len(totals) == 1 else None


def _arguments() -> Mapping[str, Any] | None:
    """Return what argparse read in this process, which what enters it has kept."""
    for finder in sys.meta_path:
        arguments = getattr(finder, "arguments_of_script", None)
        if arguments is not None:
            return arguments  # type: ignore[no-any-return]
    return None


def _typed(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line: --name value, --name=value and name=value."""
    for number, word in enumerate(words):
        name, is_given, value = word.partition("=")
        if is_given:
            yield name, value
        elif word.startswith("--"):
            following = words[number + 1] if number + 1 < len(words) else ""
            yield word, "" if following.startswith("-") else following


def _bare(name: str) -> str:
    # Of hydra's trainer.max_epochs the last part.
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
