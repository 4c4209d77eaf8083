"""Who took how many cores: what is read of the machine and of the run may be a little apart."""

from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Cpu, Epoch, Machine, ProcessTree
from dlmon.session.epoch_use import OTHER_CORES, EpochUses
from dlmon.session.training_readings import TrainingReadings

S = 1_000_000_000


def readings(run_pcts, busy_pct=50.0, count=20):
    """Return readings of two cores, each with the next of the run's CPU times."""
    of_run = cycle(run_pcts)
    return [
        Machine(
            second * S,
            0.0,
            cpu=Cpu(pct=busy_pct, cores=(50, 50), steal_pct=0.0),
            process=ProcessTree(cpu_pct=next(of_run)),
        )
        for second in range(1, count + 1)
    ]


def cores_of_training(samples):
    folded = TrainingReadings()
    for sample in samples:
        folded.fold(sample, None)
    return folded.means["other_cores"]


def cores_of_epoch(samples):
    uses = EpochUses()
    for sample in samples:
        uses.fold_reading(sample, None)
    end = samples[-1].t
    epoch = Epoch(0, 0, end, end, True, 1_000, {})
    uses.fold_epoch(epoch)
    return uses.of(epoch).values[OTHER_CORES]


@pytest.mark.parametrize("cores_of", [cores_of_training, cores_of_epoch])
def test_jitter_between_two_readings_makes_no_other_programs(cores_of):
    assert cores_of(readings([50.0, 150.0])) == pytest.approx(0)
    assert cores_of(readings([0.0, 150.0])) == pytest.approx(0.25)


@pytest.mark.parametrize("cores_of", [cores_of_training, cores_of_epoch])
@given(st.lists(st.floats(0, 200), min_size=1, max_size=20), st.floats(0, 100))
def test_others_took_what_the_run_did_not_and_never_less_than_nothing(cores_of, run_pcts, busy_pct):
    samples = readings(run_pcts, busy_pct, count=len(run_pcts))
    run = sum(run_pcts) / len(run_pcts) / 100
    assert cores_of(samples) == pytest.approx(max(0.0, 2 * busy_pct / 100 - run), abs=1e-9)
