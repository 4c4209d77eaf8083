"""A script of a person's own, from the home screen: asked for, refused, started, repeated."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import (
    FakeSupervisor,
    fake_machine,
    of_this_boot,
    screen_text,
    until,
)

from dlmon.cli.start import Sources, Start
from dlmon.options.script import earlier_commands, remember_script
from dlmon.protocol.job import Refused, Started
from dlmon.records.sanitize import shown_path
from tui.app import DlmonApp
from tui.home.home_screen import HomeScreen
from tui.home.run_form import ScriptForm
from tui.live.live_screen import LiveScreen
from tui.messages import ShowSession
from tui.sweep.sweep_screen import SweepScreen


@pytest.fixture
def launched(log_dir, sensing):
    """Return an app whose launches are noted, and the jobs that were launched."""
    jobs, answers = [], []

    def launch(job):
        jobs.append(job)
        supervisor = FakeSupervisor(
            answers.pop(0) if answers else Refused("not in this test", 1), job
        )
        supervisor.may_answer.set()
        return supervisor

    app = DlmonApp(Start(log_dir, sources=Sources(machine=fake_machine, launch=launch)))
    return app, jobs, answers


async def open_form(app, pilot):
    await until(pilot, lambda: isinstance(app.screen, HomeScreen) and app.screen._is_complete)
    await pilot.press("E")
    await until(pilot, lambda: isinstance(app.screen, ScriptForm) and app.focused is not None)


async def test_a_key_asks_for_the_command_and_shows_the_one_that_does_the_same(launched):
    app, jobs, _ = launched
    async with app.run_test(size=(80, 24)) as pilot:
        await open_form(app, pilot)
        app.focused.value = f"{sys.executable} 'my train.py'"
        await until(pilot, lambda: "$ dlmon exec -- " in screen_text(app))
        # Two keys that come at once start one run.
        app.screen.action_submit()
        app.screen.action_submit()
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await pilot.pause()
        (job,) = jobs
        assert job.script
        assert job.command == (sys.executable, "my train.py")
        assert job.terminal == (76, 24)


async def test_up_brings_earlier_commands_and_down_the_later_ones(launched):
    app, _, _ = launched
    for command in ("a.py", "b.py", "a.py", "c.py"):
        remember_script(("python", command), "/")
    assert earlier_commands() == ["python c.py", "python a.py", "python b.py"]
    async with app.run_test(size=(80, 24)) as pilot:
        await open_form(app, pilot)
        assert app.focused.value == "python c.py"
        assert "↑ Earlier commands" in screen_text(app)
        seen = []
        for key in ("up", "up", "up", "down"):
            await pilot.press(key)
            seen.append(app.focused.value)
        assert seen == ["python a.py", "python b.py", "python b.py", "python a.py"]
        await pilot.press("tab", "up")
        assert app.focused.value == "/"


async def test_the_form_names_the_directory_where_an_empty_field_runs_the_command(launched):
    app, _, _ = launched
    async with app.run_test(size=(80, 24)) as pilot:
        await open_form(app, pilot)
        assert app.screen.query_one("#directory").placeholder == str(shown_path(Path.cwd()))
        assert "↑" not in screen_text(app)
        assert "$ dlmon exec -- python train.py" in screen_text(app)


async def test_the_form_explains_the_field_that_has_the_focus(launched):
    app, _, _ = launched
    async with app.run_test(size=(80, 24)) as pilot:
        await open_form(app, pilot)
        assert "as you type it in a shell" in screen_text(app)
        await pilot.press("tab", "tab", "tab")
        await until(pilot, lambda: "show how much runs differ" in screen_text(app))


async def test_what_cannot_be_run_is_one_sentence_in_the_form(launched):
    app, jobs, _ = launched
    async with app.run_test(size=(80, 24)) as pilot:
        await open_form(app, pilot)
        for typed, sentence in (
            ("no-such-command train.py", "There is no command no-such-command."),
            ("python3 'train.py", "A quote is not closed: python3 'train.py."),
            ("", "Type what is to be run"),
        ):
            app.focused.value = typed
            await pilot.pause()
            assert sentence not in screen_text(app)
            await pilot.press("enter")
            await until(pilot, lambda said=sentence: said in " ".join(screen_text(app).split()))
            assert isinstance(app.screen, ScriptForm)
        assert jobs == []
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_what_is_wrong_stands_below_its_field_and_the_command_stays(launched):
    app, _, _ = launched
    async with app.run_test(size=(80, 24)) as pilot:
        await open_form(app, pilot)
        app.focused.value = sys.executable
        for name, typed, problem in (
            ("directory", "/no/such", "! There is no directory /no/such."),
            ("repeat", "many", "! Repeat takes a whole number from 1 to 1,000, not many."),
        ):
            field = app.screen.query_one(f"#{name}")
            field.value = typed
            await until(pilot, lambda said=problem: said in screen_text(app))
            rows = screen_text(app).splitlines()
            (row,) = (number for number, text in enumerate(rows) if problem in text)
            assert typed in rows[row - 1]
            assert "Go to what is wrong" in screen_text(app)
            assert " Run " not in screen_text(app).splitlines()[-1]
            assert f"--{name} {typed} -- {sys.executable}" in " ".join(screen_text(app).split())
            field.value = ""


async def test_a_script_is_repeated_as_a_sweep(launched):
    app, jobs, _ = launched
    async with app.run_test(size=(120, 40)) as pilot:
        await open_form(app, pilot)
        app.focused.value = sys.executable
        app.screen.query_one("#repeat").value = "2"
        await until(pilot, lambda: "$ dlmon sweep --repeat 2 -- " in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SweepScreen))
        assert (app.screen.run.sweep.plan.repeats, jobs) == (2, [])


def records_of_a_script(number, exit_code=0):
    header, *rest, result = of_this_boot(recorded_session(session_id=f"run-{number}"))
    header = replace(header, workload="train.py", command=("train.py",))
    return [header, *rest, replace(result, exit_code=exit_code)]


def run_of_a_script(log_dir, number, exit_code=0):
    """Write the log of a run that is over; return its supervisor's answer."""
    log = write_log(log_dir, records_of_a_script(number, exit_code), f"run-{number}")
    return Started(f"run-{number}", str(log))


async def test_a_script_that_was_started_here_is_run_again_by_a_key(launched, log_dir):
    app, jobs, answers = launched
    answers.extend(run_of_a_script(log_dir, number) for number in range(2))
    async with app.run_test(size=(120, 40)) as pilot:
        await open_form(app, pilot)
        app.focused.value = f"{sys.executable} train.py"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))
        first = app.screen
        await until(pilot, lambda: "a Again" in screen_text(app))
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, LiveScreen) and app.screen is not first)
        assert [job.command for job in jobs] == [(sys.executable, "train.py")] * 2
        assert [job.directory for job in jobs] == [jobs[0].directory] * 2
        # That one was replaced: the way back leads home.
        await until(pilot, lambda: "a Again" in screen_text(app))
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_the_command_in_a_log_is_not_run(launched, log_dir):
    app, jobs, _ = launched
    log = Path(run_of_a_script(log_dir, 0).log)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HomeScreen) and app.screen._is_complete)
        app.post_message(ShowSession(log))
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))
        await until(pilot, lambda: "l Log" in screen_text(app))
        assert "Again" not in screen_text(app)
        await pilot.press("a")
        await pilot.pause()
        assert jobs == []
