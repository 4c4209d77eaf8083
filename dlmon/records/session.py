"""The records of a session: its header, its result, and the events between them."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from dlmon.records.machine import MachineFacts, MachineUse
from dlmon.records.record import record
from dlmon.records.words import (
    SAMPLES_PER_S,
    STEPS_PER_S,
    AlertEvent,
    FailureKind,
    Requirement,
    StandardInput,
    Status,
    StopCause,
)


@record(frozen=True)
class SlurmJob:
    """The allocation of a Slurm job, on all its nodes together; null if Slurm doesn't report it.

    Attributes:
        job: id, with an array task's number as in `123_4`.
        partition: its partition.
        node_list: its nodes, in Slurm's notation.
        nodes: nodes.
        cpus: CPUs.
        memory_mib: memory.
        gpus: GPUs.
        time_limit_s: time limit.
        end_wall: end of the limit in Unix seconds, as known at the start.
    """

    job: str
    partition: str | None = None
    node_list: str | None = None
    nodes: int | None = None
    cpus: int | None = None
    memory_mib: float | None = None
    gpus: int | None = None
    time_limit_s: float | None = None
    end_wall: float | None = None


@record(frozen=True)
class SessionHeader:
    """The first line of a log: the run, its machine and its options.

    Attributes:
        schema: version of this format, 1.
        id: the session's id, its folder's name.
        host: host's name.
        boot_id: kernel's id of this boot; times of different boots can't be compared.
        workload: its name in `dlmon list`, or the script's file name; empty for `dlmon watch
            --record`.
        options: options of the run, with the workload's defaults; for a recording, `interval`,
            `pcie` and `for_s`, its length or null.
        machine: the machine's facts.
        versions: dlmon, python, keras and the backend; `backend` is its name.
        command: words of a script's command.
        directory: its working directory.
        script_sha256: SHA-256 of the script's file at the start.
        git_commit: commit of the repository of that file, else of `directory`; without uncommitted
            changes.
        script_path: path of that file, with links resolved.
        git_repository: URL that it was cloned from, without user and password, else the path of its
            `.git`.
        git_path: the file's path in it.
        node: Slurm's name of the machine, in a job step.
        slurm: its Slurm job.
        injected: what `--set` changed in the script, such as `num_workers`.
        standard_input: kind of the script's standard input.
        sweep: id of its sweep or pairs.
    """

    TYPE: ClassVar[str] = "session"
    schema: int
    id: str
    host: str
    boot_id: str
    t: int
    wall: float
    workload: str
    options: dict[str, Any]
    machine: MachineFacts
    versions: dict[str, Any]
    command: tuple[str, ...] | None = None
    directory: str | None = None
    script_sha256: str | None = None
    git_commit: str | None = None
    script_path: str | None = None
    git_repository: str | None = None
    git_path: str | None = None
    node: str | None = None
    slurm: SlurmJob | None = None
    injected: dict[str, str | int | float] = field(default_factory=dict)
    standard_input: StandardInput | None = None
    sweep: str | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def is_script(self) -> bool:
        return self.command is not None

    @property
    def settings(self) -> dict[str, Any]:
        """The options, and the injections as `set:NAME`."""
        return self.options | {f"set:{name}": value for name, value in self.injected.items()}

    @property
    def is_machine_recording(self) -> bool:
        return not self.workload


@record(frozen=True)
class Facts:
    """The facts from a sensors process, sent at its start and when a GPU appears later.

    The supervisor puts the first into the header and writes later ones to the log; the newest
    counts.

    Attributes:
        host: its name.
        machine: the host's facts.
    """

    TYPE: ClassVar[str] = "facts"
    t: int
    wall: float
    host: str
    machine: MachineFacts


@record(frozen=True)
class Output:
    """One line that the workload printed.

    Attributes:
        stream: stdout or stderr.
        text: line, without its line end.
        left_out: lines before it that were dropped.
    """

    TYPE: ClassVar[str] = "output"
    t: int
    stream: str
    text: str
    left_out: int | None = None


@record(frozen=True)
class Suspended:
    """A time in which all processes of the run were suspended (SIGSTOP), as its viewer asked.

    Written when they are suspended, and again when they continue. No figure includes that time.

    Attributes:
        t: its start.
        until: its end; absent while it lasts.
    """

    TYPE: ClassVar[str] = "suspended"
    t: int
    until: int | None = None


@record(frozen=True)
class Notice:
    """A message for the user.

    Attributes:
        text: a sentence.
        stops: true if it asked the run to end.
    """

    TYPE: ClassVar[str] = "notice"
    t: int
    text: str
    stops: bool | None = None


@record(frozen=True)
class Imported:
    """The files of its repository that a script has imported; the last record counts.

    Only experiments with commits ask for it.

    Attributes:
        files: paths from the repository's folder.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "imported"
    t: int
    files: tuple[str, ...]
    trainer: int | None = None


@record(frozen=True)
class Injection:
    """The outcome of an injection in a process of the script; the last record of a name counts.

    Attributes:
        name: its name, as in the header's `injected`.
        applied: whether the process runs with it.
        times: objects or calls that it was set in.
        reason: why it is not applied, or not everywhere.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "injection"
    t: int
    name: str
    applied: bool
    times: int
    reason: str | None = None
    trainer: int | None = None


@record(frozen=True)
class TrackerRun:
    """A run that the script itself records in an experiment tracker while it trains.

    Attributes:
        tracker: wandb, mlflow, trackio or tensorboard.
        id: the run's id; null for TensorBoard, whose run is a folder.
        place: its project, W&B's after the entity; TensorBoard's folder.
        name: its name, of trackio.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "tracker_run"
    t: int
    tracker: str
    id: str | None = None
    place: str | None = None
    name: str | None = None
    trainer: int | None = None


@record(frozen=True)
class Alert:
    """An alert that was sent, if alerts are on.

    Attributes:
        event: finished, failed, nan, stalled, slower, gpu_idle, gpu_lost, gpu_hot, gpu_error, disk,
            host_lost, memory or unknown.
        text: a sentence.
        since: its start.
        over: whether it is over.
        figures: measured figures, in words.
        gpu: the GPU's number.
    """

    TYPE: ClassVar[str] = "alert"
    t: int
    event: AlertEvent
    text: str
    since: int
    over: bool
    figures: tuple[str, ...]
    gpu: int | None = None


@record(frozen=True)
class Failure:
    """A workload's report of its own failure.

    Attributes:
        text: a sentence.
        kind: refused, out_of_memory, exception, killed, signal, not_started or unknown.
    """

    TYPE: ClassVar[str] = "failure"
    t: int
    text: str
    kind: FailureKind | None = None


@record(frozen=True)
class SecondsPerEpoch:
    """Wall time of the mean whole epoch, validation included.

    Attributes:
        value: mean, or a projection of it.
        low: lower end of the 95 % interval of the mean, or of its projection; a single epoch may
            lie outside.
        high: its upper end.
        epochs: whole epochs that it is computed from.
        projected: true if no whole epoch was measured.
        first_left_out: whether the first epoch, which compiles or sets up, is excluded.
        left_out: excluded epochs, if others are too: a network like the first one compiled in them.
        median: median of three or more.
        slow: epochs that took over 1.5 times the median.
        longest: the longest epoch.
    """

    value: float
    low: float | None
    high: float | None
    epochs: int
    projected: bool
    first_left_out: bool = False
    left_out: int | None = None
    median: float | None = None
    slow: int | None = None
    longest: float | None = None

    @property
    def is_first_epoch(self) -> bool:
        """True if it is the time of the first epoch alone."""
        return self.epochs == 1 and not self.first_left_out and not self.projected


@record(frozen=True)
class RunSeconds:
    """Wall time of build, every epoch and the final evaluation.

    Attributes:
        value: wall time, or a projection of it.
        low: lower end of the 95 % interval of a projection; null for a measured run, as the
            variation between runs is unknown.
        high: its upper end.
        projected: whether it is a projection.
    """

    value: float
    low: float | None
    high: float | None
    projected: bool


@record(frozen=True)
class Throughput:
    """Steady-state throughput.

    Attributes:
        median: that of the median step.
        mean: samples divided by time.
        standard_error: the mean's, with noise that lasts for seconds.
        jitter: 1.4826 × MAD over batches.
        band: half-width of the mean's 95 % interval.
        unit: samples/s, steps/s (a script's batches have no known size) or tokens/s.
    """

    median: float
    mean: float
    standard_error: float | None
    jitter: float
    band: float | None = None
    unit: str = SAMPLES_PER_S


@record(frozen=True)
class RateNow:
    """The throughput at one moment, per second.

    Attributes:
        per_second: its number.
        unit: samples/s, steps/s or tokens/s.
    """

    per_second: float
    unit: str


@record(frozen=True)
class StepTime:
    """Steady-state time of a batch in milliseconds.

    Attributes:
        median: median.
        p95: 95 % quantile; null for fewer than 20 batches.
        mean: mean.
    """

    median: float
    p95: float | None
    mean: float | None = None


@record(frozen=True)
class LoopResult:
    """The result of the loops of a script that train the same network on as many samples.

    Attributes:
        network: its name, if known.
        parameters: weights and biases.
        batch_size: samples in a batch.
        samples_per_epoch: samples in a whole epoch.
        count: loops merged into this one.
        epochs: epochs that ended.
        batches: training batches that ended.
        train_s: their time.
        seconds_per_epoch: as in the result.
        samples_per_second: as in the result.
        step_ms: as in the result.
        counts_steps: as in the result.
        headline: true for the loop with the most time in batches; its figures are in the result.
        tokens_per_second: as in the result.
    """

    network: str | None = None
    parameters: int | None = None
    batch_size: int | None = None
    samples_per_epoch: int | None = None
    count: int = 1
    epochs: int = 0
    batches: int = 0
    train_s: float = 0.0
    seconds_per_epoch: SecondsPerEpoch | None = None
    samples_per_second: Throughput | None = None
    step_ms: StepTime | None = None
    counts_steps: bool | None = None
    headline: bool | None = None
    tokens_per_second: Throughput | None = None


@record(frozen=True)
class Result:
    """The last line of a log, and what `--json` prints.

    Attributes:
        status: completed, failed or stopped.
        session: its id.
        log: its log's path.
        workload: as in the header.
        device: cpu, gpu:N by its number, or gpu:N+M.
        options: as in the header.
        wall_s: wall time of the session.
        seconds_per_epoch: wall time of an epoch.
        run_seconds: wall time of the whole run.
        samples_per_second: throughput.
        step_ms: time of a batch.
        compile_s: extra time of first batches, for each batch size, over a usual one: mostly
            compilation; not with PyTorch.
        devices: devices that shared each batch, if several.
        device_name: product's name; for several GPUs, after their number.
        data: real or synthetic.
        error: why it failed, in words.
        failure: refused, out_of_memory, exception, killed, signal, not_started or unknown.
        exit_code: the workload's; if negative, the signal that ended it.
        epochs: epochs that ended.
        batches: training batches that ended.
        stalls: steps, and starts of epochs, that took over ten times the median step, without steps
            that regularly take long.
        opening_stalls: starts of epochs among them.
        energy_j_per_epoch: joules by "gpu" and "cpu".
        cost_usd: price × wall time.
        effective_flop_s: operations per sample, or token, × mean rate.
        peak_share: `effective_flop_s` as a share (0 to 1) of the peak of all devices in that
            precision: MFU.
        samples_per_epoch: samples in a whole epoch.
        lacking: what a null figure requires, by its name: model (it was not built) or steady_state.
        name: name that a person gave.
        account: time breakdown, the seconds of `wall_s` in each part: startup, loading, building,
            compiling, training, stalls, between_steps, openings, data_wait, validation, evaluation,
            checkpoint, garbage, gaps, closing and script. For a script, startup is the time before
            it first trains (older logs count it as script), and script the time between its loops
            and after them.
        valid: true without warnings in `against`.
        against: warnings, by code: too_short, not_steady, stalls, throttled, gpu_shared,
            cpu_shared, busy_at_start, on_battery, steal, inferred_samples or nan_loss.
        machine: use of the machine, for a recording.
        counts_steps: true for steps/s, for older readers.
        validation_compile_s: the part of `compile_s` in the first validation.
        loops: a script's loops, if several; the hundred that took most time.
        stopped_by: live_screen, other_screen, ctrl_c, command, sweep, terminal_closed,
            viewer_terminated, viewer_gone or signal; for a Slurm job also time_limit, preempted,
            requeued or cancelled.
        tokens_per_second: tokens, with padding.
        not_padding: share (0 to 1) of tokens that are not padding, from about one batch a second.
        trained_on: share with labels, likewise.
        hardware_share: `peak_share` with recomputation in the backward pass: HFU.
        peak_from: measured, or the device's maker.
        peak_precision: float32, tf32, bfloat16 or float16.
    """

    TYPE: ClassVar[str] = "result"
    status: Status
    session: str
    log: str
    workload: str
    device: str | None
    options: dict[str, Any]
    wall_s: float
    seconds_per_epoch: SecondsPerEpoch | None = None
    run_seconds: RunSeconds | None = None
    samples_per_second: Throughput | None = None
    step_ms: StepTime | None = None
    compile_s: float | None = None
    device_name: str | None = None
    data: str | None = None
    error: str | None = None
    failure: FailureKind | None = None
    exit_code: int | None = None
    epochs: int | None = None
    batches: int | None = None
    stalls: int | None = None
    opening_stalls: int | None = None
    energy_j_per_epoch: dict[str, float] | None = None
    cost_usd: float | None = None
    effective_flop_s: float | None = None
    peak_share: float | None = None
    samples_per_epoch: int | None = None
    lacking: dict[str, Requirement] | None = None
    name: str | None = None
    account: dict[str, float] | None = None
    valid: bool | None = None
    against: dict[str, str] | None = None
    t: int | None = None
    wall: float | None = None
    machine: MachineUse | None = None
    counts_steps: bool | None = None
    validation_compile_s: float | None = None
    stopped_by: StopCause | None = None
    loops: tuple[LoopResult, ...] | None = None
    devices: int | None = None
    tokens_per_second: Throughput | None = None
    not_padding: float | None = None
    trained_on: float | None = None
    hardware_share: float | None = None
    peak_from: str | None = None
    peak_precision: str | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def throughput_unit(self) -> str:
        """The unit of `samples_per_second`, also if that is unknown."""
        return STEPS_PER_S if self.counts_steps else SAMPLES_PER_S
