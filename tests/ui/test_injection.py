"""Text from outside is shown as it is, or cleaned; a screen or a table never obeys it."""

import re
import unicodedata
from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_WALL, recorded_session, write_log
from fakes.screens import FakeSupervisor, fake_machine, screen_text
from fakes.states import VIEWS, State, on_stage, renamed
from rich.segment import Segment
from textual import events

from dlmon.cli.doctor import print_findings
from dlmon.cli.start import Sources, Start
from dlmon.doctor.finding import Finding
from dlmon.figures.lists.session_list import describe_recorded, describe_workloads
from dlmon.log.directory import list_sessions
from dlmon.protocol.job import Refused
from dlmon.records import Phase, Record, Result
from dlmon.render.console import table_console
from dlmon.render.lines import print_sections
from tui.app import DlmonApp
from workloads.catalog import WORKLOADS

MARKUP = "[/x] [@click=app.quit]x[/] [Conv2D] [bold red]loss[/bold red][b][i][ :bomb: 漢字"
ESCAPES = (
    "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b]8;;http://example.org\x1b\\click\x1b]8;;\x1b\\"
    " \x1b]52;c;b3duZWQ=\x07 \x1bPq#0~\x1b\\ \x1b[2J\x1b[?1049l\x1bc \x9b31mred\x9d0;owned\x9c"
    " \x901$r\x9c a\x00b\x07c\x08d\re\nf\tg\x7f"
)
INVISIBLE = (
    "cuda\u202egnp.exe\u2066x\u2069 a\u200bb\u200dc\ufeffd\U000e0041e Z\u0351\u0352\u0353algo"
    " 👩\u200d👩\u200d👧"
)
LONG = "x漢" * 5_000
HOSTILE = f"{MARKUP} {ESCAPES} {INVISIBLE}"
SHOWN = "[/x] [@click=app.quit]x[/] [Conv2D]"
OUR_OWN = re.compile(r"scroll_down|scroll_up|grab|release|app\.simulate_key\('[A-Za-z0-9_+]+'\)")
"""What a click does on a scrollbar, and on a key of the last row."""


def hostile_session(text: str, status: str | None = None) -> list[Record]:
    """Return a session that holds `text` wherever a log can; over, where it has a status."""
    records = [
        replace(record, name=text) if isinstance(record, Phase) else record
        for record in renamed(recorded_session("training", gpus=2), text)
    ]
    if status is None:
        return records
    header = records[0]
    result = Result(
        status, text, text, header.workload, text, {}, 1.0, device_name=text, error=text
    )
    return [*records, result]


def hostile_state(text: str) -> State:
    """Return a session, and earlier ones, that hold `text` wherever a log can hold any."""
    header, *rest = hostile_session(text)
    *earlier, result = recorded_session(begin_wall=BEGIN_WALL - 86_400)
    like_it = [replace(earlier[0], host=text, id=text), *earlier[1:]]
    failed = hostile_session(text, "failed")
    return State(
        [replace(header, id=text), *rest],
        earlier=(
            [*like_it, replace(result, device_name=text, session=text)],
            [replace(failed[0], workload=text), *failed[1:]],
        ),
    )


def assert_harmless(app):
    """What is drawn holds no control character, no action, no link, and fits its lines."""
    assert app.is_running
    width = app.size.width
    for strip in app.screen._compositor.render_strips():
        assert strip.cell_length == width
        for segment in strip:
            assert_plain(segment)


def assert_plain(segment: Segment):
    assert not segment.control
    kinds = {unicodedata.category(character) for character in segment.text}
    assert not kinds & {"Cc", "Cf", "Cs"}, repr(segment.text)
    if segment.style is not None:
        assert segment.style.link is None
        actions = [what for key, what in segment.style.meta.items() if key.startswith("@")]
        assert all(map(OUR_OWN.fullmatch, actions)), actions


# ---- every screen ----


@pytest.mark.parametrize("view", [view for view in VIEWS if "-" not in view])
async def test_no_screen_obeys_what_a_log_or_the_sensors_say(view):
    async with on_stage(hostile_state(HOSTILE), view, (200, 50), notifications=True) as stage:
        assert_harmless(stage.app)
        if view in ("live", "log", "gpus", "processes", "home", "watch", "sessions"):
            assert SHOWN in stage.text


