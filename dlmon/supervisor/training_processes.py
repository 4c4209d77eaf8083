"""The training processes of a script, which send their records over a socket of ours."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dlmon.instrument.stacks import HELD
from dlmon.records import (
    Batches,
    BatchSummary,
    CodeSamples,
    Epoch,
    Evaluation,
    FrameworkMemory,
    GpuFacts,
    Imported,
    Injection,
    Metrics,
    Model,
    NamedPause,
    Notice,
    OutOfMemory,
    Phase,
    Record,
    Stack,
    StepParts,
    TokenShares,
    TrackerRun,
    Trainer,
)
from dlmon.records.rocm import gpus_by_device
from dlmon.records.words import VENDORS
from dlmon.supervisor.connection import ProcessConnection
from dlmon.system.foreign_processes import is_over

# The other ranks of a data-parallel run wait this long for rank 0 to begin to train. Ranks train
# in step, so none ends its first batch before rank 0 does.
LEADER_S = 3.0
TRAINER_RECORDS = (
    *(Trainer, Phase, Model, Batches, BatchSummary),
    *(Metrics, Epoch, Evaluation, NamedPause, Notice, Stack),
    *(FrameworkMemory, OutOfMemory, StepParts, CodeSamples, TokenShares),
    *(Imported, Injection, TrackerRun),
)
# A person is told if a process that closed its connection makes no other within this time.
RETURN_S = 5.0
# The most processes that are asked at once; a script may have thousands of loader workers.
MOST_ASKED = 128
# A script may start a thousand interpreters, and all may send notices.
MAX_NOTICES = 20


class TrainingProcesses:
    """Takes the records of all processes of a script, and numbers those that train.

    A process gets the lowest free number, so a process that trains after another has ended takes
    its number, and its epochs and loops count on from there.

    The epochs, validations and losses of process number 0 are shown in full. In a data-parallel
    run that is rank 0, whichever connects first: the others wait `LEADER_S` for it, and after that
    the lowest of their ranks becomes number 0.

    Args:
        write: is called with every record.
        notice: is called with a sentence for a person.
    """

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        self._write, self._notice = write, notice
        self.gpus: Sequence[GpuFacts] = ()
        """The GPUs of this machine that NVML reports."""
        self.options: Mapping[str, Any] = {}
        """The options of the job, by which a person describes the script's training."""
        self._socket: socket.socket | None = None
        self._connections: dict[int, _TrainingProcess] = {}
        self._folder = Path()
        self._notices = 0
        self._epochs: dict[int, int] = {}
        self._loops: dict[int, int] = {}
        # Closed connections of processes that go on, and may connect again.
        self._away: list[_TrainingProcess] = []
        # Ranks other than 0, as long as no process has number 0.
        self._waiting: list[_TrainingProcess] = []
        self._timer: asyncio.TimerHandle | None = None
        self.any_trained = False
        """True once a process has trained."""
        self.why_not_watched: str | None = None
        """The first notice of a process that can't be watched."""

    def listen(self, path: Path) -> None:
        """Accept connections at a path in a private folder.

        Raises:
            OSError: no socket can be made there.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.bind(str(path))
        self._socket.listen(1024)
        self._folder = path.parent
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def drain(self) -> None:
        """Take the records that have arrived, and stop: remaining processes may send for ever."""
        if self._socket is None:
            return
        self._accept()
        for connection in list(self._connections.values()):
            connection.drain()
        self._wait_no_longer()
        self._end_away(lambda away: True)
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None

    def _accept(self) -> None:
        assert self._socket is not None
        while True:
            try:
                peer, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self.notice(f"a process of the script could not be heard: {error.strerror}")
                return
            connection = _TrainingProcess(peer, self)
            self._connections[connection.fd] = connection

    def take(self, connection: _TrainingProcess, record: Record) -> None:
        if isinstance(record, Notice):
            if connection.trainer is None:
                self.why_not_watched = self.why_not_watched or record.text
            self.notice(record.text)
            return
        if isinstance(record, Trainer):
            if connection.trainer is None:
                self._take_trainer(record, connection)
            connection.has_ended |= bool(record.ended)
            return
        if connection.trainer is None and isinstance(record, (NamedPause, Stack)):
            # It compiles, or stands still, before it trains.
            self._write(record)
            return
        if connection.trainer is None:
            self.notice("a process of the script sent records before it said what trains")
            connection.close()
            return
        if connection.number is None:
            connection.held.append(record)
            return
        number, first_epoch = connection.number or None, connection.first_epoch
        if isinstance(record, Model):
            loop = connection.first_loop + (record.loop or 0)
            self._loops[connection.number] = loop + 1
            self.any_trained = True
            record = replace(
                with_gpu_number(record, self.gpus),
                trainer=number,
                loop=loop,
                first_epoch=first_epoch + (record.first_epoch or 0),
                epochs=None if record.epochs is None else record.epochs + first_epoch,
            )
            record = connection.expected.describe(record)
        elif isinstance(record, (Batches, BatchSummary, Epoch)):
            record = replace(record, trainer=number, epoch=record.epoch + first_epoch)
            record = connection.expected.with_samples(record)
            if not isinstance(record, Epoch):
                corrected = connection.expected.correct(record)
                if corrected is not None:
                    self._write(corrected)
            epochs = max(self._epochs.get(connection.number, 0), record.epoch + 1)
            self._epochs[connection.number] = epochs
        elif isinstance(record, Phase):
            epoch = None if record.epoch is None else record.epoch + first_epoch
            record = replace(record, trainer=number, epoch=epoch)
        else:
            numbered: Any = record
            record = replace(numbered, trainer=number)
        self._write(record)
        if isinstance(record, Epoch):
            connection.notice_not_numbers(record)

    def _take_trainer(self, trainer: Trainer, connection: _TrainingProcess) -> None:
        connection.trainer = trainer
        connection.pid, connection.rank = trainer.pid, trainer.rank
        connection.stacks_at = self._folder / f"{HELD}{trainer.pid}"
        # A process with the same pid that is not the same trainer has replaced its program (exec).
        self._end_away(
            lambda away: (
                not away.is_of(trainer) and (away.pid == trainer.pid or is_over(away.peer_pid))
            )
        )
        earlier = [c for c in (*self._connections.values(), *self._away) if c is not connection]
        before = next((c for c in earlier if c.is_of(trainer)), None)
        if before is not None:
            self._reconnect(before, connection)
            return
        leader = next((c for c in earlier if c.number == 0), None)
        if leader is None and trainer.rank:
            self._waiting.append(connection)
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(LEADER_S, self._wait_no_longer)
            return
        if trainer.rank == 0 and leader is not None and leader.trainer and leader.trainer.rank:
            self.notice(
                f"rank 0 began to train after rank {leader.trainer.rank}: epochs, validation and "
                f"loss are those of rank {leader.trainer.rank}"
            )
        self._number(connection)
        self._wait_no_longer()

    def _wait_no_longer(self) -> None:
        """Number the waiting processes in the order of their ranks, and write their records."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        waiting.sort(key=lambda connection: connection.rank or 0)
        # A process may have ended meanwhile; it gets a number of its own too.
        ended = [c for c in waiting if c.fd < 0 and c not in self._away]
        for connection in waiting:
            self._number(connection, ended)
            records, connection.held = connection.held, []
            for record in records:
                self.take(connection, record)
        for connection in ended:
            self._write_end(connection)

    def _reconnect(self, before: _TrainingProcess, connection: _TrainingProcess) -> None:
        """Continue a process's earlier connection with its new one."""
        before.drain()
        if before in self._away:
            self._away.remove(before)
        connection.continue_from(before)
        self._waiting = [connection if c is before else c for c in self._waiting]

    def _end_away(self, has_ended: Callable[[_TrainingProcess], bool]) -> None:
        """Write the end of the disconnected processes that are over."""
        for connection in filter(has_ended, list(self._away)):
            self._away.remove(connection)
            self._write_end(connection)

    def _notice_away(self, connection: _TrainingProcess) -> None:
        """Tell a person of a process that goes on without a connection."""
        self._end_away(lambda away: is_over(away.peer_pid))
        if connection in self._away:
            self.notice(
                f"process {connection.pid} closed its connection to dlmon and goes on: what it "
                "trains is not counted until it connects again"
            )

    def _number(self, connection: _TrainingProcess, ended: Iterable[_TrainingProcess] = ()) -> None:
        """Give a process the lowest free number; numbers of `ended` ones are not free yet."""
        assert connection.trainer is not None
        used = {c.number for c in (*self._connections.values(), *self._away, *ended)}
        lowest = next(n for n in range(len(used) + 1) if n not in used)
        connection.number = lowest
        connection.first_epoch = self._epochs.get(lowest, 0)
        connection.first_loop = self._loops.get(lowest, 0)
        connection.trainer = replace(connection.trainer, number=lowest, ended=None)
        self._write(connection.trainer)

    def processes(self) -> Sequence[ProcessConnection]:
        """Return the processes to ask: the training ones by number, then the loader workers."""
        connections = self._connections.values()
        training = sorted((c for c in connections if c.trainer), key=lambda c: c.number or 0)
        workers = (c for c in connections if c.trainer is None and c.worker is not None)
        return [*training, *workers][:MOST_ASKED]

    def disconnected(self, connection: _TrainingProcess) -> None:
        self._connections.pop(connection.fd, None)
        connection.closed_t = time.monotonic_ns()
        if connection.has_ended or connection.trainer is None or is_over(connection.peer_pid):
            self._write_end(connection)
        else:
            self._away.append(connection)
            asyncio.get_running_loop().call_later(RETURN_S, self._notice_away, connection)

    def _write_end(self, connection: _TrainingProcess) -> None:
        if connection.trainer is not None and connection.number is not None:
            self._write(replace(connection.trainer, t=connection.closed_t, ended=True))

    def notice(self, text: str) -> None:
        self._notices += 1
        if self._notices <= MAX_NOTICES:
            self._notice(text)


