import re
from dataclasses import replace
from pathlib import Path

from fakes.recorded import recorded_session

from dlmon.log.directory import SessionEntry
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


def test_with_room_the_time_has_bars_and_the_machine_and_the_software_stand_below_the_log():
    header, *_, result = recorded_session()
    account = {"training": 30.0, "validation": 10.0, "of a later version": 5.0}
    entry = SessionEntry(header, Path("x.jsonl"), result.status, None, None)
    details = SessionDetails()
    details.show(replace(entry, result=replace(result, account=account)))
    few, many = (
        ["".join(text for text, _ in row) for row in details.draw(120, height)]
        for height in (6, 20)
    )
    assert many[:4] == few[:4]
    assert few[4] == "time    steps 75 %, validation 25 %"
    assert few[5] == many[6]
    assert [row.rstrip(" █") for row in many[4:6]] == [
        "time    steps       30.0 s  75 %",
        "        validation  10.0 s  25 %",
    ]
    assert many[6].startswith("log ")
    assert many[7].startswith(f"machine {header.host}  Intel")
    assert many[8].startswith("with    python 3")
    # Of a run without a result, no time is known.
    details.show(entry)
    assert "time" not in "".join(text for row in details.draw(120, 20) for text, _ in row)


def test_with_room_the_loss_is_drawn_from_its_begin_to_its_end():
    header, *_, result = recorded_session()
    details = SessionDetails()
    losses = [2.5, 1.5, 1.0, 0.5]
    details.show(SessionEntry(header, Path("x.jsonl"), result.status, result, None), None, losses)
    drawn = ["".join(text for text, _ in row).rstrip() for row in details.draw(120, 40)]
    curve = drawn[drawn.index("") + 1 :]
    assert curve[0].startswith("loss    2.5000  ⠉")
    assert re.match("        0.5000 .*⣀$", curve[-1])
    assert all(row.startswith(" " * 16) for row in curve[1:-1])
    assert "loss" not in "".join(text for row in details.draw(120, 8) for text, _ in row)


def test_no_number_is_split_from_its_unit_and_a_time_without_room_is_a_sentence():
    header, *_, result = recorded_session()
    details = SessionDetails()
    account = {"startup": 2.0, "training": 30.0, "validation": 10.0}
    result = replace(result, account=account)
    details.show(SessionEntry(header, Path("x.jsonl"), result.status, result, None))
    rows = ["".join(text for text, _ in row) for row in details.draw(76, 8)]
    assert rows[3].endswith("took")
    assert rows[4] == f"{'':8}{result.wall_s:.1f} s"
    assert rows[5] == "time    steps 71 %, validation 24 %, start and imports 5 %"
