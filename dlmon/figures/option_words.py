"""An option of a run and its value as a person says it, not as a shell takes it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dlmon.figures import units

# Of what there are several; without a number, so many.
_NOUNS = {"epochs": "epoch", "steps": "step", "threads": "thread", "cpus": "CPU"}
_WITHOUT_NUMBER = {
    "steps": "all steps",
    "threads": "automatic threads",
    "cpus": "all CPUs",
}
_NAMES = {"batch_size": "batch size", "jit": "JIT"}


def option_words(name: str, value: object) -> str:
    """Return what an option is set to: `10 epochs`, `all steps`, `batch size 64`, `device cpu`."""
    if isinstance(value, int) and name in _NOUNS:
        return units.counted(value, _NOUNS[name])
    if value is None and name in _WITHOUT_NUMBER:
        return _WITHOUT_NUMBER[name]
    if name == "python":
        return "dlmon's own Python" if value is None else "another Python"
    return f"{_NAMES.get(name, name)} {value}"


def options_words(options: Iterable[tuple[str, object]]) -> str:
    """Return several options in words: `10 epochs, all steps`."""
    return ", ".join(option_words(name, value) for name, value in options)
