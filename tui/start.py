"""The entry point of the command: what it imports is imported with few rounds of collection."""

from __future__ import annotations

# The built-in half of `signal`: to import the other half takes longer than all until here.
import _signal  # type: ignore[import-not-found]
import gc
import os

from dlmon.exit_codes import INTERRUPTED_BY_USER

# Hundreds of thousands of objects come into being at a start and stay: looking
# through them again and again would cost a tenth of the time until the first paint.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000


def _leave(number: int, frame: object) -> None:
    os._exit(INTERRUPTED_BY_USER)


def collect_seldom() -> None:
    """Have the garbage collector look through what was made less often."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)


def main() -> None:
    """Run the command line."""
    # While it is imported, and once it is over, there is nothing to clean up after Ctrl-C.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _leave)
    collect_seldom()
    from tui.commands.main import main as run

    run()
