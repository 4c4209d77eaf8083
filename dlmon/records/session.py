"""The records of a session: its header, its result, and the events between them."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from dlmon.records.machine import MachineFacts, MachineUse
from dlmon.records.record import record
from dlmon.records.words import AlertEvent, FailureKind, Requirement, Status, StopCause


@record(frozen=True)
class SlurmJob:
    """The allocation of a Slurm job, on all its nodes together; null if Slurm doesn't report it.

    Attributes:
        job: the job's id, with an array task's number as in `123_4`.
        partition: the partition that it ran in.
        node_list: its nodes, in Slurm's notation.
        nodes: the number of nodes.
        cpus: the number of CPUs.
        memory_mib: memory.
        gpus: the number of GPUs.
        time_limit_s: the time limit.
        end_wall: the end of the time limit in Unix seconds, as known at the start.
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
        schema: the version of this format, 1.
        id: the session's id, which is also the name of its folder.
        host: the host's name.
        boot_id: the kernel's id of this boot; times of different boots can't be compared.
        workload: the workload's name, as in `dlmon list`, or a script's file name; empty for a
            machine recording (`dlmon watch --record`).
        options: the options of the run, with the workload's defaults filled in; for a recording,
            `interval`, `pcie` and `for_s`, its length in seconds or null.
        machine: the machine's facts.
        versions: the versions of dlmon, python, keras and the backend; `backend` is its name.
        command: the words of a script's command (`dlmon exec`).
        directory: the working directory of the script.
        script_sha256: the SHA-256 of the script's file at the start, in hexadecimal; older logs
            lack it.
        git_commit: the commit checked out in the repository of that file or, if no file is known,
            of `directory`; uncommitted changes are not part of it. Older logs lack it.
        script_path: the path of that file, with links resolved; older logs lack it.
        git_repository: the URL that the repository was cloned from, without user and password, else
            the path of its `.git` folder; older logs lack it.
        git_path: the path of that file within its repository; older logs lack it.
        node: Slurm's name of the machine, if the session runs in a job step.
        slurm: the Slurm job, if the session runs in one.
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
    why: dict[str, str] = field(default_factory=dict)

    @property
    def is_script(self) -> bool:
        return self.command is not None

    @property
    def is_machine_recording(self) -> bool:
        return not self.workload


@record(frozen=True)
class Facts:
    """The facts from a sensors process, sent at its start and when a GPU appears later.

    The supervisor puts the first into the header and writes later ones to the log; the newest
    counts.

    Attributes:
        host: the host's name.
        machine: the machine's facts.
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
        text: the line, without its line end.
        left_out: the number of lines before it that were dropped.
    """

    TYPE: ClassVar[str] = "output"
    t: int
    stream: str
    text: str
    left_out: int | None = None


@record(frozen=True)
class Notice:
    """A message for the user.

    Attributes:
        text: a sentence.
    """

    TYPE: ClassVar[str] = "notice"
    t: int
    text: str


@record(frozen=True)
class Alert:
    """An alert that was sent, if alerts are on.

    Attributes:
        event: the event: finished, failed, nan, stalled, slower, gpu_idle, gpu_lost, gpu_hot,
            gpu_error, disk, host_lost, memory or unknown.
        text: a sentence.
        since: the start of the event.
        over: whether the event is over.
        figures: the measured figures, in words.
        gpu: NVML's number of the GPU that it is about.
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
        kind: the kind of failure: refused, out_of_memory, exception, killed, signal, not_started or
            unknown.
    """

    TYPE: ClassVar[str] = "failure"
    t: int
    text: str
    kind: FailureKind | None = None


@record(frozen=True)
class SecondsPerEpoch:
    """Wall time of the mean whole epoch, validation included.

    Attributes:
        value: the mean, or a projection of it.
        low: the lower end of the 95 % interval of the mean, or of its projection; a single epoch
            may lie outside. Null if the interval is unknown.
        high: its upper end.
        epochs: the number of whole epochs that the value is computed from.
        projected: true if no whole epoch was measured, and the value is a projection.
        first_left_out: whether the first epoch, which compiles or sets up, is excluded.
        left_out: the number of excluded epochs, if others than the first are excluded too: those in
            which another network like the first one compiled.
        median: the median of three or more epochs.
        slow: the number of epochs that took over 1.5 times the median.
        longest: the duration of the longest epoch.
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


@record(frozen=True)
class RunSeconds:
    """Wall time of build, every epoch and the final evaluation.

    Attributes:
        value: the wall time, or a projection of it.
        low: the lower end of the 95 % interval of a projection, from its remaining time. Null for a
            measured run: the variation between runs is unknown.
        high: its upper end.
        projected: whether it is a projection.
    """

    value: float
    low: float | None
    high: float | None
    projected: bool


@record(frozen=True)
class SamplesPerSecond:
    """Steady-state throughput.

    Attributes:
        median: the throughput of the median step.
        mean: samples divided by time.
        standard_error: the standard error of the mean, with noise that lasts for seconds.
        jitter: 1.4826 × MAD over batches.
        band: the half-width of the mean's 95 % interval.
    """

    median: float
    mean: float
    standard_error: float | None
    jitter: float
    band: float | None = None


@record(frozen=True)
class StepTime:
    """Steady-state time of a batch in milliseconds.

    Attributes:
        median: the median.
        p95: the 95 % quantile; null for fewer than 20 batches, for which it would be the longest.
        mean: the mean; older logs lack it.
    """

    median: float
    p95: float | None
    mean: float | None = None


@record(frozen=True)
class LoopResult:
    """The result of the loops of a script that train the same network on as many samples.

    Attributes:
        network: the name of the network, if known.
        parameters: the number of its weights and biases.
        batch_size: samples in a batch.
        samples_per_epoch: samples in a whole epoch.
        count: the number of the script's loops that were merged into this one.
        epochs: the number of epochs that ended.
        batches: the number of training batches that ended.
        train_s: the time of these batches.
        seconds_per_epoch: as in the result, if the loop has epochs.
        samples_per_second: as in the result.
        step_ms: as in the result.
        counts_steps: as in the result.
        headline: true for the loop whose batches took most time; its figures are in the result.
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
    samples_per_second: SamplesPerSecond | None = None
    step_ms: StepTime | None = None
    counts_steps: bool | None = None
    headline: bool | None = None
    tokens_per_second: SamplesPerSecond | None = None


