"""The first line of a session: what runs, on what, and how far it is."""

from __future__ import annotations

from dlmon.figures import units
from dlmon.figures.comparison import (
    device_text,
    epoch_text,
    last_epoch,
    trainers_text,
    unusual_settings,
)
from dlmon.figures.phases import doing_text
from dlmon.log.label import Label
from dlmon.records import FRAMEWORKS, Status
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import (
    ACCENT,
    APART,
    BAD,
    GOOD,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    cut,
    fitting,
    joined,
    row_width,
    shows,
)
from tui.widgets.rows import TextRow
from workloads.catalog import WORKLOADS

_LONGEST_NAME = 30
"""Cells of the first line that a name may take."""
_UNNAMED = Label()


class TopLine(Lines):
    """One row; `show` takes a snapshot and how the session stands."""

    DEFAULT_CSS = "TopLine { height: 1; padding: 0 1; }"

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        status: str,
        reading: str = "",
        label: Label = _UNNAMED,
        host: str | None = None,
        turn: str = "",
    ) -> list[TextRow]:
        """Return a session in a row.

        Args:
            width: of the row.
            height: one.
            snapshot: all of its figures.
            status: how it stands.
            reading: how far its log is read, while it is behind.
            label: what a person calls it, and notes of it.
            host: the machine that it is on, where that is another one.
            turn: which of several runs it is, of one that is one of several.
        """
        right = ((reading, STRONG),) if reading else _where_it_is(snapshot, status)
        called = f'"{label.name}"' if label.name is not None else ""
        (name,) = cut(((called, PLAIN),), _LONGEST_NAME) or (("", PLAIN),)
        left: TextRow = (
            (snapshot.header.workload or "machine", ACCENT),
            name,
            (turn, PLAIN),
            (host or "", STRONG),
            (units.device(device_text(snapshot)), MUTED),
            *((setting, MUTED) for setting in _settings(snapshot)),
            (label.note or "", MUTED),
        )
        room = width - row_width(right) - APART
        left = fitting(tuple(run for run in left if run[0]), room, APART)
        return [joined(left, right, width)]

    show = shows(rows)


def _where_it_is(snapshot: Snapshot, status: str) -> TextRow:
    """Return how a session stands, and how far it has come."""
    is_running = status == Status.RUNNING
    style = STRONG if is_running else GOOD if status == Status.COMPLETED else BAD
    parts = [(doing_text(snapshot) if is_running else status, style)]
    epoch = epoch_text(snapshot)
    if epoch:
        # "starting epoch 4/10" is one phrase.
        opening = is_running and snapshot.phase == "opening"
        cut_off = status in (Status.FAILED, Status.STOPPED)
        last = last_epoch(snapshot)
        place = "  after " if last is not None and last[1] else "  in "
        apart = " " if opening else place if cut_off else "  "
        parts.append((f"{apart}{epoch}", PLAIN))
    return (*parts, (f"  {units.clock(snapshot.elapsed_s)}", PLAIN))


def _script_framework(snapshot: Snapshot) -> str:
    """Name what counts the batches of a script, and what that runs on, with their versions."""
    if not snapshot.header.is_script or not snapshot.trainers:
        return ""
    trainer = snapshot.trainers[0].trainer
    name = {"dlmon": "reported by the script", **FRAMEWORKS}.get(
        trainer.framework, trainer.framework
    )
    text = f"{name} {trainer.framework_version or ''}".rstrip()
    if trainer.backend is None:
        return text
    model = snapshot.model
    version = model.backend_version if model is not None else None
    return f"{text} on {FRAMEWORKS.get(trainer.backend, trainer.backend)} {version or ''}".rstrip()


def _settings(snapshot: Snapshot) -> list[str]:
    """Return how it is trained, what matters most first."""
    header, model = snapshot.header, snapshot.model
    workload = WORKLOADS.get(header.workload)
    batch_size = model.batch_size if model else header.options.get("batch_size")
    steps = header.options.get("steps")
    precision = header.options.get("precision") or (workload.precision if workload else None)
    unusual = unusual_settings(header.options)
    spread = trainers_text(snapshot).partition(",")[0]
    settings = (
        (spread, spread),
        (framework := _script_framework(snapshot), framework),
        *((setting, setting) for setting in unusual),
        (batch_size, f"batch {batch_size}"),
        (steps, f"{steps} steps"),
        (model and model.data, f"{model.data} data" if model else ""),
        (precision, f"{precision}" if precision not in unusual else ""),
    )
    return [text for value, text in settings if value and text]
