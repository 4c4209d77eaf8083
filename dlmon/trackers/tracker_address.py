"""Where the points of a session go: a tracker, and a place in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.log.folder import id_of, location_options, unusual_directory_of
from dlmon.records.record import record
from dlmon.records.sanitize import quoted

if TYPE_CHECKING:
    from dlmon.records import TrackerRun

LIBRARIES = {"wandb": "wandb", "mlflow": "mlflow", "trackio": "trackio", "tensorboard": ""}
"""The library that each tracker needs; empty if it needs none."""
LONGEST = 500
FORMS = "wandb, mlflow:URI, trackio or tensorboard:DIR"


@record(frozen=True)
class TrackerAddress:
    """A tracker.

    Attributes:
        tracker: its name, a key of `LIBRARIES`.
        place: the project of W&B or trackio, the tracking URI of MLflow, or TensorBoard's folder;
            empty for the default.
    """

    tracker: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.tracker}:{self.place}" if self.place else self.tracker

    def holds(self, run: TrackerRun, directory: str | None) -> bool:
        """Return whether a run that a script records itself is in this place.

        Args:
            run: the run.
            directory: the script's working directory.
        """
        if run.tracker != self.tracker:
            return False
        if self.tracker == "mlflow":
            # Only the server can tell: the script's tracking URI may hold a password.
            return run.id is not None
        if run.place is None:
            return False
        if self.tracker == "tensorboard":
            return (
                Path(run.place)
                .resolve()
                .is_relative_to(Path(directory or "", self.place).resolve())
            )
        return not self.place or f"/{run.place}".endswith(f"/{self.place}")

    @property
    def library(self) -> str:
        return LIBRARIES[self.tracker]


def address_of_tracker(text: str) -> TrackerAddress:
    """Read a destination, which must not hold a secret, since logs and notices repeat it.

    Raises:
        ValueError: it is not valid; the message doesn't repeat its place.
    """
    tracker, _, place = text.partition(":")
    if tracker not in LIBRARIES:
        raise ValueError(f"there is no tracker {quoted(tracker)}: use {FORMS}")
    if tracker == "tensorboard" and not place:
        raise ValueError("say which folder TensorBoard reads: tensorboard:DIR")
    if len(text) > LONGEST or not text.isprintable():
        raise ValueError(f"the place after {tracker}: is too long, or not printable")
    if tracker == "mlflow" and any(sign in place for sign in "@?"):
        raise ValueError(
            "a tracking URI may hold a password, and logs keep it: set MLFLOW_TRACKING_URI in "
            "place of it, and use --to mlflow"
        )
    return TrackerAddress(tracker, place)


def unsent_text(log: Path, to: str) -> str:
    """Return the sentence about a session of which not all was sent."""
    options = location_options(unusual_directory_of(log))
    return f"not all was sent to {to}; dlmon export{options} {id_of(log)} --to {to} sends it later"
