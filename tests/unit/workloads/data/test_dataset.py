import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.data.dataset import Data, DataError

counts = st.integers(1, 50)


def data_of(train, test=0, **settings):
    x = np.arange(train + test, dtype=np.float32)
    y = np.arange(train + test, dtype=np.uint8) + 100
    return Data(x[:train], y[:train], x[train:], y[train:], "synthetic", **settings)


@given(samples=counts, batch_size=counts, steps=st.none() | counts)
def test_an_epoch_has_every_sample_or_as_many_as_its_steps_hold(samples, batch_size, steps):
    data = data_of(samples)
    if batch_size > samples:
        with pytest.raises(DataError):
            data.training(batch_size, steps)
        return

    feed = data.training(batch_size, steps)

    wanted = samples if steps is None else min(samples, steps * batch_size)
    assert feed.samples == len(feed.x) == len(feed.y) == wanted
    assert feed.x.tolist() == data.x_train[:wanted].tolist()
    assert feed.y.tolist() == data.y_train[:wanted].tolist()
    assert feed.batch_size == batch_size
    assert feed.steps == len(range(0, wanted, batch_size))
    assert feed.shuffle


def test_a_batch_larger_than_the_data_is_refused_in_a_sentence():
    for settings in ({}, {"augmented": True}):
        for feed in (data_of(1_200, **settings).training, data_of(1_200, **settings).inference):
            with pytest.raises(DataError) as reported:
                feed(2_000)
            assert str(reported.value) == (
                "the batch size 2,000 is larger than the 1,200 samples of the data; "
                "choose a smaller one with --batch-size"
            )


def test_testing_takes_the_first_test_samples():
    data = data_of(20, 10)
    feed = data.testing(7, 4)
    assert (feed.samples, feed.steps) == (7, 2)
    assert feed.x.tolist() == data.x_test[:7].tolist()
    assert feed.y.tolist() == data.y_test[:7].tolist()

    capped = data.testing(7, 4, steps=1)
    assert (capped.samples, capped.steps, len(capped.x)) == (4, 1, 4)


def test_inference_reads_augmented_samples_as_they_are_and_the_short_last_batch_too():
    data = data_of(20, augmented=True)
    feed = data.inference(8)
    assert (feed.samples, feed.steps) == (20, 3)
    assert feed.x.tolist() == data.x_train.tolist()
