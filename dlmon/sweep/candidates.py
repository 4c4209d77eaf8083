"""Choose the injections that may make a script faster, by the figures of a run of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dlmon.records import Model, StepParts, TimePart
from dlmon.records.injections import INJECTIONS, KERAS, OFF, ON, TORCH, InjectionKind
from dlmon.records.record import record
from dlmon.session.limits.rules import WAITED_SHARE
from dlmon.session.snapshot import Snapshot

# From these shares of a step on, a part is worth a try.
_OPTIMIZER_SHARE, _COPY_SHARE, _NETWORK_SHARE, _OPENING_SHARE = 0.1, 0.05, 0.4, 0.1
_OWN_CODE_SHARE, _LINES_A_STEP = 0.05, 0.5
_MOST_WORKERS, _MORE_AHEAD = 4, 8
# From this length of a batch on, the work around it in Python is little.
_SHORT_BATCH_MS, _BATCHES_A_CALL = 20.0, 16


@record(frozen=True)
class Candidate:
    """An injection to try.

    Attributes:
        name, value: the injection.
        reason: what was measured that speaks for it, as a clause.
        share: the most that it may save, as a share of the time of a step.
    """

    name: str
    value: str | int
    reason: str
    share: float

    @property
    def kind(self) -> InjectionKind:
        return INJECTIONS[self.name]


@record(frozen=True)
class FirstRun:
    """The figures of a run that the choice depends on; None for what is unknown.

    Attributes:
        framework: its framework: torch, keras, ...
        model: its longest loop.
        parts: the parts of its steps.
        waited_share: the share of its training in which it waited for data.
        opening_share: the share of its training in which an epoch opened, such as workers starting.
        step_ms: its mean step.
        cores: the cores that it may use.
        run_cores: the cores that it used.
        compiles: whether PyTorch compiled something.
        joins_batches: whether Keras ran several batches in one call.
        lines_a_step: the lines that it printed for each step.
    """

    framework: str
    model: Model
    parts: StepParts | None = None
    waited_share: float | None = None
    opening_share: float = 0.0
    step_ms: float | None = None
    cores: float | None = None
    run_cores: float | None = None
    compiles: bool = False
    joins_batches: bool = False
    lines_a_step: float = 0.0

    def share(self, *parts: str) -> float:
        """Return the share of a step that some parts took; 0 if they were not measured."""
        step_us = self.parts.step_us if self.parts is not None else 0
        return sum(getattr(self.parts, part) or 0 for part in parts) / step_us if step_us else 0.0

    @property
    def waited(self) -> float:
        share = self.share("wait_us")
        return share if share else self.waited_share or 0.0

    @property
    def network(self) -> float:
        """The share of forward and backward; if the parts are unknown, all but the waiting."""
        return self.share("forward_us", "backward_us") if self.parts else 1 - self.waited


def first_run_of(
    snapshot: Snapshot,
    run_cores: float | None,
    joins_batches: bool = False,
    lines_a_step: float = 0.0,
) -> FirstRun | None:
    """Return what the choice needs from a run; None if no framework trained in it."""
    model = snapshot.measured_model
    if model is None or not snapshot.trainers:
        return None
    seconds = snapshot.time_breakdown
    spent = [
        seconds.get(part, 0.0)
        for part in (TimePart.TRAINING, TimePart.DATA_WAIT, TimePart.STALLS, TimePart.OPENINGS)
    ]
    training_s = sum(spent)
    machine = snapshot.header.machine
    limits = [float(limit) for limit in (machine.cores, machine.cpu_limit) if limit]
    return FirstRun(
        framework=snapshot.trainers[0].trainer.framework,
        model=model,
        parts=snapshot.step_parts,
        waited_share=spent[1] / training_s if training_s else None,
        opening_share=spent[3] / training_s if training_s else 0.0,
        step_ms=None if snapshot.step_ms is None else snapshot.step_ms.mean,
        cores=min(limits, default=None),
        run_cores=run_cores,
        compiles=snapshot.is_compile_measured,
        joins_batches=joins_batches,
        lines_a_step=lines_a_step,
    )


def candidates_of(run: FirstRun) -> tuple[Candidate, ...]:
    """Return the injections to try: first what may save most, last what alters the training."""
    choose = {TORCH: _of_torch, KERAS: _of_keras}.get(run.framework)
    chosen = [] if choose is None else choose(run)
    return tuple(sorted(chosen, key=lambda c: (c.kind.alters_training, -c.share)))


def _of_torch(run: FirstRun) -> Iterator[Candidate]:
    yield from _of_loader(run)
    optimizer = run.share("optimizer_us")
    if optimizer >= _OPTIMIZER_SHARE and run.model.fused is False:
        reason = f"the optimizer takes {_pct(optimizer)} of a step, and is not fused"
        yield Candidate("fused", ON, reason, optimizer)
    own_code = run.share("rest_us")
    if own_code >= _OWN_CODE_SHARE and run.lines_a_step >= _LINES_A_STEP:
        reason = f"its own code takes {_pct(own_code)} of a step, and it prints nearly every step"
        yield Candidate("prints", OFF, reason, own_code)
    if run.model.device == "cpu":
        yield from _of_threads(run)
    elif run.model.gpus:
        yield from _of_gpu(run)


def _of_loader(run: FirstRun) -> Iterator[Candidate]:
    workers, waited = run.model.workers, run.waited
    if workers is None:
        # Nothing is known of a loader.
        return
    if waited >= WAITED_SHARE:
        reason = f"waits for data {_pct(waited)} of a step"
        if workers == 0:
            number = min(_MOST_WORKERS, max(2, int(run.cores or _MOST_WORKERS)))
            yield Candidate("num_workers", number, f"{reason}, and no worker loads it", waited)
        else:
            more = f"{reason} with {workers} worker{'s' if workers > 1 else ''}"
            yield Candidate("num_workers", 2 * workers, more, waited)
            yield Candidate("prefetch_factor", _MORE_AHEAD, more, waited / 2)
    if workers and run.opening_share >= _OPENING_SHARE:
        reason = f"epochs take {_pct(run.opening_share)} of the training to open"
        yield Candidate("persistent_workers", ON, reason, run.opening_share)


def _of_threads(run: FirstRun) -> Iterator[Candidate]:
    threads, cores = run.model.threads, int(run.cores or 1)
    if threads is None or threads >= cores or run.network < _NETWORK_SHARE:
        return
    reason = f"computes with {threads} thread{'s' if threads > 1 else ''} on {cores} cores"
    yield Candidate("threads", cores, reason, run.network * (1 - threads / cores))


def _of_gpu(run: FirstRun) -> Iterator[Candidate]:
    copy, network, precision = run.share("copy_us"), run.network, run.model.compute_precision
    if copy >= _COPY_SHARE and run.model.pin_memory is False:
        reason = f"copies {_pct(copy)} of a step, from memory that is not pinned"
        yield Candidate("pin_memory", ON, reason, copy)
    if copy >= _COPY_SHARE and run.model.pin_memory:
        reason = f"copies {_pct(copy)} of a step, from memory that is pinned"
        yield Candidate("non_blocking", ON, reason, copy)
    if network < _NETWORK_SHARE:
        return
    reason = f"forward and backward take {_pct(network)} of a step"
    if not run.compiles:
        yield Candidate("compile", "default", reason, network / 2)
    yield Candidate("cudnn_benchmark", ON, reason, network / 5)
    if precision == "float32":
        in_float32 = f"{reason}, in float32"
        yield Candidate("matmul_precision", "high", in_float32, network / 2)
    if precision in ("float32", "tf32"):
        yield Candidate("autocast", "bfloat16", f"{reason}, in {precision}", network / 2)


def _of_keras(run: FirstRun) -> Iterator[Candidate]:
    model, step_ms = run.model, run.step_ms
    if model.backend == "torch":
        return
    if model.jit is False:
        reason = "XLA does not compile the training step"
        yield Candidate("jit_compile", ON, reason, run.network / 2)
    if step_ms is not None and step_ms < _SHORT_BATCH_MS and not run.joins_batches:
        reason = f"a batch takes {step_ms:.3g} ms, and each one is a call of its own"
        yield Candidate("steps_per_execution", _BATCHES_A_CALL, reason, 1 / (1 + step_ms))


def _pct(share: float) -> str:
    return f"{100 * share:.0f} %"
