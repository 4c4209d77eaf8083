"""Requests on one connection, with a local process in place of ssh and what it reaches."""

import asyncio
import io
import json
import sys
import zipfile

import pytest
from fakes.sessions import FAKES

from dlmon.exit_codes import FAILED
from dlmon.launch.bundle import BundleError
from dlmon.remote import connection as connections
from dlmon.remote.connection import (
    LONGEST_LINE_BYTES,
    Connection,
    HostRefusal,
    SshProcess,
    packed,
    sent_files,
)
from dlmon.remote.ssh import SshError

END = '{"id": @, "end": true}'


@pytest.fixture
async def begin(tmp_path):
    """Return a function that makes a connection to what a script has it say."""
    made = []

    async def make(**script):
        path = tmp_path / "script.json"
        path.write_text(json.dumps(script))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(FAKES / "agent.py"), str(path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE_BYTES,
            start_new_session=True,
        )
        made.append(SshProcess("box", process, start_s=60.0))
        return made[-1]

    yield make
    for connection in made:
        await connection.close()


@pytest.fixture
async def opened(begin):
    made = []

    async def make(**script):
        async def connect(name):
            process = await begin(**script)
            await process.open()
            return process

        made.append(Connection("box", connect))
        made[-1].start()
        await made[-1].wait_until_up()
        return made[-1]

    yield make
    for connection in made:
        await connection.close()


async def test_answers_reach_who_asked_in_their_order(opened):
    lines = {
        "first": ['{"id": @, "n": 1}', '{"id": 3, "n": 10}', '{"id": @, "n": 2}', END],
        "second": ['{"id": @, "n": 11}', END],
    }
    connection = await opened(answers=lines)
    first, second = [], []
    connection.send("first", first.append)
    # What is answered before it was asked is passed over.
    connection.send("second", second.append)
    async with asyncio.timeout(60):
        while not any("end" in answer for answer in second):
            await connection.ask_one("ping")
    assert first == [{"n": 1}, {"n": 2}, {"end": True}]
    assert second[-2:] == [{"n": 11}, {"end": True}]


async def test_texts_are_cleaned_but_for_those_that_are_read_elsewhere(opened):
    evil = "\x1b[31mred\x00"
    fields = {"name": evil, evil: [evil, {"a": evil}], "text": evil, "record": {"a": evil}}
    # A host can't say that it is lost.
    line = '{"id": @, "lost": true, ' + json.dumps(fields)[1:]
    connection = await opened(answers={"all": [line, END]})
    assert await connection.ask_one("all") == {
        "name": "red",
        "red": ["red", {"a": "red"}],
        "text": evil,
        "record": {"a": evil},
    }


async def test_a_request_that_is_refused_is_an_error_with_its_exit_code(opened):
    refusals = ['{"id": @, "error": "no", "code": 2}'], ['{"id": @, "error": "no", "code": "x"}']
    connection = await opened(answers=dict(zip("ab", refusals, strict=True)))
    for ask, code in (("a", 2), ("b", FAILED)):
        with pytest.raises(HostRefusal, match="box: no") as caught:
            await connection.ask_one(ask)
        assert caught.value.exit_code == code


async def test_a_request_that_is_left_takes_no_more_answers(opened):
    connection = await opened(answers={"many": ['{"id": @, "n": 1}'] * 100})
    async for answer in connection.ask("many"):
        assert answer == {"n": 1}
        break
    assert "t" in await connection.ask_one("ping")


async def test_all_who_wait_are_notified_of_the_end(opened):
    connection = await opened(answers={"leave": ["END"]})
    waiting = [asyncio.create_task(connection.ask_one("nothing")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(SshError, match="box: dlmon ended there"):
        await connection.ask_one("leave")
    for task in waiting:
        with pytest.raises(SshError, match="box: dlmon ended there"):
            await task


@pytest.mark.parametrize("depth", [300, 900, 100_000])
async def test_answers_that_are_nested_deeply_are_no_error(opened, depth):
    deep = '{"id": @, "x": ' + "[" * depth + "]" * depth + "}"
    connection = await opened(answers={"x": [deep, '{"id": @, "n": 1}', END]})
    answers = [answer async for answer in connection.ask("x")]
    assert answers[-1] == {"n": 1}


async def test_a_dlmon_that_can_not_be_sent_is_a_sentence(begin, monkeypatch):
    def broken():
        raise BundleError("the package dlmon is not where Python finds packages")

    monkeypatch.setattr(connections, "sent_files", broken)
    with pytest.raises(SshError, match="box can't be sent dlmon: the package dlmon") as caught:
        await (await begin()).open()
    assert not caught.value.may_pass


def test_what_is_sent_runs_anywhere_and_is_unpacked_as_it_was():
    files = sent_files()
    assert {"dlmon/remote/agent.py", "workloads/__main__.py", "platformdirs/__init__.py"} <= set(
        files
    )
    assert "pynvml.py" in files
    assert not [name for name in files if name.endswith(".so") or "__pycache__" in name]
    with zipfile.ZipFile(io.BytesIO(packed(files))) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == files