def with_gpu_number(model: Model, gpus: Sequence[GpuFacts]) -> Model:
    """Return a model with NVML's number of the GPU that its framework names.

    Args:
        model: the record of a script's process: `device` is cpu, gpu or None.
        gpus: the GPUs of this machine that NVML reports.
    """
    if model.device is None or model.device == "cpu":
        return model
    uuid = model.device_uuid
    vendor, _, device = (uuid or "").partition(":")
    if vendor in VENDORS:
        of_vendor = [gpu for gpu in gpus if gpu.vendor == vendor]
        by_device = gpus_by_device(gpus) if vendor == "amd" else of_vendor
        matches = by_device[int(device) :][:1] if device.isdecimal() else of_vendor
    else:
        # The framework may report only the first characters, as in CUDA_VISIBLE_DEVICES.
        matches = [gpu for gpu in gpus if uuid and gpu.uuid and gpu.uuid.startswith(uuid)]
        of_nvidia = [gpu for gpu in gpus if gpu.vendor == "nvidia"]
        matches = matches or ([] if uuid else of_nvidia or list(gpus))
    if len(matches) == 1:
        return replace(model, device=f"gpu:{matches[0].index}")
    why = "its framework does not say which of the GPUs it is"
    if not gpus:
        why = "NVML found no GPU, and the script's framework trains on one"
    elif uuid:
        why = f"NVML knows no GPU {uuid}"
    return replace(model, device=None, why={**model.why, "device": why})