@record(frozen=True)
class Result:
    """The last line of a log, and what `--json` prints.

    Attributes:
        status: completed, failed or stopped.
        session: the session's id.
        log: the path of its log.
        workload: as in the header.
        device: the device: cpu, gpu:N by NVML's number, or several GPUs as gpu:N+M.
        options: as in the header.
        wall_s: wall time of the session.
        seconds_per_epoch: wall time of an epoch.
        run_seconds: wall time of the whole run.
        samples_per_second: throughput.
        step_ms: time of a batch.
        compile_s: the extra time of the first batch over a usual one, also for each other batch
            size and for the first validation: mostly compilation; not with PyTorch.
        devices: the number of devices that shared each batch; absent if it is one.
        device_name: the product's name of the device; for several GPUs, after their number.
        data: the kind of data: real or synthetic.
        error: why it failed, in words.
        failure: the kind of failure: refused, out_of_memory, exception, killed, signal, not_started
            or unknown; older logs lack it.
        exit_code: the exit code of the workload's process; if negative, the signal that ended it.
        epochs: the number of epochs that ended.
        batches: the number of training batches that ended.
        stalls: the number of steps, and of starts of epochs, that took over ten times the median
            step, without steps that regularly take long.
        opening_stalls: the number of these `stalls` that were starts of epochs.
        energy_j_per_epoch: joules of a whole epoch, by "gpu" and "cpu", if measured.
        cost_usd: price × wall time.
        effective_flop_s: operations per sample, or per token, × mean samples, or tokens, per
            second.
        peak_share: `effective_flop_s` as a share (0 to 1) of the peak of all training devices in
            that precision: MFU.
        samples_per_epoch: samples in a whole epoch of the data; older logs lack it.
        lacking: what each figure that is null requires, by the figure's name: model (it was not
            built) or steady_state; older logs lack it.
        name: the name that a person gave the session.
        account: the time breakdown, the seconds of `wall_s` in each part: startup, loading,
            building, compiling, training, stalls, between_steps, openings, data_wait, validation,
            evaluation, checkpoint, garbage, gaps, closing and script; parts without time are
            absent. For a script, startup is the time before it first trains (older logs count it as
            script), and script the time between its loops and after them. Older logs lack it.
        valid: whether these figures have no warnings in `against`; older logs lack it.
        against: the warnings, in words, by code: too_short, not_steady, stalls, throttled,
            gpu_shared, cpu_shared, busy_at_start, on_battery, steal or inferred_samples.
        machine: the use of the machine, for a machine recording.
        counts_steps: true if `samples_per_second` counts steps, because the size of a script's
            batches is unknown.
        validation_compile_s: the part of `compile_s` in the first validation; older logs lack it.
        loops: the different loops of a script, if it has several; at most a hundred, those that
            took most time.
        stopped_by: the cause of a stop: live_screen, other_screen, ctrl_c, command, sweep,
            terminal_closed, viewer_terminated, viewer_gone or signal; for a Slurm job also
            time_limit, preempted, requeued or cancelled; older logs lack it.
        tokens_per_second: throughput in tokens, with padding; absent if there are no tokens.
        not_padding: the share (0 to 1) of tokens that are not padding, from about one batch a
            second; absent if unknown.
        trained_on: the share of tokens with labels, likewise.
        hardware_share: `peak_share` with the operations that are recomputed in the backward pass:
            HFU.
        peak_from: the source of the peak: measured, or the device's maker.
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
    samples_per_second: SamplesPerSecond | None = None
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
    tokens_per_second: SamplesPerSecond | None = None
    not_padding: float | None = None
    trained_on: float | None = None
    hardware_share: float | None = None
    peak_from: str | None = None
    peak_precision: str | None = None
    why: dict[str, str] = field(default_factory=dict)
