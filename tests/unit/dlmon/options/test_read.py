"""What was typed into a form is read as options, or refused in one sentence."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.options.option import UnreadableOption, as_text
from dlmon.options.read import read_arguments, read_duration, read_options
from dlmon.options.run_options import OPTIONS, SETTINGS, RunOptions
from workloads.catalog import WORKLOADS

CIFAR = WORKLOADS["cifar10-cnn"]
NAMES = [spec.name for spec in fields(RunOptions)]


def problem(name, text):
    """Return the only complaint that a text in one field leads to."""
    problems = read_options({name: text}, RunOptions()).problems(CIFAR)
    assert list(problems) == [name]
    return problems[name]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("batch_size", "64", 64),
        ("batch_size", " 1,024 ", 1024),
        ("epochs", "+2", 2),
        ("interval", "0.5", 0.5),
        ("seconds", "3", 3.0),
        ("seconds", "0", 0.0),
        ("device", "gpu:1", "gpu:1"),
        ("cpus", "1", 1),
        ("data", "synthetic", "synthetic"),
        ("python", " /opt/my python ", "/opt/my python"),
        ("price", "0.00795/cpu", "0.00795/cpu"),
        ("pcie", "yes", True),
        ("detach", "yes", True),
        ("detach", "no", False),
        ("log_dir", " ~/my runs ", "~/my runs"),
    ],
)
def test_a_text_is_read_as_its_option(name, text, value):
    typed = read_options({name: text}, RunOptions())
    assert not typed.unreadable
    assert getattr(typed.options, name) == value


def test_what_is_empty_stays_as_it_is_configured():
    configured = RunOptions(device="cpu", epochs=3, interval=2.0)
    typed = read_options(dict.fromkeys(NAMES, "  "), configured)
    assert typed.options == configured
    assert not typed.problems(CIFAR)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("batch_size", "abc", 'the batch size must be a whole number, not "abc"'),
        ("batch_size", "1.5", 'the batch size must be a whole number, not "1.5"'),
        ("batch_size", "1,5", 'the batch size must be a whole number, not "1,5"'),
        ("batch_size", "٣", 'the batch size must be a whole number, not "٣"'),
        ("batch_size", "0", "the batch size must be from 1 to 50,000"),
        ("epochs", "1000000001", "the number of epochs must be from 1 to 1,000,000,000"),
        ("epochs", "9" * 5000, "the number of epochs can't be as large as \"99999"),
        ("steps", "0x10", 'the number of steps must be a whole number, not "0x10"'),
        ("threads", "\x1b[31m4", 'the number of threads must be a whole number, not "4"'),
        ("seconds", "3 s", 'the minimum time must be a number of seconds, such as 3, not "3 s"'),
        ("seconds", "nan", "the minimum time must be a number of seconds, such as 3, not"),
        ("interval", "nan", "the interval must be a number of seconds, such as 0.5"),
        ("interval", "1e400", "the interval must be from 0.1 to 3,600 seconds, not inf"),
        ("interval", "0,5", "the interval must be a number of seconds, such as 0.5"),
    ],
)
def test_a_text_that_can_not_be_is_refused_in_one_sentence(name, text, sentence):
    refusal = problem(name, text)
    assert refusal.startswith(sentence)
    assert len(refusal) < 200


UNSET = [name for name in SETTINGS if OPTIONS[name].default is None]


@pytest.mark.parametrize("name", UNSET)
def test_the_word_none_undoes_what_is_configured(name):
    configured = RunOptions(**dict.fromkeys(UNSET, 3))
    typed = read_options({name: " None "}, configured)
    assert typed.options == replace(configured, **{name: None})


@pytest.mark.parametrize("name", sorted({*NAMES} - {*UNSET, "name", "host", "log_dir"}))
def test_what_has_to_be_something_can_not_be_none(name):
    assert problem(name, "none")


def test_what_stands_on_a_command_line_is_read_and_what_does_not_stays():
    configured = RunOptions(epochs=3, cpus=1, batch_size=16)
    texts = {"epochs": None, "cpus": "none", "steps": "1,000", "jit": "on", "batch_size": "64"}
    expected = RunOptions(epochs=3, steps=1000, jit="on", batch_size=64)
    assert read_arguments(texts, configured) == expected
    with pytest.raises(UnreadableOption, match="--batch-size needs a value"):
        read_arguments({"batch_size": " "}, RunOptions())
    with pytest.raises(UnreadableOption, match="the number of steps must be a whole number"):
        read_arguments({"epochs": "2", "steps": "x"}, RunOptions())


def test_complaints_come_in_the_order_of_the_form():
    texts = {"interval": "x", "epochs": "0", "batch_size": "y", "device": "tpu"}
    typed = read_options(texts, RunOptions())
    assert list(typed.problems(CIFAR)) == ["device", "batch_size", "epochs", "interval"]


@given(texts=st.dictionaries(st.sampled_from(NAMES), st.text()))
def test_whatever_is_typed_is_an_option_or_a_complaint(texts):
    typed = read_options(texts, RunOptions())
    assert typed.problems(CIFAR).keys() <= set(NAMES)
    for name, text in texts.items():
        if name not in typed.unreadable and not text.strip():
            assert getattr(typed.options, name) == getattr(RunOptions(), name)


@given(interval=st.floats(0.1, 3600))
def test_a_number_that_was_written_is_read_as_itself(interval):
    typed = read_options({"interval": as_text(interval)}, RunOptions())
    assert typed.options.interval == interval


def test_a_number_and_its_unit_are_a_length_of_time():
    lengths = {"90s": 90, "10m": 600, "1d": 86_400, "1.5h": 5_400, "366d": 31_622_400}
    assert {text: read_duration("--for", text) for text in lengths} == lengths


NEEDS = "--for needs a length of time such as 90s, 10m, 2h"


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (("", "2", "h", "2 h", " 2h", "2h ", "2h\n", "2H", "2w", "2h30m", "-2h", "+2h"), NEEDS),
        (("1e3s", "nan", "infs", "٢h", ".5h", "2.h", "1_0s", "9" * 400 + "s"), NEEDS),
        (("0s", "0.5s", "0d", "367d", "999999999d"), '--for must be from 1s to 366d, not "{}"'),
    ],
)
def test_any_other_text_is_refused_with_examples(texts, says):
    for text in texts:
        with pytest.raises(UnreadableOption, match=says.format(text)):
            read_duration("--for", text)
