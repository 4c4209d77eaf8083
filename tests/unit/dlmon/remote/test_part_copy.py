"""What is said of a part that can't be copied from its host."""

from __future__ import annotations

import asyncio

import pytest

from dlmon.records import Notice, decode
from dlmon.remote import part_copy
from dlmon.remote.ssh import SshError


async def loses_its_connection(folder, number, host, name):
    raise SshError(f"{host} is out of reach", may_pass=False)


async def meets_a_log_that_is_gone(folder, number, host, name):
    return "its log was removed"


async def copies_all(folder, number, host, name):
    return None


@pytest.mark.parametrize(
    ("copying", "why"),
    [
        (loses_its_connection, "n2 is out of reach"),
        (meets_a_log_that_is_gone, "its log was removed"),
        (copies_all, None),
    ],
)
def test_a_copy_that_ends_too_early_is_said(copying, why, tmp_path, monkeypatch, capfdbinary):
    monkeypatch.setattr(part_copy, "copy_part", copying)
    asyncio.run(part_copy.copy_parts(tmp_path, "vit", ["n2"]))
    said = [decode(line) for line in capfdbinary.readouterr().out.splitlines()]
    told = [record.text for record in said if isinstance(record, Notice)]
    assert told == [f"what n2 records of this run is not copied any more: {why}"] * (
        why is not None
    )