class _TrainingProcess(ProcessConnection):
    """The connection of one process of the script."""

    def __init__(self, peer: socket.socket, trainers: TrainingProcesses) -> None:
        self._trainers = trainers
        self.held: list[Record] = []
        """The records that arrived before it got a number."""
        self.closed_t = 0
        self.has_ended = False
        """True once the process has sent that its training has ended."""
        self.first_epoch = self.first_loop = 0
        self.trainer: Trainer | None = None
        self.expected = ExpectedTraining(trainers.options, trainers.notice)
        super().__init__(peer, TRAINER_RECORDS, partial(trainers.take, self), trainers.notice)

    def is_of(self, trainer: Trainer) -> bool:
        """Return whether this is, or was, the connection of this trainer."""
        return self.trainer is not None and replace(self.trainer, number=0) == trainer

    def continue_from(self, before: _TrainingProcess) -> None:
        """Take over the state of the process's earlier connection."""
        self.trainer, self.number, self.held = before.trainer, before.number, before.held
        self.first_epoch, self.first_loop = before.first_epoch, before.first_loop
        self.expected, self._not_numbers = before.expected, before._not_numbers

    def disconnected(self) -> None:
        self._trainers.disconnected(self)
        super().disconnected()


EPOCHS, STEPS, SAMPLES_PER_STEP = "expected_epochs", "expected_steps", "samples_per_step"
"""The keys in a job's options of these options of `dlmon exec`."""
OF_EPOCHS, OF_STEPS = "--epochs of dlmon exec", "--steps of dlmon exec"


