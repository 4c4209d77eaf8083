import pytest

from dlmon.records import TrackerRun
from dlmon.trackers.tracker_address import address_of_tracker


@pytest.mark.parametrize(
    "text",
    [
        "wandb",
        "wandb:team/project",
        "mlflow",
        "mlflow:http://lab:5000",
        "trackio",
        "tensorboard:a:b",
    ],
)
def test_a_destination_is_written_as_it_was_typed(text):
    assert str(address_of_tracker(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'there is no tracker ""'),
        ("https://me:s3cret@lab", "there is no tracker"),
        ("tensorboard", "tensorboard:DIR"),
        ("mlflow:https://me:s3cret@lab", "MLFLOW_TRACKING_URI"),
        ("mlflow:https://lab?token=s3cret", "MLFLOW_TRACKING_URI"),
        ("trackio:a\nb", "not printable"),
        ("trackio:" + 1000 * "s3cret", "too long"),
    ],
)
def test_what_may_hold_a_secret_or_names_no_tracker_is_refused_without_repeating_it(text, words):
    with pytest.raises(ValueError, match=words.replace("?", r"\?")) as refused:
        address_of_tracker(text)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "run", "is_held"),
    [
        ("wandb", {"id": "a", "place": "lab/p"}, True),
        ("wandb:p", {"id": "a", "place": "lab/p"}, True),
        ("wandb:lab/p", {"id": "a", "place": "lab/p"}, True),
        ("wandb:other", {"id": "a", "place": "lab/p"}, False),
        ("wandb", {"id": "a"}, False),
        ("trackio", {"id": "a", "place": "mine"}, True),
        ("trackio:min", {"id": "a", "place": "mine"}, False),
        ("mlflow:http://lab", {"id": "a"}, True),
        ("mlflow", {}, False),
        ("tensorboard:runs", {"place": "/work/runs/one"}, True),
        ("tensorboard:/work/runs", {"place": "/work/runs"}, True),
        ("tensorboard:runs", {"place": "/work/runs/../secret"}, False),
        ("tensorboard:runs", {"place": "/elsewhere/runs/one"}, False),
        ("tensorboard:runs", {}, False),
    ],
)
def test_a_run_of_a_script_is_taken_only_in_the_place_that_was_typed(text, run, is_held):
    address = address_of_tracker(text)
    assert address.holds(TrackerRun(0, address.tracker, **run), "/work") is is_held
    assert not address.holds(TrackerRun(0, "another", **run), "/work")
