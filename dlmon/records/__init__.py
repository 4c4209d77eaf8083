"""The records of every pipe and log; the standard library only.

Their modules are imported on first use: `records.sanitize` alone needs none of them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlmon.records.codec import *  # noqa: F403
    from dlmon.records.machine import *  # noqa: F403
    from dlmon.records.memory import *  # noqa: F403
    from dlmon.records.session import *  # noqa: F403
    from dlmon.records.stacks import *  # noqa: F403
    from dlmon.records.sweep import *  # noqa: F403
    from dlmon.records.training import *  # noqa: F403
    from dlmon.records.words import *  # noqa: F403

# In the order of their dependencies.
_MODULES = ("words", "machine", "session", "training", "memory", "stacks", "sweep", "codec")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module in () if name.startswith("__") else _MODULES:
        names = vars(import_module(f"dlmon.records.{module}"))
        if name in names:
            globals()[name] = names[name]
            return names[name]
    raise AttributeError(f"dlmon.records has no {name}")