class ExpectedTraining:
    """Adds epochs, steps and samples from a person's options to the records of one process.

    Measured values take precedence.

    Args:
        options: the options of the job, with the keys above.
        notice: is called with a sentence if an option turns out to be wrong.
    """

    def __init__(self, options: Mapping[str, Any], notice: Callable[[str], None]) -> None:
        self._epochs, self._steps = options.get(EPOCHS), options.get(STEPS)
        self._samples_per_step: int | None = options.get(SAMPLES_PER_STEP)
        self._notice = notice
        self._model: Model | None = None
        self._noticed: set[str] = set()

    def describe(self, model: Model) -> Model:
        """Return a model, completed by the options."""
        model = self._with_samples(self._with_length(model))
        self._model = model
        return model

    def correct(self, record: Batches | BatchSummary) -> Model | None:
        """Return the model without its number of epochs if a batch exceeds it, else None."""
        model = self._model
        if model is None or model.length_from is None or model.epochs is None:
            return None
        if record.epoch < model.epochs:
            return None
        if model.length_from == OF_EPOCHS:
            self._notice_once(f"--epochs {model.epochs:,} is wrong: another epoch began")
        why = f"{model.length_from} says {model.epochs:,}, and more came"
        self._model = replace(
            model, epochs=None, length_from=None, why={**model.why, "epochs": why}
        )
        return self._model

    def with_samples(
        self, record: Batches | BatchSummary | Epoch
    ) -> Batches | BatchSummary | Epoch:
        """Return batches, or an epoch, with the samples that `--samples-per-step` gives."""
        size = self._samples_per_step
        if size is None or record.samples is not None:
            return record
        if isinstance(record, Batches):
            return replace(record, samples=size)
        count = record.count if isinstance(record, BatchSummary) else record.steps
        return record if count is None else replace(record, samples=count * size)

    def _with_length(self, model: Model) -> Model:
        epochs, first = self._epochs, model.first_epoch or 0
        if model.epochs is not None and model.length_from is None:
            if epochs is not None and epochs != model.epochs:
                self._notice_once(
                    f"--epochs {epochs:,} is not used: the script says {model.epochs:,}"
                )
            return model
        if model.has_epochs is not False and epochs is not None and epochs > first:
            return _with_fields(model, epochs=epochs, steps=None, length_from=OF_EPOCHS)
        if self._steps is None or (model.steps is not None and model.length_from is None):
            return model
        return _with_fields(model, epochs=None, steps=self._steps, length_from=OF_STEPS)

    def _with_samples(self, model: Model) -> Model:
        size = self._samples_per_step
        if size is None:
            return model
        if model.batch_size is not None or model.inferred is not None:
            if model.batch_size != size:
                self._notice_once(
                    f"--samples-per-step {size:,} is not used: batches have a size themselves"
                )
            return model
        samples = model.steps_per_epoch and model.steps_per_epoch * size
        return _with_fields(
            model,
            batch_size=size,
            samples_per_epoch=model.samples_per_epoch or samples,
            inferred="what --samples-per-step says",
        )

    def _notice_once(self, text: str) -> None:
        if text not in self._noticed:
            self._noticed.add(text)
            self._notice(text)


def _with_fields(model: Model, **fields: Any) -> Model:
    """Return a model with other fields, without the reasons why they were unknown."""
    why = {name: text for name, text in model.why.items() if fields.get(name) is None}
    return replace(model, **fields, why=why)
