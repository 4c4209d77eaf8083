"""What a script needs before it starts, where the machine has none of it left."""

import asyncio
import errno
import sys

import pytest

from dlmon.launch.device import DeviceChoice
from dlmon.launch.job import Job
from dlmon.records import FailureKind
from dlmon.supervisor import script as script_module
from dlmon.supervisor.script import Script, ScriptError, check_script


@pytest.mark.parametrize(("what", "terminal"), [("TerminalOutput", (80, 24)), ("FileOutput", None)])
def test_a_script_whose_output_has_no_place_says_why_it_was_not_started(
    what, terminal, monkeypatch
):
    def nothing_left(*arguments):
        raise OSError(errno.ENOSPC, "no room for it")

    async def start():
        written = []
        script = Script(written.append, written.append)
        job = Job(
            workload="script",
            command=(sys.executable, "-V"),
            options={},
            log_dir="",
            device="auto",
            script=True,
            terminal=terminal,
        )
        script.start([sys.executable, "-V"], job, DeviceChoice("cpu", {}))
        await script.drain(0)
        return script

    monkeypatch.setattr(script_module, what, nothing_left)
    script = asyncio.run(start())
    assert script.ended.is_set()
    assert script.failure.text.endswith("could not be started: no room for it")
    assert script.failure.kind == FailureKind.NOT_STARTED


def test_a_directory_with_a_name_that_is_too_long_is_refused_in_a_sentence():
    job = Job("script", ("python",), {}, "", directory="x" * 100_000, script=True)
    with pytest.raises(ScriptError, match="it can't be looked for: File name too long"):
        check_script(job)
