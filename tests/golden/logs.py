"""The logs whose figures are kept: those that are recorded, and some made from a seed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fakes.recorded import recorded_host, recorded_machine, recorded_session, write_log

from dlmon.records import Batches, Epoch, Machine, Model, Phase, Record

HERE = Path(__file__).parent
SECOND = 10**9
STEPS, STEPS_TOGETHER, SAMPLE_EVERY_S = 360, 30, 120


def copy_logs(folder: Path) -> None:
    """Put every log into a folder: those of earlier versions, those of this one, those made."""
    for version in sorted((HERE.parent / "data").iterdir()):
        shutil.copytree(version / "sessions", folder / version.name)
    shutil.copytree(HERE / "sessions", folder / "recorded")
    made = folder / "made"
    for name, records in _made().items():
        write_log(made, records, name)
    recorded_host(made, "lab", energy=True, begin_s=40, gpus=2)
    whole = (folder / "recorded" / "pytorch" / "session.jsonl").read_bytes()
    cut = made / "cut-in-a-line" / "session.jsonl"
    cut.parent.mkdir()
    cut.write_bytes(whole[: whole.index(b"\n", len(whole) * 2 // 3) - 20])
    write_log(folder / "long", list(_day()), "a-day")


def _made() -> dict[str, list[Record]]:
    return {
        "network": recorded_session(),
        "network-faster": recorded_session(step_us=15_000, session_id="faster", begin_wall=1.8e9),
        "network-failed": recorded_session(status="failed", session_id="failed"),
        "network-nan": recorded_session(nan_loss=True, session_id="nan"),
        "network-silent": recorded_session("training", silent_s=8.0, session_id="silent"),
        "network-stopped": recorded_session(status="stopped", gpus=2, session_id="stopped"),
        "small": recorded_session(workload="mnist-mlp-small", gpus=0, samples=20_000),
        "small-steps-cap": recorded_session(
            workload="mnist-mlp-small", gpus=0, steps_cap=400, session_id="cap"
        ),
        "machine": recorded_machine(energy=True),
        "machine-stopped": recorded_machine(status="stopped", gpus=0),
    }


def _day() -> Iterator[Record]:
    """Yield a run of 24 epochs of an hour, in one of which its GPU is throttled."""
    vary = random.Random(1)
    header, *records = recorded_session(session_id="a-day")
    model = next(record for record in records if isinstance(record, Model))
    machine = next(record for record in records if isinstance(record, Machine))
    samples, begin = STEPS * model.batch_size, header.t + 5 * SECOND
    yield replace(header, options={**header.options, "epochs": 24, "interval": 120.0})
    yield replace(model, epochs=24, samples_per_epoch=samples, steps_per_epoch=STEPS)
    yield Phase(begin, "compiling")
    t, sampled = begin, 0
    for epoch in range(24):
        epoch_begin = t
        for first in range(0, STEPS, STEPS_TOGETHER):
            dt_us = [vary.randrange(9_800_000, 10_000_000) for _ in range(STEPS_TOGETHER)]
            if vary.random() < 0.02:
                dt_us[vary.randrange(STEPS_TOGETHER)] += 90_000_000
            if epoch or first:
                yield Phase(t, "training")
            yield Batches(epoch, first, model.batch_size, t + dt_us[0] * 1000, tuple(dt_us))
            t += sum(dt_us) * 1000
            for at_s in range(sampled, (t - begin) // SECOND, SAMPLE_EVERY_S):
                yield _sample(machine, begin, at_s, epoch == 7, vary)
                sampled = at_s + SAMPLE_EVERY_S
        metrics = {"loss": 2 / (epoch + 1) + vary.random() / 50}
        yield Epoch(epoch, epoch_begin, t, t, True, samples, metrics, STEPS)


def _sample(
    like: Machine, begin: int, at_s: int, is_throttled: bool, vary: random.Random
) -> Machine:
    cpu = replace(like.cpu, pct=vary.randrange(20, 60), energy_j=40.0 * at_s)
    gpu = replace(
        like.gpus[0],
        utilization_pct=vary.randrange(90, 100),
        power_w=vary.uniform(90, 120),
        sm_mhz=1_400 if is_throttled else 1_860,
        throttle=("power cap",) if is_throttled else (),
        energy_j=100.0 * at_s,
    )
    t = begin + at_s * SECOND
    return replace(like, t=t, wall=like.wall + at_s, cpu=cpu, gpus=(gpu,))
