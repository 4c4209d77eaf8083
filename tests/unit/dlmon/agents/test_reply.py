"""An answer fits its limit whatever it is made of, and says what was left out."""

import json

import pytest

from dlmon.agents.reply import MOST_BYTES, Reply, reply_text
from dlmon.agents.script_text import ScriptText
from dlmon.figures.sections import Note


def made(reply, host=None):
    text = reply_text(reply, host)
    assert len(text.encode()) <= MOST_BYTES
    return json.loads(text)


@pytest.mark.parametrize("sentence", ["x" * 10_000, "漢" * 5_000, '"' * 5_000])
def test_long_and_many_sentences_are_cut_and_it_is_said(sentence):
    asked = made(Reply((Note((sentence,) * 300),), ScriptText(), ("sessions()",)))
    assert asked["answer"]
    assert asked["cut"].endswith("to fit 2,000 tokens.")


def test_the_newest_lines_of_a_script_stay():
    lines = tuple(f"line {number} {'y' * 90}" for number in range(1_000))
    asked = made(Reply((Note(("It printed.",)),), ScriptText(), (), {"output": lines}))
    first, *_, last = asked["script_text"]["output"]
    assert last == lines[-1]
    assert "lines before these are left out" in first


def test_what_to_ask_next_is_asked_of_the_same_host():
    asks = ("session('a')", "series('a', names=['loss'])", "hosts()", "stop('a', host='x')")
    asked = made(Reply((), ScriptText(), asks), "box")
    assert asked["ask_next"] == [
        "session('a', host='box')",
        "series('a', names=['loss'], host='box')",
        "hosts()",
        "stop('a', host='x')",
    ]