@pytest.mark.parametrize("view", ["live", "processes", "sessions"])
async def test_no_screen_is_broken_by_ten_thousand_characters(view):
    async with on_stage(hostile_state(LONG), view, size=(80, 24)) as stage:
        assert_harmless(stage.app)


@pytest.mark.parametrize(
    ("text", "size"), [(HOSTILE, (200, 50)), (LONG, (80, 24))], ids=["hostile", "long"]
)
async def test_a_failed_session_obeys_no_text(show_session, text, size):
    async with show_session(hostile_session(text, "failed"), size=size) as shown:
        assert_harmless(shown.app)
        assert "failed" in shown.text
        assert text is LONG or SHOWN in shown.text


async def test_a_status_that_is_none_is_shown_as_unknown(show_session):
    async with show_session(hostile_session("x", MARKUP)) as shown:
        assert_harmless(shown.app)
        assert "unknown" in shown.rows("TopLine")[0]


# ---- what is said in passing, and what a person types ----


async def test_a_refusal_is_shown_as_it_is(log_dir, sensing):
    supervisor = FakeSupervisor(Refused(f"no: {HOSTILE}", 2))
    supervisor.may_answer.set()
    app = DlmonApp(
        Start(log_dir, sources=Sources(machine=fake_machine, launch=lambda job: supervisor))
    )
    async with app.run_test(size=(200, 50), notifications=True) as pilot:
        await pilot.press("slash", "enter")
        for _ in range(200):
            await pilot.pause(0.01)
            if "no: " in screen_text(app):
                break
        assert_harmless(app)
        assert f"no: {SHOWN}" in screen_text(app)


async def test_what_the_sensors_complain_of_is_shown_as_it_is(sensing):
    state = State(recorded_session("training"), silent_s=60.0)
    async with on_stage(state, "watch", size=(200, 50)) as stage:
        stage.sensors.notify(MARKUP)
        await stage.settle()
        assert_harmless(stage.app)
        assert MARKUP in stage.text


@pytest.mark.parametrize("view", ["home", "sessions", "rename", "palette"])
async def test_what_a_person_pastes_and_types_is_not_obeyed(view):
    async with on_stage(State(recorded_session("training")), view) as stage:
        if view in ("home", "sessions"):
            await stage.press("slash")
        stage.app.post_message(events.Paste("[/x]" + ESCAPES))
        await stage.settle()
        assert_harmless(stage.app)
        assert "[/x]" in stage.text
        await stage.press("home", *"[b][@click=app.quit]y[/]")
        assert_harmless(stage.app)
        assert "[b]" in stage.text


@pytest.mark.parametrize("view", ["sessions", "live"])
async def test_the_names_of_folders_are_not_obeyed(view):
    folder = "[@click=app.quit]x [bold a\nb\x1b[31m" + "漢" * 60
    async with on_stage(State(recorded_session()), view, folder=folder, size=(200, 50)) as stage:
        assert_harmless(stage.app)


# ---- tables ----


@pytest.mark.parametrize(
    "text", [MARKUP, ESCAPES, INVISIBLE, LONG], ids=["markup", "escapes", "invisible", "long"]
)
def test_a_table_of_sessions_obeys_no_text(log_dir, capsys, text):
    write_log(log_dir, hostile_session(text, "failed"))
    print_sections(table_console(), describe_recorded(list_sessions(log_dir), (), log_dir))
    printed = capsys.readouterr().out
    assert_printable(printed)
    if text is MARKUP:
        assert printed.count(text) == 2


def test_tables_of_findings_and_workloads_obey_no_text(capsys):
    print_findings([Finding(MARKUP, "warning", MARKUP, MARKUP)])
    assert capsys.readouterr().out.count(MARKUP) == 3
    text = "[/x] [@click=app.quit]x[/]"
    workload = next(iter(WORKLOADS.values()))
    hostile = [replace(workload, name=text, title=text, source=text)]
    print_sections(table_console(), describe_workloads(hostile))
    assert capsys.readouterr().out.count(text) == 3


def assert_printable(text):
    assert all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") for c in text)
