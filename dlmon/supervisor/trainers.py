"""The processes of a script that train: each sends its records over a socket of ours."""

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
    Epoch,
    Evaluation,
    FrameworkMemory,
    GpuFacts,
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
    Trainer,
)
from dlmon.supervisor.connection import Connection

# So long the other ranks of a data-parallel run wait for rank 0 to begin to train. They train in
# step: the first batch of any ends with the first of all.
LEADER_S = 3.0
TRAINER_RECORDS = (
    *(Trainer, Phase, Model, Batches, BatchSummary),
    *(Metrics, Epoch, Evaluation, NamedPause, Notice, Stack),
    *(FrameworkMemory, OutOfMemory, StepParts, TokenShares),
)
# So long a process that has closed its connection has to make another until a person is told.
RETURN_S = 5.0
# At once; of thousands that load data, these say what they wait for.
MOST_ASKED = 128
# A script may start a thousand interpreters, and each may have something to say.
MAX_NOTICES = 20


class Trainers:
    """Takes the records of all processes of a script, and numbers those that train.

    A process gets the lowest number that no other has at the time, so one that trains after
    another goes on under its number: its epochs and loops count on from there.

    Number 0 is the one that is shown in full: epochs, validation and losses are its own. Of a
    data-parallel run that is rank 0, whichever connects first: the others wait for it for
    `LEADER_S`, and after that the lowest rank of them leads.

    Args:
        write: takes the records.
        notice: takes, in words, what a person should know.
    """

    def __init__(self, write: Callable[[Record], None], notice: Callable[[str], None]) -> None:
        self._write, self._notice = write, notice
        self.gpus: Sequence[GpuFacts] = ()
        """Those of this machine, as NVML knows them."""
        self.options: Mapping[str, Any] = {}
        """Those of the job: what the person who started the script says of its training."""
        self._socket: socket.socket | None = None
        self._connections: dict[int, _Trainer] = {}
        self._folder = Path()
        self._notices = 0
        self._epochs: dict[int, int] = {}
        self._loops: dict[int, int] = {}
        # Those without a connection whose processes go on: they may make another.
        self._away: list[_Trainer] = []
        # Those of other ranks than 0, as long as there is no number 0.
        self._waiting: list[_Trainer] = []
        self._timer: asyncio.TimerHandle | None = None
        self.any_trained = False
        """Whether a process has trained."""
        self.why_not_watched: str | None = None
        """What a process said that can't be watched."""

    def listen(self, path: Path) -> None:
        """Take connections at a path, in a folder of ours alone.

        Raises:
            OSError: no socket can be made there.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))
        self._socket.listen(1024)
        self._folder = path.parent
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def drain(self) -> None:
        """Take what has been sent, and hear no more: what goes on may send for ever."""
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
            connection = _Trainer(peer, self)
            self._connections[connection.fd] = connection

    def take(self, connection: _Trainer, record: Record) -> None:
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
        if connection.trainer is None and isinstance(record, NamedPause):
            # It compiles, and has not trained yet.
            self._write(record)
            return
        if connection.trainer is None:
            self.notice("a process of the script sent records before it said what trains")
            connection.close()
            return
        if connection.number is None:
            connection.held.append(record)
            return
        own, number, epoch = connection.number, connection.number or None, connection.first_epoch
        if isinstance(record, Model):
            loop = connection.first_loop + (record.loop or 0)
            self._loops[own] = loop + 1
            self.any_trained = True
            record = replace(
                with_gpu_number(record, self.gpus),
                trainer=number,
                loop=loop,
                first_epoch=epoch + (record.first_epoch or 0),
                epochs=None if record.epochs is None else record.epochs + epoch,
            )
            record = connection.expected.describe(record)
        elif isinstance(record, (Batches, BatchSummary, Epoch)):
            record = replace(record, trainer=number, epoch=record.epoch + epoch)
            record = connection.expected.with_samples(record)
            if not isinstance(record, Epoch):
                corrected = connection.expected.correct(record)
                if corrected is not None:
                    self._write(corrected)
            self._epochs[own] = max(self._epochs.get(own, 0), record.epoch + 1)
        elif isinstance(record, Phase):
            opened = None if record.epoch is None else record.epoch + epoch
            record = replace(record, trainer=number, epoch=opened)
        elif isinstance(
            record,
            (
                TokenShares,
                Evaluation,
                Metrics,
                NamedPause,
                Stack,
                FrameworkMemory,
                OutOfMemory,
                StepParts,
            ),
        ):
            record = replace(record, trainer=number)
        self._write(record)
        if isinstance(record, Epoch):
            connection.notice_not_numbers(record)

    def _take_trainer(self, trainer: Trainer, connection: _Trainer) -> None:
        connection.trainer = trainer
        connection.pid, connection.rank = trainer.pid, trainer.rank
        connection.stacks_at = self._folder / f"{HELD}{trainer.pid}"
        # Another that had this pid has become this program.
        self._end_away(
            lambda away: (
                not away.is_of(trainer) and (away.pid == trainer.pid or _is_over(away.peer_pid))
            )
        )
        others = [c for c in (*self._connections.values(), *self._away) if c is not connection]
        before = next((c for c in others if c.is_of(trainer)), None)
        if before is not None:
            self._go_on(before, connection)
            return
        leader = next((c for c in others if c.number == 0), None)
        if leader is None and trainer.rank:
            self._waiting.append(connection)
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(LEADER_S, self._wait_no_longer)
            return
        if trainer.rank == 0 and leader is not None:
            other = leader.trainer.rank if leader.trainer is not None else None
            if other:
                self.notice(
                    f"rank 0 began to train after rank {other}: epochs, validation and loss are "
                    f"those of rank {other}"
                )
        self._number(connection)
        self._wait_no_longer()

    def _wait_no_longer(self) -> None:
        """Number those that wait, by their ranks, and write what they sent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        waiting.sort(key=lambda one: (one.trainer and one.trainer.rank) or 0)
        # One may have left already; no other of them gets its number.
        left = [one for one in waiting if one.fd < 0 and one not in self._away]
        for one in waiting:
            self._number(one, left)
            held, one.held = one.held, []
            for record in held:
                self.take(one, record)
        for one in left:
            self._write_end(one)

    def _go_on(self, before: _Trainer, connection: _Trainer) -> None:
        """Take what a process sends on another connection for the rest of what it sent before."""
        before.drain()
        if before in self._away:
            self._away.remove(before)
        connection.go_on_from(before)
        self._waiting = [connection if one is before else one for one in self._waiting]

    def _end_away(self, is_over: Callable[[_Trainer], bool]) -> None:
        """Write the end of each process without a connection that is over."""
        for connection in [away for away in self._away if is_over(away)]:
            self._away.remove(connection)
            self._write_end(connection)

    def _miss(self, connection: _Trainer) -> None:
        """Tell of a process that goes on without a connection."""
        self._end_away(lambda away: _is_over(away.peer_pid))
        if connection in self._away:
            self.notice(
                f"process {connection.pid} closed its connection to dlmon and goes on: what it "
                "trains is not counted until it connects again"
            )

    def _number(self, connection: _Trainer, beside: Iterable[_Trainer] = ()) -> None:
        assert connection.trainer is not None
        others = (*self._connections.values(), *self._away, *beside)
        taken = {other.number for other in others}
        lowest = next(n for n in range(len(taken) + 1) if n not in taken)
        connection.number = lowest
        connection.first_epoch = self._epochs.get(lowest, 0)
        connection.first_loop = self._loops.get(lowest, 0)
        connection.trainer = replace(connection.trainer, number=lowest, ended=None)
        self._write(connection.trainer)

    def processes(self) -> list[Connection]:
        """Return those that may be asked what they do: those that train first, by their numbers."""
        asked: list[Connection] = [c for c in self._connections.values() if c.trainer is not None]
        asked.sort(key=lambda each: each.number or 0)
        others = [each for each in self._connections.values() if each.trainer is None]
        return [*asked, *(one for one in others if one.worker is not None)][:MOST_ASKED]

    def left(self, connection: _Trainer) -> None:
        self._connections.pop(connection.fd, None)
        connection.left_t = time.monotonic_ns()
        if connection.has_ended or connection.trainer is None or _is_over(connection.peer_pid):
            self._write_end(connection)
        else:
            self._away.append(connection)
            asyncio.get_running_loop().call_later(RETURN_S, self._miss, connection)

    def _write_end(self, connection: _Trainer) -> None:
        if connection.trainer is not None and connection.number is not None:
            self._write(replace(connection.trainer, t=connection.left_t, ended=True))

    def notice(self, text: str) -> None:
        self._notices += 1
        if self._notices <= MAX_NOTICES:
            self._notice(text)


