"""`dlmon mcp` without its library, without an agent, and with one that sends what it likes."""

import os
import sys
from types import SimpleNamespace

import pytest

from dlmon.agents.actions import Starter
from dlmon.agents.questions import Place
from dlmon.agents.tools import QUESTIONS
from dlmon.cli.command_line import run_command
from dlmon.cli.mcp import _answer, _Pipe
from dlmon.cli.shared import UserError
from dlmon.exit_codes import WRONG_ARGUMENTS


def test_without_the_library_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(UserError, match=r"pip install 'dlmon\[mcp\]'") as refused:
        run_command(["mcp"])
    assert refused.value.exit_code == WRONG_ARGUMENTS


def test_the_skill_is_printed_without_the_library(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mcp", None)
    run_command(["mcp", "--skill"])
    assert capsys.readouterr().out.startswith("---\nname: dlmon\n")


def test_an_argument_that_a_tool_lacks_is_answered_with_those_that_it_takes(tmp_path):
    starter = Starter(Place(tmp_path), ())
    request = SimpleNamespace(name="session", arguments={"sesion": "last"})
    text, is_error = _answer(starter, QUESTIONS, request)
    assert is_error
    assert "session takes session, part, host: " in text
    assert "'sesion' was unexpected" in text


@pytest.fixture
def agent(monkeypatch):
    """Return a pipe to us, and the agent's ends of it."""
    (to_read, to_us), (from_us, to_write) = os.pipe(), os.pipe()
    monkeypatch.setattr("dlmon.cli.mcp._own_streams", lambda: (to_read, to_write))
    yield _Pipe(), to_us, from_us
    for number in (to_read, to_us, from_us, to_write):
        os.close(number)


async def test_a_line_that_is_too_long_is_no_message_and_the_next_one_is_read(agent, monkeypatch):
    monkeypatch.setattr("dlmon.cli.mcp._LONGEST_MESSAGE", 100)
    pipe, to_us, _ = agent
    os.write(to_us, b"x" * 450 + b"\n" + b'{"a": 1}\n')
    lines = aiter(pipe)
    assert [await anext(lines), await anext(lines)] == ["too long", '{"a": 1}']


async def test_nothing_more_is_read_while_an_agent_takes_no_answer(agent):
    import anyio

    pipe, to_us, from_us = agent
    os.write(to_us, b"1\n2\n3\n")
    lines = aiter(pipe)
    assert await anext(lines) == "1"
    read = []

    async def read_next():
        read.append(await anext(lines))

    answer = "a" * (1 << 18)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipe.write, answer)
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(read_next)
        await anyio.wait_readable(from_us)
        assert not read
        taken = 0
        while taken < len(answer):
            taken += len(await anyio.to_thread.run_sync(os.read, from_us, 1 << 16))
    assert read == ["2"]
