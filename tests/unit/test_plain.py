"""The lines of a session that is followed without a screen: when what they tell of happened."""

import re

from fakes.recorded import recorded_session, write_log

from tui.plain import follow


def test_lines_are_stamped_with_when_it_happened_not_with_when_they_were_read(
    utc, tmp_path, capsys
):
    write_log(tmp_path, recorded_session(), "shown")
    assert follow(tmp_path / "shown" / "session.jsonl", None) == 0
    stamped = re.findall("^([0-9:]{8})  (.*)$", capsys.readouterr().out, re.MULTILINE)
    told = {text.split()[0]: at for at, text in reversed(stamped)}
    assert told["session"] == told["log"] == "14:56:00"
    begun, *_, ended = [at for at, text in stamped if text.startswith("epoch ")]
    assert "14:56:01" <= told["compiling"] < begun < ended < "14:57:00"
    assert [at for at, _ in stamped] == sorted(at for at, _ in stamped)