def _is_over(pid: int) -> bool:
    """Return whether a process has ended, waited for or not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    # The name in parentheses may hold anything; the state is the first field after it.
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")


def with_gpu_number(model: Model, gpus: Sequence[GpuFacts]) -> Model:
    """Return what trains, with NVML's number of the GPU that its framework names.

    Args:
        model: as a script's process sent it: `device` is cpu, gpu or None.
        gpus: of this machine, as NVML knows them.
    """
    if model.device is None or model.device == "cpu":
        return model
    uuid = model.device_uuid
    # CUDA_VISIBLE_DEVICES may give the first characters of it.
    matches = [gpu for gpu in gpus if uuid and gpu.uuid and gpu.uuid.startswith(uuid)]
    matches = matches or ([] if uuid else list(gpus))
    if len(matches) == 1:
        return replace(model, device=f"gpu:{matches[0].index}")
    why = "its framework does not say which of the GPUs it is"
    if not gpus:
        why = "NVML found no GPU, and the script's framework trains on one"
    elif uuid:
        why = f"NVML knows no GPU {uuid}"
    return replace(model, device=None, why={**model.why, "device": why})


class _Trainer(Connection):
    """One process of the script, as long as it has its socket open."""

    def __init__(self, peer: socket.socket, trainers: Trainers) -> None:
        self._trainers = trainers
        self.held: list[Record] = []
        """What it sent while it waited for a number."""
        self.left_t = 0
        self.has_ended = False
        """Whether it has said that nothing follows."""
        self.first_epoch = self.first_loop = 0
        self.trainer: Trainer | None = None
        self.expected = ExpectedTraining(trainers.options, trainers.notice)
        super().__init__(peer, TRAINER_RECORDS, partial(trainers.take, self), trainers.notice)
        self.peer_pid = self.pid

    def is_of(self, trainer: Trainer) -> bool:
        """Return whether this was a connection of the same process."""
        return self.trainer is not None and replace(self.trainer, number=0) == trainer

    def go_on_from(self, before: _Trainer) -> None:
        """Take over what is known of the process from its connection before."""
        self.trainer, self.number, self.held = before.trainer, before.number, before.held
        self.first_epoch, self.first_loop = before.first_epoch, before.first_loop
        self.expected, self._not_numbers = before.expected, before._not_numbers

    def left(self) -> None:
        self._trainers.left(self)
        super().left()


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
