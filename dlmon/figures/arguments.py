"""What a script was given otherwise than another time, in a few words. Pure."""

from __future__ import annotations

from functools import lru_cache

from dlmon.comparison.arguments import GIVEN, PROGRAM, arguments_of, is_secret
from dlmon.records.sanitize import clean

MOST_ARGUMENTS = 3
_LONGEST = 24
_ANOTHER = "(another)"

Command = tuple[str, ...]


@lru_cache(64)
def other_arguments(theirs: Command | None, ours: Command | None, script: str) -> tuple[str, ...]:
    """Return the arguments that an earlier run was given, as far as this one was given others.

    What this one has more is named as missing there: `without --workers`. Of very many the first
    are named. Empty where either is no script. These notes go into reports, so they hold no value
    of what is called a key, a token or a password.

    Args:
        theirs: the command of the earlier run.
        ours: that of this one.
        script: what both are called.
    """
    if theirs is None or ours is None or theirs == ours:
        return ()
    had, have = arguments_of((theirs, ours), script)
    names = [name for name in dict.fromkeys([*had, *have]) if had.get(name) != have.get(name)]
    texts = [_text(name, had.get(name), have.get(name)) for name in names]
    more = len(texts) - MOST_ARGUMENTS
    return tuple(
        texts if more <= 0 else [*texts[:MOST_ARGUMENTS], f"{more} more differ{'s' * (more == 1)}"]
    )


def _text(name: str, had: str | None, have: str | None) -> str:
    """Write what the earlier run had of an argument, or that it had none."""
    if had is None:
        is_option = have == GIVEN or not name.startswith("argument ")
        return f"without {clean(name if is_option else have or '', _LONGEST)}"
    value = _ANOTHER if is_secret(name) else clean(had, _LONGEST)
    if had == GIVEN and name.startswith("-"):
        return clean(name, _LONGEST)
    if name.startswith("-"):
        return f"{clean(name, _LONGEST)} {value}"
    if name == PROGRAM or name.startswith(("argument ", "word ")):
        return value
    return f"{clean(name, _LONGEST)}={value}"
