"""What a person says of a training fills in what is not known, and nothing else."""

from dataclasses import replace

import pytest

from dlmon.records import Batches, BatchSummary, Epoch, Model
from dlmon.supervisor.trainers import EPOCHS, OF_EPOCHS, SAMPLES_PER_STEP, STEPS, ExpectedTraining

UNKNOWN = Model(
    *(None,) * 6, why={"epochs": "not said", "batch_size": "not said", "parameters": "not known"}
)
LOOP = replace(UNKNOWN, has_epochs=False)


@pytest.fixture
def training():
    """Return a function that makes what fills in, and the list of its notices."""

    def make(*expected):
        notices = []
        options = dict(zip((EPOCHS, STEPS, SAMPLES_PER_STEP), expected, strict=False))
        return ExpectedTraining({"interval": 1.0, **options}, notices.append), notices

    return make


def batches(epoch, samples=None):
    return Batches(epoch, 0, samples, 10, (1, 1))


def test_what_the_script_does_not_say_is_taken_from_the_person(training):
    told, notices = training(8, None, 32)
    model = told.describe(UNKNOWN)
    assert (model.epochs, model.batch_size, model.length_from) == (8, 32, OF_EPOCHS)
    assert model.inferred is not None
    assert model.why == {"parameters": "not known"}
    assert told.with_samples(batches(0)).samples == 32
    summary = BatchSummary(0, 0, 10, None, 0, 1, 1, (1,) * 7)
    assert told.with_samples(summary).samples == 320
    assert told.with_samples(Epoch(0, 0, 1, 1, True, None, {}, steps=10)).samples == 320
    assert notices == []


def test_what_the_script_says_stays_and_the_person_is_told(training):
    told, notices = training(8, None, 32)
    known = replace(UNKNOWN, epochs=3, batch_size=64)
    assert told.describe(known) == told.describe(known) == known
    assert told.with_samples(batches(0, 64)).samples == 64
    assert notices == [
        "--epochs 8 is not used: the script says 3",
        "--samples-per-step 32 is not used: batches have a size themselves",
    ]
    # What agrees needs no word, and what was inferred gives way.
    told, notices = training(3, None, 64)
    assert (told.describe(known), notices) == (known, [])
    inferred = replace(UNKNOWN, epochs=14, length_from="the script's default of epochs")
    assert told.describe(inferred).epochs == 3


def test_an_epoch_too_many_takes_the_number_back(training):
    told, notices = training(2)
    told.describe(UNKNOWN)
    assert told.correct(batches(1)) is None
    corrected = told.correct(batches(2))
    assert (corrected.epochs, corrected.length_from) == (None, None)
    assert corrected.why["epochs"] == "--epochs of dlmon exec says 2, and more came"
    assert told.correct(batches(3)) is None
    assert notices == ["--epochs 2 is wrong: another epoch began"]


def test_a_later_loop_has_the_rest_of_the_epochs(training):
    told, _ = training(3)
    assert told.describe(replace(UNKNOWN, first_epoch=2)).epochs == 3
    assert told.describe(replace(UNKNOWN, first_epoch=3)).epochs is None


def test_steps_end_a_loop_without_epochs_and_one_whose_epochs_have_a_length(training):
    told, _ = training(None, 250)
    assert (told.describe(LOOP).steps, told.describe(LOOP).epochs) == (250, None)
    model = told.describe(replace(UNKNOWN, steps_per_epoch=100))
    assert (model.epochs, model.epochs_in_all) == (None, 3)
