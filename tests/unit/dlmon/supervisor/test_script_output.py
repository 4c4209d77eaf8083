"""What a script writes is read in slices, up to its end, and given back to the disk."""

import asyncio
import os

import pytest

from dlmon.launch.spool import make_spool
from dlmon.supervisor import output
from dlmon.supervisor.output import FileOutput


@pytest.fixture
def small_reads(monkeypatch):
    monkeypatch.setattr(output, "READ_BYTES", 1_000)
    monkeypatch.setattr(output, "SLICE_S", 0.0)
    monkeypatch.setattr(output, "KEPT_BYTES", 1 << 16)


def drained(output, goes_on=lambda data: None):
    """Drain what a script has written; return that, and how often others had their turn."""

    async def drain():
        taken, turns = [], []

        def take(stream, data):
            taken.append(data)
            goes_on(data)

        async def others():
            while True:
                turns.append(1)
                await asyncio.sleep(0)

        made = output(take)
        beside = asyncio.create_task(others())
        await made.drain()
        beside.cancel()
        return b"".join(taken), len(turns)

    return asyncio.run(drain())


def test_others_have_their_turn_while_the_rest_is_read(small_reads):
    spool = make_spool()
    os.write(spool, b"x" * 100_000)
    data, turns = drained(lambda take: FileOutput((spool, spool), take))
    assert data == b"x" * 100_000
    assert turns >= 100


@pytest.mark.parametrize("is_ours", [True, False])
def test_the_disk_gets_back_what_was_read_of_a_file_that_nobody_else_reads(
    is_ours, small_reads, monkeypatch
):
    spool = make_spool()
    kept = os.dup(spool)
    monkeypatch.setattr(output, "make_spool", lambda: spool)
    os.write(spool, b"x" * 1_000_000)
    before = os.fstat(kept).st_blocks
    data, _ = drained(lambda take: FileOutput(None if is_ours else (spool, spool), take))
    assert data == b"x" * 1_000_000
    is_given_back = os.pread(kept, 10, 100_000) == bytes(10)
    assert is_given_back == is_ours
    assert (os.fstat(kept).st_blocks < before) == is_given_back
    os.close(kept)
