"""Build the records of a whole session, as a supervisor would have written them.

Everything is computed from fixed times, so the same call gives the same records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dlmon.log.folder import LOG_NAME
from dlmon.protocol.stop import CAUSE_TEXT
from dlmon.records import (
    PHASES,
    SCHEMA,
    Batches,
    Cost,
    Cpu,
    Disk,
    Epoch,
    Evaluation,
    Failure,
    FailureKind,
    Gpu,
    GpuFacts,
    Machine,
    MachineFacts,
    Memory,
    Metrics,
    Model,
    Network,
    Notice,
    Output,
    Phase,
    ProcessTree,
    Record,
    Result,
    SessionHeader,
    Status,
    StopCause,
    Validation,
    encode,
)
from dlmon.session.session import Session
from dlmon.supervisor.verdict import epochs_ended, make_machine_result

RESULT = "result"
BEGIN_NS = 5_000_000_000_000
BEGIN_WALL = 1_795_186_560.0  # 2026-11-20 14:56:00 UTC
HOST, BOOT_ID = "tower", "c0ffee00-0000-4000-8000-000000000001"
FOREIGN_NAME = "[/x] [b]GPU[/b] 漢字 " + "with a name that goes on and on " * 6
NO_DRIVER = "no NVIDIA driver: libnvidia-ml.so.1 was not found"

_FLUSH_US = 250_000
_READ_NS = 1_000_000_000
_COMPILE_US = 1_200_000
_VALIDATION_COMPILE_US = 300_000


@dataclass(frozen=True)
class _Trained:
    """What a workload brings: its sizes, and whether it validates or evaluates."""

    parameters: int
    flops_per_sample: int
    batch_size: int
    samples: int
    validation_samples: int | None = None
    evaluation_samples: int | None = None


_WORKLOADS = {
    "cifar10-cnn": _Trained(1_337_002, 236_302_848, 100, 50_000, validation_samples=1_000),
    "mnist-mlp-small": _Trained(101_770, 407_040, 32, 60_000, evaluation_samples=10_000),
}


def recorded_session(
    reached: str = RESULT,
    *,
    workload: str = "cifar10-cnn",
    epochs: int = 3,
    ended: int | None = None,
    status: str = "completed",
    samples: int | None = None,
    session_id: str | None = None,
    **others: Any,
) -> list[Record]:
    """Return the records of a session, header first, in the order they were written.

    Args:
        reached: the phase that the last record falls in, or "result" for a session that is over.
        workload: cifar10-cnn (validates each epoch) or mnist-mlp-small (evaluates at the end).
        epochs: how many are to be trained.
        ended: how many had ended by then; one before a training phase, all before a result that
            is completed, one before any other. The next one is cut.
        status: completed, failed or stopped.
        samples: of an epoch, where it should not be the workload's own number.
        session_id: an id other than the workload's usual one.
        others: what a `_Recording` has besides.
    """
    if reached not in (*PHASES, RESULT):
        raise ValueError(f"{reached} is no phase")
    if ended is None:
        before_training = reached in PHASES[: PHASES.index("training")]
        last = reached in ("evaluating", "closing")
        whole_run = last or (reached == RESULT and status == "completed")
        ended = epochs if whole_run else 0 if before_training else min(1, epochs)
    trained = _WORKLOADS[workload]
    never = {
        "validating": trained.validation_samples is None,
        "evaluating": trained.evaluation_samples is None,
    }
    if never.get(reached) or (reached in ("training", "validating") and ended >= epochs):
        raise ValueError(f"{workload} has no such {reached}")
    if samples is not None:
        trained = replace(trained, samples=samples)
    return list(
        _written(
            reached,
            ended,
            status,
            workload=workload,
            session_id=session_id or f"20261120-145600-{workload}-7f3a",
            trained=trained,
            epochs=epochs,
            **others,
        )
    )


@lru_cache(maxsize=64, typed=True)
def _written(reached: str, ended: int, status: str, **of_recording: Any) -> tuple[Record, ...]:
    """Return the records of a session, the same ones for the next test that wants such."""
    recording = _Recording(**of_recording)
    recording.run(reached, ended, status)
    return tuple(recording.written(status if reached == RESULT else None))


def recorded_machine(
    seconds: int = 30,
    *,
    status: str | None = "completed",
    for_s: float | None = None,
    energy: bool = False,
    **of_session: Any,
) -> list[Record]:
    """Return the records of a machine that was recorded without a workload.

    Args:
        seconds: how many samples, a second apart.
        status: completed or stopped; None where it still runs.
        for_s: how long it is to last.
        energy: whether the counters of CPU and GPUs are read: 40 and 90 W.
        of_session: gpus, cores, foreign, begin_wall, as of `recorded_session`.
    """
    header, *records = recorded_session(session_id="20261120-145600-machine-7f3a", **of_session)
    assert isinstance(header, SessionHeader)
    options = {"interval": 1.0, "pcie": False, "for_s": for_s}
    versions = {"python": "3.11.7", "dlmon": "0.1.0"}
    header = replace(header, workload="", options=options, versions=versions)
    samples = [replace(r, process=None) for r in records if isinstance(r, Machine)][:seconds]
    assert len(samples) == seconds
    if energy:
        samples = [_with_energy(sample) for sample in samples]
    if status is None:
        return [header, *samples]
    now, log = samples[-1].t + 500_000_000, f"/sessions/{header.id}/{LOG_NAME}"
    use = folded([header, *samples]).machine.use()
    stopped_by = StopCause.COMMAND if status == "stopped" else None
    wall = header.wall + (now - BEGIN_NS) / 1e9
    result = make_machine_result(header, log, use, stopped_by=stopped_by, now_ns=now, wall=wall)
    notice = [] if stopped_by is None else [Notice(now, f"stopping: {CAUSE_TEXT[stopped_by]}")]
    return [header, *samples, *notice, result]


def recorded_host(
    log_dir: Path, host: str, *, begin_s: float = 0.0, session_id: str | None = None, **more: Any
) -> Path:
    """Write the log of a machine that recorded itself, from so many seconds after `BEGIN_WALL` on.

    `more` are arguments of `recorded_machine`; the clock of each machine began at another time.
    """
    header, *records = recorded_machine(begin_wall=BEGIN_WALL + begin_s, **more)
    assert isinstance(header, SessionHeader)
    id = session_id or f"20261120-145600-machine-{host}"
    header = replace(header, id=id, host=host, boot_id=f"boot of {host}")
    return write_log(log_dir, [header, *records])


def _with_energy(sample: Machine) -> Machine:
    assert sample.cpu is not None
    second = (sample.t - BEGIN_NS) / 1e9
    gpus = tuple(replace(gpu, energy_j=90 * second) for gpu in sample.gpus or ())
    return replace(sample, cpu=replace(sample.cpu, energy_j=40 * second), gpus=gpus or None)


def folded(records: Sequence[Record]) -> Session:
    """Return the session that records, header first, fold into."""
    header = records[0]
    assert isinstance(header, SessionHeader)
    session = Session(header)
    for record in records[1:]:
        session.add(record)
    return session


def write_log(log_dir: Path, records: Sequence[Record], folder: str | None = None) -> Path:
    """Write a log as a supervisor that has ended left it; return its path.

    Its folder has the name of the session, unless it is given another.
    """
    header = records[0]
    assert isinstance(header, SessionHeader)
    path = log_dir / (folder or header.id) / LOG_NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(encode(record) for record in records))
    return path


@dataclass
class _Recording:
    """A clock that moves through a run, and what was written on the way.

    Attributes:
        cut_after: batches of the epoch that is cut; half of them where it isn't given.
        gpus: how many; 0 is a machine without a driver.
        cores: how many the CPU has.
        step_us: the time of a usual batch; one batch in fifty takes a little longer.
        steps_cap: batches of an epoch at most, as by `--steps`.
        nan_loss: the loss is NaN from the second epoch on.
        silent_s: how long before the end the sensors fell silent.
        foreign: long names full of markup from the machine, the host and the output.
        begin_wall: Unix seconds of the first record.
        data: real or synthetic.
        first_loss: the loss after the first epoch.
    """

    workload: str
    session_id: str
    trained: _Trained
    epochs: int
    cut_after: int | None = None
    gpus: int = 1
    cores: int = 8
    step_us: int = 18_000
    steps_cap: int | None = None
    nan_loss: bool = False
    silent_s: float = 0.0
    foreign: bool = False
    begin_wall: float = BEGIN_WALL
    data: str = "synthetic"
    first_loss: float = 1.8

    def __post_init__(self) -> None:
        self.header = self._header()
        self._now = BEGIN_NS
        self._sent: list[tuple[int, Record]] = []
        self._phases: list[tuple[int, str]] = []
        self._batch = 0
        self._validated = False

    def run(self, reached: str, ended: int, status: str) -> None:
        """Go through the run as far as `reached`."""
        for phase, took_ms in (("importing", 2_600), ("loading", 150), ("building", 400)):
            self._enter(phase)
            self._pass(took_ms * 500)
            if phase == reached:
                return
            self._pass(took_ms * 500)
        self._send(self._model())
        self._enter("compiling")
        if reached == "compiling":
            self._pass(_COMPILE_US // 2)
            return
        for epoch in range(ended):
            self._epoch(epoch)
        if reached == "closing":
            self._enter("closing")
            self._pass(1_300_000)
            return
        if ended < self.epochs and reached not in ("evaluating", RESULT):
            self._cut_epoch(ended, reached)
            return
        if status == "completed":
            if self.trained.evaluation_samples:
                self._evaluate(cut=reached == "evaluating")
        else:
            if ended < self.epochs:
                self._cut_epoch(ended, "training", stopped=status == "stopped")
            if status == "failed":
                self._fail()
        self._pass(80_000)

    def written(self, status: str | None) -> list[Record]:
        """Return all records in order of their writing, with a result for a `status`."""
        silent_from = self._now - int(self.silent_s * 1e9)
        samples = [(s.t, s) for s in self._samples() if self.silent_s == 0 or s.t <= silent_from]
        if self.silent_s:
            lost = "the sensors gave no sample for 3 s; they are started again"
            at = min(self._now, silent_from + 3_000_000_000)
            self._sent.append((at, Notice(at, f"{lost}, training is not affected")))
        in_order = sorted([*self._sent, *samples], key=lambda written: written[0])
        records: list[Record] = [self.header, *(record for _, record in in_order)]
        if status is not None:
            records.append(self._result(records, status))
        return records

    def _header(self) -> SessionHeader:
        return SessionHeader(
            schema=SCHEMA,
            id=self.session_id,
            host=FOREIGN_NAME if self.foreign else HOST,
            boot_id=BOOT_ID,
            t=BEGIN_NS,
            wall=self.begin_wall,
            workload=self.workload,
            options={
                "workload": self.workload,
                "epochs": self.epochs,
                "steps": self.steps_cap,
                "interval": 1.0,
            },
            machine=self._facts(),
            versions={
                "python": "3.11.7",
                "backend": "tensorflow",
                "dlmon": "0.1.0",
                "keras": "3.15.0",
                "backend_version": "2.21.0",
            },
        )

    def _pass(self, us: int) -> None:
        self._now += us * 1000

    def _send(self, record: Record) -> None:
        self._sent.append((self._now, record))

    def _enter(self, phase: str) -> None:
        self._phases.append((self._now, phase))
        self._send(Phase(self._now, phase))

    def _say(self, text: str) -> None:
        self._send(Output(self._now, "stdout", text))

    def _model(self) -> Model:
        trained = self.trained
        return Model(
            parameters=trained.parameters,
            flops_per_sample=trained.flops_per_sample,
            batch_size=trained.batch_size,
            samples_per_epoch=trained.samples,
            steps_per_epoch=self._steps_in(trained.samples) or 0,
            epochs=self.epochs,
            validation_steps=self._steps_in(trained.validation_samples),
            validation_samples=trained.validation_samples,
            evaluation_steps=self._steps_in(trained.evaluation_samples),
            steps_cap=self.steps_cap,
            data=self.data,
            device="gpu:0" if self.gpus else "cpu",
            device_name=self._gpu_name() if self.gpus else None,
            backend="tensorflow",
            backend_version="2.21.0",
            keras_version="3.15.0",
        )

    def _steps_in(self, samples: int | None) -> int | None:
        return -(-samples // self.trained.batch_size) if samples else None

    def _epoch(self, epoch: int) -> None:
        self._say(f"Epoch {epoch + 1}/{self.epochs}")
        if self.foreign:
            self._say(FOREIGN_NAME)
        begin = self._now
        if epoch:
            self._enter("training")
        done = self._train(epoch, self._due())
        train_end = self._now
        validation = self._validate() if self.trained.validation_samples else None
        self._end_epoch(epoch, begin, train_end, done, validation, whole=self.steps_cap is None)

    def _cut_epoch(self, epoch: int, reached: str, stopped: bool = False) -> None:
        begin = self._now
        self._say(f"Epoch {epoch + 1}/{self.epochs}")
        if reached == "opening":
            self._phases.append((self._now, "opening"))
            self._send(Phase(self._now, "opening", epoch))
            self._pass(2_100_000)
            return
        if epoch:
            self._enter("training")
        if reached == "validating":
            self._train(epoch, self._due())
            self._enter("validating")
            self._pass(60_000)
            return
        cut_after = self._due() // 2 if self.cut_after is None else self.cut_after
        done = self._train(epoch, cut_after)
        if stopped:
            self._send(Notice(self._now, "stopping: asked by its viewer"))
            self._end_epoch(epoch, begin, self._now, done, None, whole=False)

    def _due(self) -> int:
        steps = self._steps_in(self.trained.samples) or 0
        return min(steps, self.steps_cap or steps)

    def _train(self, epoch: int, steps: int) -> int:
        """Train so many batches, reported four times a second; return how many."""
        packed: list[int] = []
        packed_us = 0
        read_ns = 0
        first = first_end = 0
        for step in range(steps):
            took_us = self._step_time_us()
            self._pass(took_us)
            if self._batch == 1:
                self._enter("training")
            if not packed:
                first, first_end = step, self._now
            packed.append(took_us)
            packed_us += took_us
            if self._now - read_ns >= _READ_NS:
                read_ns = self._now
                self._read(epoch, step / max(1, self._due()))
            if packed_us >= _FLUSH_US or step == steps - 1:
                sizes = self._sizes(first, len(packed))
                self._send(Batches(epoch, first, sizes, first_end, tuple(packed)))
                packed, packed_us = [], 0
        return steps

    def _loss(self, epoch: int) -> float:
        return round(self.first_loss / (epoch + 1), 4)

    def _read(self, epoch: int, share: float) -> None:
        """Report the metrics of an epoch of which that share has passed."""
        before, after = 2.3 if epoch == 0 else self._loss(epoch - 1), self._loss(epoch)
        is_nan = self.nan_loss and epoch > 0
        loss = None if is_nan else round(after + (before - after) * (1 - share) ** 3, 4)
        accuracy = round(1 - 0.6 / (epoch + 0.4 + 0.6 * share), 4)
        why = {"loss": "NaN"} if is_nan else {}
        self._send(Metrics(self._now, {"accuracy": max(0.0, accuracy), "loss": loss}, why=why))

    def _step_time_us(self) -> int:
        self._batch += 1
        jitter_us = (self._batch * 7919 % 11 - 5) * self.step_us // 300
        slower_us = self.step_us // 2 if self._batch % 50 == 0 else 0
        compile_us = _COMPILE_US if self._batch == 1 else 0
        return self.step_us + jitter_us + slower_us + compile_us

    def _sizes(self, first: int, count: int) -> int | tuple[int, ...]:
        batch_size = self.trained.batch_size
        left = [self.trained.samples - step * batch_size for step in range(first, first + count)]
        sizes = tuple(min(batch_size, samples) for samples in left)
        return sizes[0] if len(set(sizes)) == 1 else sizes

    def _validate(self) -> Validation:
        self._enter("validating" if self._validated else "compiling")
        begin = self._now
        self._pass(self.step_us // 3 + (0 if self._validated else _VALIDATION_COMPILE_US))
        first_end = self._now
        if not self._validated:
            self._validated = True
            self._enter("validating")
        steps = self._steps_in(self.trained.validation_samples) or 0
        steps = min(steps, self.steps_cap or steps)
        self._pass(self.step_us // 3 * (steps - 1))
        last_end = self._now
        self._pass(3_000)
        return Validation(begin, first_end, last_end, self._now, steps)

    def _end_epoch(
        self,
        epoch: int,
        begin: int,
        train_end: int,
        steps: int,
        validation: Validation | None,
        whole: bool,
    ) -> None:
        loss = None if self.nan_loss and epoch else self._loss(epoch)
        metrics = {"accuracy": round(1 - 0.6 / (epoch + 1), 4), "loss": loss}
        why = {} if loss is not None else {"loss": "NaN"}
        if validation is not None:
            metrics |= {"val_accuracy": round(1 - 0.65 / (epoch + 1), 4), "val_loss": loss}
            why |= {} if loss is not None else {"val_loss": "NaN"}
        self._pass(4_000)
        samples = min(steps * self.trained.batch_size, self.trained.samples)
        self._send(
            Epoch(
                epoch=epoch,
                begin=begin,
                train_end=train_end,
                end=self._now,
                whole=whole,
                samples=samples,
                metrics=metrics,
                steps=steps,
                validation=validation,
                why=why,
            )
        )
        loss_text = "nan" if loss is None else loss
        self._say(f"{steps}/{steps} - {(self._now - begin) / 1e9:.0f}s - loss: {loss_text}")

    def _evaluate(self, cut: bool) -> None:
        self._enter("evaluating")
        begin = self._now
        samples = self.trained.evaluation_samples or 0
        if self.steps_cap is not None:
            samples = min(samples, self.steps_cap * self.trained.batch_size)
        steps = self._steps_in(samples) or 0
        self._pass(self.step_us // 3 * (steps // 2 if cut else steps))
        if not cut:
            metrics: dict[str, float | None] = {"accuracy": 0.974, "loss": 0.083}
            whole = self.steps_cap is None
            self._send(Evaluation(begin, self._now, steps, samples, whole, metrics))

    def _fail(self) -> None:
        error = "memory ran out with batch size 100 (ResourceExhaustedError: OOM when allocating)"
        if self.foreign:
            error = FOREIGN_NAME
        for text in ("Traceback (most recent call last):", "  in fit", error):
            self._send(Output(self._now, "stderr", text))
        self._send(Failure(self._now, error, FailureKind.OUT_OF_MEMORY))

    def _result(self, records: Sequence[Record], status: str) -> Result:
        snapshot = folded(records).snapshot(self._now)
        failures = [record for record in records if isinstance(record, Failure)]
        return Result(
            status=Status(status),
            session=self.header.id,
            log=f"/sessions/{self.header.id}/{LOG_NAME}",
            workload=self.header.workload,
            device=snapshot.model.device if snapshot.model else None,
            device_name=snapshot.model.device_name if snapshot.model else None,
            data=snapshot.model.data if snapshot.model else None,
            options=self.header.options,
            wall_s=snapshot.elapsed_s,
            seconds_per_epoch=snapshot.seconds_per_epoch,
            run_seconds=snapshot.run_seconds,
            samples_per_second=snapshot.samples_per_second,
            step_ms=snapshot.step_ms,
            compile_s=snapshot.compile_s,
            validation_compile_s=snapshot.validation_compile_s,
            error=failures[-1].text if failures else None,
            failure=failures[-1].kind if failures else None,
            exit_code={"completed": 0, "failed": 1}.get(status, 75),
            epochs=epochs_ended(snapshot.epochs, Status(status)),
            batches=snapshot.batches,
            stalls=snapshot.stalls,
            samples_per_epoch=snapshot.model.samples_per_epoch if snapshot.model else None,
            lacking=snapshot.lacking or None,
            t=self._now,
            wall=self._wall_at(self._now),
            why=snapshot.why,
        )

    def _wall_at(self, t: int) -> float:
        return round(self.header.wall + (t - BEGIN_NS) / 1e9, 2)

    def _gpu_name(self) -> str:
        return FOREIGN_NAME if self.foreign else "NVIDIA GeForce GTX 1060 6GB"

    def _facts(self) -> MachineFacts:
        gpus = tuple(
            GpuFacts(
                *(index, self._gpu_name(), f"GPU-00000000-{index:04}", 6_144), sm_max_mhz=1_911
            )
            for index in range(self.gpus)
        )
        return MachineFacts(
            cpu_model=FOREIGN_NAME if self.foreign else "Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz",
            cores=self.cores,
            physical_cores=max(1, self.cores // 2),
            memory_mib=32_768,
            swap_mib=2_048,
            gpus=gpus or None,
            driver="550.54.14" if gpus else None,
            cuda="12.4" if gpus else None,
            load_1m=0.4,
            cpu_pct=3.0,
            foreign_gpu_processes=0 if gpus else None,
            governor="performance",
            on_battery=False,
            why={} if gpus else {"gpus": NO_DRIVER, "driver": NO_DRIVER},
        )

    def _samples(self) -> list[Machine]:
        """Return a sample a second; what changes slowly is sent once."""
        at = range(BEGIN_NS + 200_000_000, self._now + 1, 1_000_000_000)
        return [self._sample(number, t) for number, t in enumerate(at)]

    def _sample(self, number: int, t: int) -> Machine:
        entered = [phase for since, phase in self._phases if since <= t]
        busy = bool(entered) and entered[-1] in ("training", "validating", "evaluating")
        first = number == 0
        cpu_pct = (38.0 if busy else 14.0) + number * 7 % 5
        return Machine(
            t=t,
            wall=self._wall_at(t),
            cpu=Cpu(
                pct=cpu_pct,
                cores=tuple(int(min(100, cpu_pct + 13 * core % 40)) for core in range(self.cores)),
                mhz=4_600 if first else None,
                temperature_c=58.0 if first else None,
            ),
            memory=Memory(
                used_mib=5_200 + number % 3,
                swap_used_mib=0 if first else None,
                swap_mib_s=0.0 if first else None,
            ),
            disk=Disk(read_mib_s=0.5, write_mib_s=0.1),
            network=Network(receive_mib_s=0.01, send_mib_s=0.02),
            process=ProcessTree(
                cpu_pct=cpu_pct * self.cores * 0.9,
                busiest_thread_pct=96.0 if busy else 40.0,
                rss_mib=1_900,
                processes=1 if first else None,
                threads=42 if first else None,
            ),
            gpus=tuple(self._gpu(index, number, busy) for index in range(self.gpus)) or None,
            cost=Cost(cpu_ms=2.4, late_ms=0.1),
            why={"gpus": NO_DRIVER} if first and not self.gpus else {},
        )

    def _gpu(self, index: int, number: int, busy: bool) -> Gpu:
        first = number == 0
        trains = busy and index == 0
        fanless = index == 1
        return Gpu(
            index=index,
            utilization_pct=96 + number % 3 if trains else 0,
            memory_used_mib=(4_850 if index == 0 else 3) if first else None,
            power_w=None if fanless else 118.0 if trains else 9.5,
            power_limit_w=120.0 if first and not fanless else None,
            temperature_c=61 if trains else 34,
            sm_mhz=1_860 if trains else 139,
            memory_mhz=4_004 if first else None,
            throttle=("power cap",) if trains else (),
            why={"power_w": "not supported", "power_limit_w": "not supported"}
            if fanless and first
            else {},
        )
