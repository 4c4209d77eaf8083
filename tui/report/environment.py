"""What a session ran with: the versions of programs, and the state of the machine at its start."""

from __future__ import annotations

from collections.abc import Iterable

from dlmon.records import TITLES, Model, SessionHeader, Trainer
from tui.options.option import as_text

# What counts the batches is dlmon itself where a script reports them.
_OWN = "dlmon"
_NAMES = {**TITLES, "keras": "Keras", "tf_keras": "tf-keras"}


def environment_rows(
    header: SessionHeader, model: Model | None, trainers: Iterable[Trainer]
) -> list[tuple[str, str]]:
    """Return names and versions, as far as the log has them.

    Args:
        header: of the session.
        model: what was built, which knows the versions of a script's backend.
        trainers: the processes of a script that trained.
    """
    rows = [
        (name, as_word(value))
        for name, value in header.versions.items()
        if name not in ("backend", "backend_version")
    ]
    backend = header.versions.get("backend")
    version = header.versions.get("backend_version")
    if backend:
        rows.append(("backend", " ".join(as_word(part) for part in (backend, version) if part)))
    rows += _of_script(header, model, list(trainers))
    facts = header.machine
    if facts.load_1m is not None:
        rows.append(("load at the start", f"{facts.load_1m:.2f}"))
    if facts.governor:
        rows.append(("governor", facts.governor))
    return list(dict.fromkeys(rows))


def _of_script(
    header: SessionHeader, model: Model | None, trainers: list[Trainer]
) -> list[tuple[str, str]]:
    if not header.is_script:
        return []
    rows = []
    for trainer in trainers:
        if trainer.framework != _OWN:
            name = _NAMES.get(trainer.framework, trainer.framework)
            rows.append(("framework", f"{name} {trainer.framework_version or ''}".rstrip()))
    backends = [trainer.backend for trainer in trainers if trainer.backend]
    backend = model.backend if model is not None and model.backend else next(iter(backends), None)
    if backend is not None:
        version = model.backend_version if model is not None else None
        rows.append(("backend", f"{_NAMES.get(backend, backend)} {version or ''}".rstrip()))
    own = header.versions.get("python")
    for trainer in trainers:
        if trainer.python is not None and trainer.python != own:
            rows.append(("python of the script", trainer.python))
    return rows


def as_word(value: object) -> str:
    """Return the value of an option or a version as text."""
    return as_text(value) if isinstance(value, (bool, int, float, str)) else str(value)
