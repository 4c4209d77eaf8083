"""Text from outside is shown as it is, or cleaned; a screen or a table never obeys it."""

import unicodedata
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import FakeLaunch, OneScreen, of_this_boot, screen_text
from rich.segment import Segment

import tui.app
from dlmon.doctor import Finding
from dlmon.job import Refused
from dlmon.records import (
    Epoch,
    Facts,
    Gpu,
    GpuFacts,
    Machine,
    Model,
    Notice,
    Output,
    Phase,
    Result,
    SessionHeader,
)
from dlmon.sessions import list_sessions
from tui.app import DlmonApp
from tui.screens.home import HomeScreen
from tui.tables import print_findings, print_sessions, print_workloads
from tui.widgets.machine_panel import MachinePanel
from workloads.catalog import WORKLOADS

MARKUP = {
    "closing tag": "[/x]",
    "action": "[@click=app.quit]x[/]",
    "layer": "[Conv2D]",
    "style": "[bold red]loss[/bold red][b][i][",
    "wide": ":bomb: 漢字",
}
OTHER = {
    "escapes": (
        "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b]8;;http://example.org\x1b\\click\x1b]8;;\x1b\\"
        " \x1b[2J\x1b[?1049l\x1bc \x9b31mred\x9d0;owned\x9c a\x00b\x07c\x08d\re\nf\tg\x7f"
    ),
    "invisible": (
        "cuda\u202egnp.exe\u2066x\u2069 a\u200bb\u200dc\ufeffd\U000e0041e Z\u0351\u0352\u0353algo"
        " 👩\u200d👩\u200d👧"
    ),
    "long": "x" * 10_000,
    "long and wide": "漢" * 10_000,
}
HOSTILE = MARKUP | OTHER
by_name = pytest.mark.parametrize("name", list(HOSTILE))
by_markup = pytest.mark.parametrize("name", list(MARKUP))


def hostile_session(text, status=None):
    """Return a session that holds `text` wherever a log can hold any."""
    records = recorded_session("training", gpus=2)
    why = {"utilization_pct": text}
    last = records[-1].t
    told = []
    for record in records:
        if isinstance(record, SessionHeader):
            machine = replace(
                record.machine,
                cpu_model=text,
                gpus=(GpuFacts(0, text), GpuFacts(1, text)),
                driver=text,
                governor=text,
                why={"gpus": text},
            )
            options = {"batch_size": text, "steps": [text], "device": text, text: {text: text}}
            record = replace(record, host=text, machine=machine, options=options)
        elif isinstance(record, Model):
            record = replace(record, device_name=text, data=text, backend=text)
        elif isinstance(record, Epoch):
            record = replace(record, metrics={text: 0.5, "loss": None}, why={"loss": text})
        elif isinstance(record, Phase) and record.name == "training":
            record = replace(record, name=text)
        told.append(record)
    told += [
        Machine(last, 0.0, gpus=(Gpu(0, throttle=(text,), sm_mhz=1), Gpu(1, why=why))),
        Output(last, "stdout", text),
        Output(last, text, text),
        Notice(last, text),
    ]
    if status is not None:
        header = told[0]
        told.append(
            Result(status, text, text, header.workload, text, {}, 1.0, device_name=text, error=text)
        )
    return told


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
        assert not any(key.startswith("@") for key in segment.style.meta)


# ---- the live screen ----


@by_name
async def test_a_running_session_obeys_no_text(show_session, name):
    records = hostile_session(HOSTILE[name])
    async with show_session(records) as shown:
        assert_harmless(shown.app)
        if name in MARKUP:
            assert HOSTILE[name] in shown.rows("TopLine")[0]
            assert HOSTILE[name] in shown.rows("ProgressLine")[0]
            assert any(HOSTILE[name] in row for row in shown.rows("OutputPane"))
            assert HOSTILE[name] in shown.rows("GpuRows")[1]
            assert HOSTILE[name] in shown.titles("#gpu")[1]
        await shown.press("l")
        assert_harmless(shown.app)


@pytest.mark.parametrize("name", ["closing tag", "action", "escapes", "long and wide"])
async def test_a_failed_session_obeys_no_text(show_session, name):
    async with show_session(hostile_session(HOSTILE[name], "failed"), size=(80, 24)) as shown:
        assert_harmless(shown.app)
        assert shown.rows("ProgressLine")[0].startswith("failed")
        if name in MARKUP:
            assert shown.rows("ProgressLine") == [f"failed: {HOSTILE[name]}"]


