from dataclasses import replace
from pathlib import Path

from fakes.recorded import recorded_session

from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from tui.sessions.session_details import SessionDetails

SHORT, BUSY = "too short: it was never steady", "machine was busy at the start: CPU 71 %"


def drawn(against, width=120, height=6):
    header, *_, result = recorded_session()
    details = SessionDetails()
    result = replace(result, against=against)
    details.show(SessionEntry(header, Path("session.jsonl"), result.status, result, None))
    return ["".join(text for text, _ in row) for row in details.draw(width, height)]


def test_the_details_say_in_full_what_speaks_against_a_time():
    without = drawn({})
    doubted = drawn({"too_short": SHORT, "busy_at_start": BUSY})
    assert doubted[2] == f"{without[2]}, in doubt: {SHORT}; {BUSY}"
    assert doubted[3:] == without[3:]


def test_with_room_the_machine_the_software_and_the_time_stand_below_the_log():
    header, *_, result = recorded_session()
    account = {"training": 30.0, "validation": 10.0, "of a later version": 5.0}
    entry = SessionEntry(header, Path("x.jsonl"), result.status, None, None)
    details = SessionDetails()
    details.show(replace(entry, result=replace(result, account=account)))
    few, many = (
        ["".join(text for text, _ in row) for row in details.draw(120, height)]
        for height in (5, 20)
    )
    assert many[:5] == few
    assert few[-1].startswith("log ")
    assert many[5].startswith(f"machine {header.host}  Intel")
    assert many[6].startswith("with    python 3")
    assert [row.rstrip(" █") for row in many[7:]] == [
        "time    steps       30.0 s, 75 %",
        "        validation  10.0 s, 25 %",
    ]
    # Of a run without a result, no time is known.
    details.show(entry)
    assert "time" not in "".join(text for row in details.draw(120, 20) for text, _ in row)


def test_a_session_that_is_being_opened_needs_no_key_to_be_opened():
    header, *_ = recorded_session()
    details = SessionDetails()
    details.is_opening = True
    for status in (Status.RUNNING, Status.INTERRUPTED, Status.UNKNOWN):
        details.show(SessionEntry(header, Path("session.jsonl"), status, None, 1))
        text = "".join(text for row in details.draw(120, 6) for text, _ in row)
        assert status in text
        assert "Enter" not in text
