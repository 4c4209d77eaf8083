"""The entry point of the command, which sets up signals and the garbage collector first."""

from __future__ import annotations

# The C part of `signal`: importing the rest takes longer than everything before it.
import _signal  # type: ignore[import-not-found]
import gc
import os


def _leave(number: int, frame: object) -> None:
    # A shell's exit code for a process that a signal ended.
    os._exit(128 + number)


# During the imports and after the end, there is nothing to clean up after Ctrl-C.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _leave)

# Type checkers take it as true; importing `typing` would take a while.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dlmon.cli.start import Start

# A start makes hundreds of thousands of objects that stay: collecting at the default rate would
# take a tenth of the time until the first paint.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000


def _show(start: Start) -> int:
    from dlmon.options.settings import check_theme
    from tui.app import DlmonApp
    from tui.drawing.themes import theme_names

    if start.settings.theme is not None:
        check_theme(start.settings.theme, theme_names())

    return DlmonApp(start).run_to_exit_code()


def collect_seldom() -> None:
    """Let the garbage collector run less often."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)


def main() -> None:
    """Run the command line."""
    collect_seldom()
    from dlmon.cli.main import main as run

    try:
        run(_show)
    except KeyboardInterrupt:
        # Ctrl-C came while an error message was made.
        _leave(_signal.SIGINT, None)
