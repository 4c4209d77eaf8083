"""Which recordings `dlmon replay` plays."""

from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.cli.command_line import run_command
from dlmon.log.directory import SeveralLogs
from dlmon.log.label import Label, write_label


def test_runs_of_one_name_are_not_played_together_and_each_is_named(tmp_path):
    for number, name in enumerate(("first", "second")):
        header, *records = recorded_session(session_id=name)
        begun = replace(header, wall=header.wall + number)
        write_label(write_log(tmp_path, [begun, *records], name), Label("base"))
    with pytest.raises(SeveralLogs, match=r"the newest first: second, first$"):
        run_command(["replay", "base", "--log-dir", str(tmp_path)])
