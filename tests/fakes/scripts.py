"""Records of scripts of a person's own, as their processes and the supervisor write them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from fakes.recorded import recorded_session

from dlmon.records import (
    SCRIPT_PHASE,
    Batches,
    Epoch,
    Model,
    Phase,
    Record,
    Result,
    SessionHeader,
    Trainer,
)

SECOND = 10**9


def script_header() -> SessionHeader:
    """Return the first line of a script's log."""
    header = next(r for r in recorded_session() if isinstance(r, SessionHeader))
    return replace(
        header,
        id="20261123-100000-train-py-0001",
        workload="train.py",
        options={"interval": 1.0, "pcie": False, "price": None},
        command=("python", "train.py", "--lr", "1e-3"),
        directory="/home/ada/work",
    )


def script_session(
    *,
    seconds: int = 20,
    trainers: int = 1,
    samples: int | None = 64,
    step_ms: int = 20,
    wait_ms: int | None = 8,
    steps: int | None = 100,
    validated: bool = False,
    result: Result | None = None,
    tokens: int | None = None,
) -> list[Record]:
    """Return the log of a script that trains with PyTorch, from its start.

    Args:
        seconds: how long it has trained; 0 for one that has not begun to.
        trainers: processes that train at once, each a little slower than the one before.
        samples: of a batch.
        step_ms: of the first process.
        wait_ms: how much of a step is a wait for data.
        steps: of an epoch, as the loader says it.
        validated: whether each epoch is written again with its validation.
        result: the last line.
        tokens: of a sample.
    """
    header = script_header()
    begin = header.t + 2 * SECOND
    records: list[Record] = [header, Phase(header.t + SECOND // 100, SCRIPT_PHASE)]
    for number in range(trainers if seconds else 0):
        records += _trainer(
            *(number, begin, seconds, samples, step_ms + number, wait_ms, steps, tokens)
        )
    if validated:
        records = _with_validation(records)
    return [*records, *([result] if result is not None else [])]


def _trainer(
    number: int,
    begin: int,
    seconds: int,
    samples: int | None,
    step_ms: int,
    wait_ms: int | None,
    steps: int | None,
    tokens: int | None,
) -> list[Record]:
    mark = number or None
    of_batch = None if tokens is None or samples is None else tokens * samples
    per_epoch = steps or 1_000_000
    made: list[Record] = [
        Trainer(begin, number, 100 + number, "torch", "2.13.0", "3.11.7"),
        Model(
            parameters=None,
            flops_per_sample=None,
            batch_size=samples,
            samples_per_epoch=None if steps is None or samples is None else steps * samples,
            steps_per_epoch=steps,
            epochs=None,
            loop=0,
            first_epoch=0,
            workers=2,
            trainer=mark,
            why={"flops_per_sample": "not counted", "parameters": "not known", "epochs": "open"},
        ),
        Phase(begin, "training", trainer=mark),
    ]
    t, step = begin, 0
    while t < begin + seconds * SECOND:
        epoch, first = divmod(step, per_epoch)
        count = min(10, per_epoch - first)
        made.append(
            Batches(
                epoch=epoch,
                first=first,
                samples=samples,
                t=t + step_ms * 1_000_000,
                dt_us=(step_ms * 1000,) * count,
                wait_us=None if wait_ms is None else wait_ms * 1000 * count,
                trainer=mark,
                tokens=of_batch,
            )
        )
        t += count * step_ms * 1_000_000
        step += count
        if first + count == per_epoch and steps is not None:
            made.append(
                Epoch(
                    epoch=epoch,
                    begin=t - per_epoch * step_ms * 1_000_000,
                    train_end=t,
                    end=t,
                    whole=True,
                    samples=None if samples is None else per_epoch * samples,
                    metrics={},
                    steps=per_epoch,
                    trainer=mark,
                    tokens=None if of_batch is None else per_epoch * of_batch,
                )
            )
    return made


def _with_validation(records: list[Record]) -> list[Record]:
    from dlmon.records import Validation

    made: list[Record] = []
    for record in records:
        made.append(record)
        if isinstance(record, Epoch):
            end = record.end + SECOND // 10
            passed = Validation(record.end, end, end, end, steps=4)
            made.append(replace(record, end=end, validation=passed))
    return made


class Script:
    """Makes the log of a script that trains in one loop after another."""

    def __init__(self) -> None:
        self.t = script_header().t + 2 * SECOND
        trainer = Trainer(self.t, 0, 100, "keras", backend="tensorflow")
        self.records: list[Record] = [script_header(), trainer]
        self._loops = self._epochs = 0

    def train(
        self,
        network: str | None = "net",
        parameters: int | None = 1000,
        batch: int | None = 32,
        steps: int = 100,
        step_ms: int = 20,
        epochs: int = 3,
        first_ms: int | None = None,
        late: bool = False,
    ) -> Script:
        """Add a loop; a `late` one is described in full after its first batch, as Keras does."""
        model = Model(
            parameters=None if late else parameters,
            flops_per_sample=None,
            batch_size=batch,
            samples_per_epoch=None if batch is None else steps * batch,
            steps_per_epoch=None if batch is None else steps,
            epochs=None if batch is None else self._epochs + epochs,
            network=network,
            loop=self._loops,
            first_epoch=self._epochs,
            has_epochs=None if batch is not None else False,
        )
        self.records += [model, Phase(self.t, "training")]
        self._loops += 1
        for number in range(epochs):
            dt_us = [step_ms * 1000] * steps
            if not number and first_ms:
                dt_us[0] = first_ms * 1000
            self._add(dt_us, batch, model if late and not number else None, parameters)
        return self

    def _add(
        self,
        dt_us: list[int],
        batch: int | None,
        model: Model | None,
        parameters: int | None,
    ) -> None:
        begin, epoch = self.t, self._epochs
        cuts = [0, 1, len(dt_us)] if model is not None else [0, len(dt_us)]
        for first, end in pairwise(cuts):
            part = tuple(dt_us[first:end])
            self.records.append(Batches(epoch, first, batch, self.t + part[0] * 1000, part))
            self.t += sum(part) * 1000
            if model is not None and not first:
                self.records.append(replace(model, parameters=parameters))
        samples = None if batch is None else batch * len(dt_us)
        if batch is not None:
            ended = Epoch(epoch, begin, self.t, self.t, True, samples, {}, len(dt_us))
            self.records.append(ended)
        self._epochs += 1
