"""The entry point of the command: what it imports is imported with few rounds of collection."""

from __future__ import annotations

import gc

# Hundreds of thousands of objects come into being at a start and stay: looking
# through them again and again would cost a tenth of the time until the first paint.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    from tui.cli import main as run

    run()
