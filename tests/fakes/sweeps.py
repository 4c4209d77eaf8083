"""Sweeps as they are recorded: a plan of any shape, and the outcome of each of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlmon.records import (
    Ended,
    Outcome,
    PairRule,
    Result,
    RunSeconds,
    RunStatus,
    SecondsPerEpoch,
    Slot,
    Status,
    StepTime,
    SweptScript,
    Throughput,
    Variation,
)
from dlmon.sweep.pairs import MOST_PAIRS
from dlmon.sweep.plan import Combination, Plan, combinations_of, fair_order
from dlmon.sweep.progress import Sweep, outcome_of

SMALL = "mnist-mlp-small"


def plan_of(
    vary: Mapping[str, Sequence] | None = None,
    repeats: int = 1,
    workloads: Sequence[str] = (SMALL,),
    metric: str = "ms_per_sample",
    seed: int = 1,
) -> Plan:
    """Return a plan that varies these options, compared by one metric."""
    variations = tuple(Variation(key, tuple(values)) for key, values in (vary or {}).items())
    return Plan(
        workloads=tuple(workloads),
        variations=variations,
        options={"device": "auto", "batch_size": None, "epochs": None, "interval": 1.0},
        metrics=dict.fromkeys(workloads, metric),
        repeats=repeats,
        order=fair_order(combinations_of(workloads, variations), repeats, seed),
    )


def result_of(
    ms_per_sample: float | None,
    *,
    batch_size: int = 32,
    seconds: float | None = None,
    cost_usd: float | None = None,
    status: str = "completed",
    error: str | None = None,
    exit_code: int | None = 0,
    projected: bool = False,
) -> Result:
    """Return the result of a run that takes so long for a sample, and for an epoch or a run."""
    rate = 1000 / ms_per_sample if ms_per_sample else None
    return Result(
        status=Status(status),
        session="20261120-145600-mnist-mlp-small-7f3a",
        log="session.jsonl",
        workload=SMALL,
        device="cpu",
        options={},
        wall_s=10.0,
        seconds_per_epoch=SecondsPerEpoch(seconds, seconds, seconds, 1, projected)
        if seconds
        else None,
        run_seconds=RunSeconds(seconds, seconds, seconds, projected) if seconds else None,
        samples_per_second=Throughput(rate, rate, None, 0.0) if rate else None,
        step_ms=StepTime(ms_per_sample * batch_size, ms_per_sample * batch_size) if rate else None,
        error=error,
        exit_code=exit_code,
        cost_usd=cost_usd,
        why={} if rate else {"samples_per_second": "the run was too short for a figure"},
    )


def completed(ms_per_sample: float | None, took_s: float = 10.0, **result) -> Outcome:
    """Return the outcome of a run that completed."""
    measured = result_of(ms_per_sample, **result)
    return Outcome(RunStatus.COMPLETED, None, measured.session, measured, took_s)


def sweep_of(plan: Plan, *outcomes: Sequence[Outcome]) -> Sweep:
    """Return a sweep whose combinations ended so, each with the outcomes of its repeats."""
    by_slot = {
        Slot(index, repeat): outcome
        for index, of_combination in enumerate(outcomes)
        for repeat, outcome in enumerate(of_combination)
    }
    return Sweep(plan, by_slot)


def named(combination: Combination) -> dict:
    return dict(combination.varied)


def pairs_plan(
    vary: Mapping[str, Sequence] | None = None,
    to: float = 0.02,
    for_s: float = 3600.0,
    window_s: float | None = None,
    command: Sequence[str] = ("python", "train.py", "--workers", "{workers}"),
) -> Plan:
    """Return the plan of an experiment of pairs of a script."""
    ((key, values),) = (vary or {"workers": [4, 8]}).items()
    variations = (Variation(key, tuple(values)),)
    name, repeats = "train.py", MOST_PAIRS + 1
    return Plan(
        workloads=(name,),
        variations=variations,
        options={"interval": 1.0},
        metrics={name: "ms_per_sample"},
        repeats=repeats,
        order=fair_order(combinations_of((name,), variations), repeats, 1),
        script=SweptScript(tuple(command), "/home/ada"),
        pairs=PairRule(to, for_s, window_s),
    )


def ended(slot: Slot, result: Result, took_s: float = 1.0) -> Ended:
    """Return the end of a run with this result."""
    session = f"session-{slot.combination}-{slot.repeat}"
    return Ended(slot, outcome_of(replace(result, session=session), session, took_s), 1.0)
