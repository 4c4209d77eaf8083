"""The records of a session: its header, its result, and what happens between."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from dlmon.records.machine import MachineFacts, MachineUse
from dlmon.records.record import record
from dlmon.records.words import AlertEvent, FailureKind, Requirement, Status, StopCause


@record(frozen=True)
class SlurmJob:
    """What a job of Slurm's was given, of all its nodes together; null where Slurm doesn't say.

    Attributes:
        job: its number, with that of an array's task such as `123_4`.
        partition: the partition that it ran in.
        node_list: its nodes, as Slurm writes lists of them.
        nodes: how many these are.
        cpus: processors.
        memory_mib: memory.
        gpus: GPUs.
        time_limit_s: how long it might run.
        end_wall: when that is over, in Unix seconds, as it was known at the start.
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
    """The first line of a log: what runs, where, with what.

    Attributes:
        schema: the version of this format, 1.
        id: the session's id, which is the name of its folder too.
        host: the machine's name.
        boot_id: the kernel's id of this boot; times of two boots don't compare.
        workload: what is trained, by the name that `dlmon list` shows; a script's file; empty where
            the machine alone is recorded (`dlmon watch --record`).
        options: the options of the run, with the workload's defaults filled in; of a recording,
            `interval`, `pcie` and `for_s`, the seconds that it is to last or null.
        machine: what does not change about the machine.
        versions: of dlmon, python, keras and the backend; `backend` is its name.
        command: the words of a script's command (`dlmon exec`), where one ran.
        directory: where the script ran.
        script_sha256: the SHA-256 of the script's file, in hexadecimal, as it was at the start;
            older logs lack it.
        git_commit: the commit that was checked out in the repository around that file, or around
            `directory` where no file is known; what was changed since is not part of it. Older
            logs lack it.
        script_path: the path of that file, its links resolved; older logs lack it.
        git_repository: which repository that is: where it was cloned from, without a user and a
            password, else the path of its `.git` folder; older logs lack it.
        git_path: the path of that file within its repository; older logs lack it.
        node: what Slurm calls the machine, where the session is a step of it.
        slurm: the job of Slurm's that it ran in, where it ran in one.
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
    """What a sensors process reports first, and again when a GPU was found later.

    The supervisor moves the first into the header; later ones stand in the log, and the newest
    counts.

    Attributes:
        host: the machine's name.
        machine: what does not change about the machine.
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
        text: the line, without its end.
        left_out: how many lines before it were not kept.
    """

    TYPE: ClassVar[str] = "output"
    t: int
    stream: str
    text: str
    left_out: int | None = None


@record(frozen=True)
class Notice:
    """Something a person should know.

    Attributes:
        text: a sentence.
    """

    TYPE: ClassVar[str] = "notice"
    t: int
    text: str


@record(frozen=True)
class Alert:
    """An event of which a message was sent, where alerts are asked for.

    Attributes:
        event: finished, failed, nan, stalled, slower, gpu_idle, gpu_lost, gpu_hot, gpu_error, disk,
            host_lost, memory or unknown.
        text: a sentence.
        since: when it began.
        over: whether it says that the event is over.
        figures: what was measured, in words.
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
    """Why the workload gave up, in its own words.

    Attributes:
        text: a sentence.
        kind: what made it fail: refused, out_of_memory, exception, killed, signal, not_started or
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
        low: the lower end of the 95 % interval of that mean, of a projection too: a single epoch
            may lie further off. Null while nothing is known of how sure the value is.
        high: its upper end.
        epochs: how many whole epochs stand behind the value.
        projected: whether it is a projection, because no whole epoch was measured.
        first_left_out: whether the first epoch, which compiles or sets up, is not among them.
        left_out: how many epochs are not among them, where that is more than the first: those in
            which another network like the first one compiled.
        median: of three epochs or more, the median.
        slow: how many of these took over 1.5 times that.
        longest: what the longest of them took.
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
        low: the lower end of the 95 % interval of a projection, by what is still to come. Null for
            a run that was measured: nothing is known of how others would differ.
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
        median: by the median step.
        mean: samples over time.
        standard_error: of the mean; it allows for noise that lasts for seconds.
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
        p95: the 95 % quantile; null of fewer than 20 batches, of which it would be the longest.
        mean: the mean; older logs lack it.
    """

    median: float
    p95: float | None
    mean: float | None = None