@pytest.mark.parametrize("name", ["closing tag", "layer", "invisible", "long and wide"])
async def test_the_name_of_a_workload_and_of_an_earlier_run_are_not_obeyed(
    show_session, log_dir, name
):
    text = HOSTILE[name]
    header, *rest = recorded_session(session_id="earlier", begin_wall=0.0)
    rest[-1] = replace(rest[-1], device_name=text)
    write_log(log_dir, [header, *rest])
    async with show_session(recorded_session()) as shown:
        assert_harmless(shown.app)
        if name in MARKUP:
            assert any(text in row for row in shown.rows("ComparisonBars"))
    header, *rest = recorded_session(session_id="other")
    async with show_session([replace(header, workload=text), *rest]) as shown:
        assert_harmless(shown.app)
        if name in MARKUP:
            assert text in shown.rows("TopLine")[0]


@pytest.mark.parametrize("name", ["closing tag", "action"])
async def test_a_status_that_is_none_is_not_obeyed(show_session, name):
    async with show_session(hostile_session("x", MARKUP[name])) as shown:
        assert_harmless(shown.app)
        assert MARKUP[name] in shown.rows("TopLine")[0]


@pytest.mark.parametrize("name", ["closing tag", "action"])
async def test_the_host_of_a_session_that_cant_be_told_of_is_not_obeyed(show_session, name):
    async with show_session(hostile_session(MARKUP[name]), running=False) as shown:
        assert_harmless(shown.app)
        assert f"recorded on {MARKUP[name]}: " in shown.rows("ProgressLine")[0]


# ---- home, watch ----


@by_name
async def test_the_machine_at_home_is_not_obeyed(sensing, clock, log_dir, name):
    text = HOSTILE[name]
    write_log(log_dir, of_this_boot(hostile_session(text, "completed")))
    app = OneScreen(HomeScreen(list_sessions(log_dir), lambda workload: None))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        # As the border hands it on: what a sensors process says was decoded first.
        header, *_, sample = decoded(hostile_session(text), log_dir / "decoded", Machine)
        sensing[0].say(Facts(header.t, header.wall, header.host, header.machine), sample)
        clock.now_ns = sample.t + 60_000_000_000
        if name in MARKUP:
            sensing[0].tell(text)
        app.screen.query_one(MachinePanel).paint()
        await pilot.pause()
        assert_harmless(app)
        if name in MARKUP:
            shown = screen_text(app).splitlines()
            assert shown[1].rstrip().endswith(text)
            assert shown[3].rstrip().endswith(text)


def decoded(records, log_dir, kind):
    """Return the header and the records of a kind, as they come out of a log."""
    (entry,) = list_sessions(write_log(log_dir, records).parent.parent)
    follower = tui.app.Viewer(entry.path)
    told = [record for record in follower.poll() if isinstance(record, kind)]
    follower.close()
    return [entry.header, *told]


@by_name
async def test_a_refusal_is_told_as_it_is(log_dir, sensing, monkeypatch, name):
    text = HOSTILE[name]
    launch = FakeLaunch(Refused(f"no: {text}", 2))
    launch.may_answer.set()
    monkeypatch.setattr(tui.app, "launch", lambda job: launch)
    app = DlmonApp(log_dir)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("enter")
        for _ in range(200):
            await pilot.pause(0.01)
            if "no: " in screen_text(app):
                break
        assert_harmless(app)
        assert f"no: {text}" in screen_text(app) or name not in MARKUP


# ---- tables ----


@by_name
def test_a_table_of_sessions_obeys_no_text(log_dir, capsys, name):
    write_log(log_dir, hostile_session(HOSTILE[name], "failed"))
    print_sessions(list_sessions(log_dir), log_dir)
    told = capsys.readouterr().out
    assert_printable(told)
    if name in MARKUP:
        assert told.count(HOSTILE[name]) == 2


@pytest.mark.parametrize("name", ["closing tag", "action", "style"])
def test_a_table_of_sessions_shows_any_status_as_it_is(log_dir, capsys, name):
    write_log(log_dir, hostile_session("x", MARKUP[name]))
    print_sessions(list_sessions(log_dir), log_dir)
    assert MARKUP[name] in capsys.readouterr().out


@pytest.mark.parametrize("wall", [1e300, -1e300, 1e15, 0.0, -1.0])
def test_a_table_of_sessions_takes_any_time(log_dir, capsys, wall):
    header, *rest = recorded_session()
    write_log(log_dir, [replace(header, wall=wall), *rest])
    print_sessions(list_sessions(log_dir), log_dir)
    assert header.id in capsys.readouterr().out.replace("\n", "")


@by_markup
def test_a_table_of_findings_obeys_no_text(capsys, name):
    text = MARKUP[name]
    print_findings([Finding(text, "warning", text, text)])
    assert capsys.readouterr().out.count(text) == 3


@by_markup
def test_a_table_of_workloads_obeys_no_text(capsys, name):
    text = MARKUP[name]
    workload = replace(next(iter(WORKLOADS.values())), name=text, title=text, source=text)
    print_workloads([workload])
    assert capsys.readouterr().out.count(text) == 3


def assert_printable(text):
    assert all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") for c in text)
