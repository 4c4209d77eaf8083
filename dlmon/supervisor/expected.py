"""What a person said of a script's training, for what the script itself does not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dlmon.records import Batches, BatchSummary, Epoch, Model

EPOCHS, STEPS, SAMPLES_PER_STEP = "expected_epochs", "expected_steps", "samples_per_step"
"""The names of these options of `dlmon exec` among those of a job."""
OF_EPOCHS, OF_STEPS = "--epochs of dlmon exec", "--steps of dlmon exec"


class ExpectedTraining:
    """Adds what a person said to the records of one process; what was measured stays.

    Args:
        options: those of a job, which hold what the person said by the names above.
        notice: takes, in words, what of that turned out to be wrong.
    """

    def __init__(self, options: Mapping[str, Any], notice: Callable[[str], None]) -> None:
        self._epochs, self._steps = options.get(EPOCHS), options.get(STEPS)
        self._samples_per_step: int | None = options.get(SAMPLES_PER_STEP)
        self._notice = notice
        self._model: Model | None = None
        self._noticed: set[str] = set()

    def describe(self, model: Model) -> Model:
        """Return what trains, with what the person said of it."""
        model = self._with_samples(self._with_length(model))
        self._model = model
        return model

    def correct(self, record: Batches | BatchSummary) -> Model | None:
        """Return what trains without a number of epochs that these batches show to be wrong."""
        model = self._model
        if model is None or model.length_from is None or model.epochs is None:
            return None
        if record.epoch < model.epochs:
            return None
        if model.length_from == OF_EPOCHS:
            self._say(f"--epochs {model.epochs:,} is wrong: another epoch began")
        why = f"{model.length_from} says {model.epochs:,}, and more came"
        self._model = replace(
            model, epochs=None, length_from=None, why={**model.why, "epochs": why}
        )
        return self._model

    def with_samples(
        self, record: Batches | BatchSummary | Epoch
    ) -> Batches | BatchSummary | Epoch:
        """Return batches, or an epoch, with the samples that the person said each step has."""
        size = self._samples_per_step
        if size is None or record.samples is not None:
            return record
        if isinstance(record, Batches):
            return replace(record, samples=size)
        count = record.count if isinstance(record, BatchSummary) else record.steps
        return record if count is None else replace(record, samples=count * size)

    def _with_length(self, model: Model) -> Model:
        asked, first = self._epochs, model.first_epoch or 0
        if model.epochs is not None and model.length_from is None:
            if asked is not None and asked != model.epochs:
                self._say(f"--epochs {asked:,} is not used: the script says {model.epochs:,}")
            return model
        if model.has_epochs is not False and asked is not None and asked > first:
            return _known(model, epochs=asked, steps=None, length_from=OF_EPOCHS)
        if self._steps is None or (model.steps is not None and model.length_from is None):
            return model
        return _known(model, epochs=None, steps=self._steps, length_from=OF_STEPS)

    def _with_samples(self, model: Model) -> Model:
        size = self._samples_per_step
        if size is None:
            return model
        if model.batch_size is not None or model.inferred is not None:
            if model.batch_size != size:
                self._say(
                    f"--samples-per-step {size:,} is not used: batches have a size themselves"
                )
            return model
        samples = model.steps_per_epoch and model.steps_per_epoch * size
        return _known(
            model,
            batch_size=size,
            samples_per_epoch=model.samples_per_epoch or samples,
            inferred="what --samples-per-step says",
        )

    def _say(self, text: str) -> None:
        if text not in self._noticed:
            self._noticed.add(text)
            self._notice(text)


def _known(model: Model, **known: Any) -> Model:
    why = {name: text for name, text in model.why.items() if known.get(name) is None}
    return replace(model, **known, why=why)
