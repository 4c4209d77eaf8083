"""The entry point of the command: what it imports is imported with few rounds of collection."""

from __future__ import annotations

# The built-in half of `signal`: to import the other half takes longer than all until here.
import _signal  # type: ignore[import-not-found]
import gc
import os


def _leave(number: int, frame: object) -> None:
    # As a shell says of what Ctrl-C ended.
    os._exit(128 + number)


# While it is imported, and once it is over, there is nothing to clean up after Ctrl-C.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _leave)

# Type checkers take it for true; to import the one of `typing` would take a while.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dlmon.cli.start import Start

# Hundreds of thousands of objects come into being at a start and stay: looking
# through them again and again would cost a tenth of the time until the first paint.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000


def _show(start: Start) -> int:
    from dlmon.options.settings import check_theme
    from tui.app import DlmonApp
    from tui.drawing.themes import theme_names

    if start.settings.theme is not None:
        check_theme(start.settings.theme, theme_names())

    return DlmonApp(start).run_to_exit_code()


def collect_seldom() -> None:
    """Have the garbage collector look through what was made less often."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)


def main() -> None:
    """Run the command line."""
    collect_seldom()
    from dlmon.cli.main import main as run

    try:
        run(_show)
    except KeyboardInterrupt:
        # It came as an error was put into words.
        _leave(_signal.SIGINT, None)
