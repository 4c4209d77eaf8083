"""Which recordings `dlmon replay` plays."""

from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.cli.command_line import run_command
from dlmon.log.directory import SeveralLogs


def test_a_script_that_ran_twice_is_not_played_together_and_each_run_is_named(tmp_path):
    for number, name in enumerate(("first", "second")):
        header, *records = recorded_session(session_id=name)
        begun = replace(header, workload="train.py", wall=header.wall + number)
        write_log(tmp_path, [begun, *records], name)
    with pytest.raises(SeveralLogs, match=r"the newest first: second, first$"):
        run_command(["replay", "train.py", "--log-dir", str(tmp_path)])
