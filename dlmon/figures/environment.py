"""What a session ran with: the versions of programs, and the state of the machine at its start."""

from __future__ import annotations

from collections.abc import Iterable

from dlmon.options.option import as_text
from dlmon.records import TITLES, Model, SessionHeader, Trainer

# What counts the batches is dlmon itself where a script reports them.
_OWN = "dlmon"
_CODE = {"script_sha256": "SHA-256 of the script", "git_commit": "git commit"}
_SHOWN_DIGITS = 12
_NAMES = {
    **TITLES,
    "keras": "Keras",
    "tf_keras": "tf-keras",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
}


def environment_rows(
    header: SessionHeader, model: Model | None, trainers: Iterable[Trainer]
) -> list[tuple[str, str]]:
    """Return names and versions; of what the log could not have, why.

    Args:
        header: of the session.
        model: what was built, which knows the versions of a script's backend.
        trainers: the processes of a script that trained.
    """
    rows = [
        (name, _known(value, header.why.get(f"versions.{name}")))
        for name, value in header.versions.items()
        if name not in ("backend", "backend_version")
    ]
    backend = header.versions.get("backend")
    version = header.versions.get("backend_version")
    if backend:
        why = header.why.get("versions.backend_version")
        known = "" if version is None and why is None else f" {_known(version, why)}"
        rows.append(("backend", f"{as_word(backend)}{known}"))
    rows += _of_script(header, model, list(trainers))
    facts = header.machine
    load, why_no_load = facts.load_1m, facts.why.get("load_1m")
    if load is not None or why_no_load is not None:
        said = _known(None if load is None else f"{load:.2f}", why_no_load)
        rows.append(("load at the start", said))
    if facts.governor:
        rows.append(("governor", facts.governor))
    return list(dict.fromkeys(rows))


def _of_script(
    header: SessionHeader, model: Model | None, trainers: list[Trainer]
) -> list[tuple[str, str]]:
    if not header.is_script:
        return []
    rows = []
    for name, digits in (
        ("script_sha256", header.script_sha256),
        ("git_commit", header.git_commit),
    ):
        if digits is not None or name in header.why:
            known = None if digits is None else digits[:_SHOWN_DIGITS]
            rows.append((_CODE[name], _known(known, header.why.get(name))))
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


def _known(value: object, why: str | None) -> str:
    if value is None:
        return "–" if why is None else f"– ({why})"
    return as_word(value)


def as_word(value: object) -> str:
    """Return the value of an option or a version as text."""
    return as_text(value) if isinstance(value, (bool, int, float, str)) else str(value)