@record(frozen=True)
class LoopResult:
    """What loops of a script came to that train the same network on as many samples.

    Attributes:
        network: what the network is called, where that is known.
        parameters: weights and biases of it.
        batch_size: samples in a batch.
        samples_per_epoch: samples in a whole epoch.
        count: how many of the script's loops it is.
        epochs: how many epochs ended.
        batches: how many training batches ended.
        train_s: the time of these.
        seconds_per_epoch: as in the result, where the loop has epochs.
        samples_per_second: as in the result.
        step_ms: as in the result.
        counts_steps: as in the result.
        headline: true of the one whose batches took most time: the figures of the result are its.
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
        workload: what was trained; empty where the machine alone was recorded.
        device: what it ran on: cpu, gpu:N by NVML's number, or several GPUs as gpu:N+M.
        options: those of the header.
        wall_s: wall time of the session.
        seconds_per_epoch: wall time of an epoch.
        run_seconds: wall time of the whole run.
        samples_per_second: throughput.
        step_ms: time of a batch.
        compile_s: how much longer the first batch took than a usual one, and that of each other
            size and of the first validation: as a rule it compiles; with PyTorch it does not.
        devices: how many devices shared each batch; absent where that was one.
        device_name: the product's name of the device; of several GPUs behind how many they are.
        data: what the samples were: real or synthetic.
        error: why it failed, in words.
        failure: what made it fail: refused, out_of_memory, exception, killed, signal, not_started
            or unknown; older logs lack it.
        exit_code: of the workload's process; negative: the signal that ended it.
        epochs: how many epochs ended.
        batches: how many training batches ended.
        stalls: steps, and openings of epochs, that took over ten times the median step, but for
            steps that come every so many steps.
        opening_stalls: those of the `stalls` that were at the start of an epoch.
        energy_j_per_epoch: joules of a whole epoch, by "gpu" and "cpu"; those that were measured.
        cost_usd: price × wall time.
        effective_flop_s: operations per sample, or per token, × mean samples, or tokens, per
            second.
        peak_share: `effective_flop_s` as a share (0 to 1) of the peak of all devices that train, in
            that precision: MFU.
        samples_per_epoch: samples of a whole epoch of the data that were read; older logs lack it.
        lacking: what the run lacked for a figure that is null, by the figure's name: model (it was
            not built) or steady_state; older logs lack it.
        name: what a person calls the session.
        account: seconds of `wall_s` by what they went into: startup, loading, building, compiling,
            training, stalls, between_steps, openings, data_wait, validation, evaluation,
            checkpoint, garbage, gaps, closing and script; parts that took no time are left out. Of
            a script, startup is all before it first trains (older logs: under script), and script
            what lies between its loops and after them. Older logs lack it.
        valid: whether nothing speaks against comparing by these figures; older logs lack it.
        against: what does, in words, by its code: too_short, not_steady, stalls, throttled,
            gpu_shared, cpu_shared, busy_at_start, on_battery, steal or inferred_samples.
        machine: how much of the machine was used, where it alone was recorded.
        counts_steps: true where `samples_per_second` are steps, because the size of a script's
            batches isn't known.
        validation_compile_s: how much of `compile_s` is of the first validation; older logs lack
            it.
        loops: each of the unlike loops of a script, where it has several; of more than a hundred,
            those that took most time.
        stopped_by: who, or what, had it stop: live_screen, other_screen, ctrl_c, command, sweep,
            terminal_closed, viewer_terminated, viewer_gone or signal; of a job of Slurm's also
            time_limit, preempted, requeued or cancelled; older logs lack it.
        tokens_per_second: throughput in tokens, padding included; absent of what holds none.
        not_padding: the share (0 to 1) of the tokens that is no padding, in a batch about once a
            second; absent where that isn't known.
        trained_on: the share of them that has labels, likewise.
        hardware_share: the same share with what is computed again for the way back: HFU.
        peak_from: who says that peak: measured, or the device's maker.
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
