"""The home screen: what can be trained and how, what it took here before, the machine, live."""

import re
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.recorded import BEGIN_WALL, recorded_session, write_log
from fakes.screens import Shown, fake_machine, of_this_boot, until
from textual.events import Key, Paste
from textual.widgets import Static

from dlmon.figures.lists.recent_sessions import RecentSession, recent_sessions
from dlmon.log.directory import list_sessions
from dlmon.options.run_options import OPTIONS, RunOptions
from dlmon.options.script import remember_script
from dlmon.records import Facts, GpuFacts, Machine, MachineFacts
from dlmon.statistics.ratios import Ratio
from tui.home.home_screen import HomeScreen
from tui.home.run_form import RunForm
from tui.home.workload_list import WorkloadList, matching
from tui.machine.machine import MachinePanel
from tui.messages import RunScript, Train
from tui.screens.help import HelpScreen
from tui.watch.watch_screen import WatchScreen
from tui.widgets.key_footer import KeyFooter
from workloads.catalog import WORKLOADS

NOW = BEGIN_WALL + 720
# In the order of the list: families together.
NAMES = [workload.name for workload in matching(WORKLOADS.values(), "")]


class ShownHome(Shown):
    """The home screen, and what was asked to be trained on it, with which options."""

    def __init__(self, entries, machine, options=None):
        super().__init__(HomeScreen(lambda: machine, options, wall_clock=lambda: NOW))
        self.screen.show_entries(entries)
        self.screen.show_recent(recent_sessions(entries))

    async def begin(self):
        # The keys in the footer are what comes last.
        await until(
            self.pilot, lambda: any(footer.offered for footer in self.screen.query(KeyFooter))
        )
        await self.pilot.press("slash", "escape")
        await self.pilot.pause()

    @property
    def launched(self):
        asked = [message for message in self.app.asked if isinstance(message, Train)]
        return [(message.workload, message.options) for message in asked]

    @property
    def about(self):
        """What is said of the highlighted workload, as one line."""
        return " ".join(" ".join(self.rows("#about")).split())

    @property
    def command(self):
        """What stands above the footer."""
        return str(self.screen.query_one("#command").content)

    @property
    def footer(self):
        return self.text.splitlines()[-1]

    @property
    def highlighted(self):
        workload = self.screen.query_one(WorkloadList).workload
        return workload and workload.name

    @property
    def focused(self):
        return self.app.focused.id

    @property
    def marked(self):
        """The labels that say that their field is wrong."""
        labels = self.screen.query("#options > Static").results(Static)
        return [str(label.content)[2:] for label in labels if str(label.content).startswith("!")]

    def typed(self, field):
        return self.screen.query_one(f"#{field}").value


@pytest.fixture
def home(log_dir, sensing, clock):
    def make(**options):
        pcie = options.get("options", RunOptions()).pcie
        return ShownHome(list_sessions(log_dir), fake_machine(1.0, pcie, clock), **options)

    return make


@pytest.fixture
def show_home(home):
    """Return a context in which the home screen is shown, the form and all."""

    @asynccontextmanager
    async def show(size=(120, 40), **options):
        shown = home(**options)
        async with shown.on(size):
            yield shown

    return show


async def press(shown, *keys):
    await shown.pilot.press(*keys)
    await shown.pilot.pause()


async def enter(shown, field, text):
    """Go to a field of the form and type a text."""
    shown.screen.query_one(RunForm).show_all()
    shown.screen.query_one(f"#{field}").focus()
    await press(shown, *text)


def speak(sensors, gpus=1, cores=8, samples=20):
    """Have sensors report what a machine is, and some samples of it."""
    records = recorded_session(gpus=gpus, cores=cores)
    header = records[0]
    sensors.say(Facts(header.t, header.wall, header.host, header.machine))
    # No run is watched here, and so none has a share of the CPU.
    readings = [replace(record, process=None) for record in records if isinstance(record, Machine)]
    sensors.say(*readings[:samples])
    return readings[:samples][-1].t


async def paint(pilot):
    pilot.app.screen.query_one(MachinePanel).paint()
    await pilot.pause()
    await pilot.pause()


# ---- workloads ----


async def test_before_a_launch_the_batch_size_that_matches_published_numbers_is_named(show_home):
    async with show_home() as shown:
        assert "published: 6 comparable" in shown.about
        await enter(shown, "batch_size", "64")
        await until(shown.pilot, lambda: "none comparable; 6 with batch 100" in shown.about)
        shown.screen.query_one("#batch_size").value = ""
        await until(shown.pilot, lambda: "published: 6 comparable" in shown.about)


async def test_a_click_highlights_and_a_double_click_trains(show_home, monkeypatch):
    async with show_home() as shown:
        monkeypatch.setattr(shown.app, "CLICK_CHAIN_TIME_THRESHOLD", 60)
        await shown.pilot.click("#workloads", offset=(6, 3))
        await shown.pilot.pause()
        assert (shown.highlighted, shown.launched) == (NAMES[1], [])
        await shown.pilot.click("#workloads", offset=(6, 5), times=2)
        await shown.pilot.pause()
        assert shown.launched == [(WORKLOADS[NAMES[2]], RunOptions())]


# ---- more workloads than rows ----


async def test_the_arrows_go_through_all_workloads_each_in_sight_and_enter_trains_it(show_home):
    async with show_home((80, 24)) as shown:
        for names, key in ((NAMES, "down"), (NAMES[::-1], "up")):
            seen = []
            for name in names:
                seen.append(shown.highlighted)
                rows = shown.rows("#workloads")
                assert any(f"▸ {shown.highlighted} " in f"{row} " for row in rows)
                if name != names[-1]:
                    await press(shown, key)
            assert seen == names
        await press(shown, *["pagedown"] * 5)
        assert shown.highlighted == NAMES[-1]
        await press(shown, *["pageup"] * 6, "down")
        assert shown.focused == "workloads"
        await press(shown, "enter")
        assert shown.launched == [(WORKLOADS[NAMES[1]], RunOptions())]


async def test_a_page_is_not_turned_where_the_list_has_no_room(show_home):
    async with show_home((80, 24)) as shown:
        shown.screen.query_one("#pick").styles.height = 0
        await shown.pilot.pause()
        await press(shown, "pagedown", "pageup", "down")
        assert shown.highlighted == NAMES[1]


# ---- the filter ----


async def test_what_is_typed_filters_and_the_first_match_is_highlighted(show_home):
    async with show_home((120, 44)) as shown:
        await press(shown, "slash", *"wide mn")
        text = "\n".join(shown.rows("#workloads"))
        assert [name for name in NAMES if f" {name} " in f"{text} "] == ["mnist-mlp-wide"]
        assert shown.screen.query_one(WorkloadList)._border_subtitle.plain == "1 of 20"
        assert WORKLOADS["mnist-mlp-wide"].title in shown.about
        await press(shown, "enter")
        assert shown.launched == [(WORKLOADS["mnist-mlp-wide"], RunOptions())]
        await press(shown, "escape")
        assert shown.typed("filter") == ""
        assert shown.focused == "workloads"
        # One that still matches stays highlighted.
        await press(shown, "pageup", "pageup", "down", "down", "slash", *"mnist")
        assert shown.highlighted == NAMES[2] == "mnist-mlp-small"


async def test_where_nothing_matches_it_says_how_to_go_on_and_trains_nothing(show_home):
    async with show_home() as shown:
        await press(shown, "slash", *"xyz", "enter", "down", "pagedown", "ctrl+y")
        assert "No workload matches that." in shown.text
        assert "Esc clears the filter." in shown.text
        assert shown.about == ""
        assert shown.command.startswith("! no workload matches")
        assert shown.launched == []
        await press(shown, "escape", "enter")
        assert shown.launched == [(WORKLOADS[NAMES[0]], RunOptions())]


async def test_what_is_pasted_is_cleaned_and_only_its_first_line_counts(show_home, tmp_path):
    async with show_home() as shown:
        await press(shown, "slash")
        shown.app.post_message(Paste("\n\x1b[31mwi\x07de\u202e\nrm -rf /\n"))
        await shown.pilot.pause()
        await shown.pilot.pause()
        assert shown.typed("filter") == "wide"
        assert shown.highlighted == "mnist-mlp-wide"
        shown.app.post_message(Paste("\x1b[31m \n "))
        await shown.pilot.pause()
        assert shown.typed("filter") == "wide"
        shown.screen.query_one(RunForm).focus_option("log_dir")
        await shown.pilot.pause()
        shown.app.post_message(Paste(f"{tmp_path}/\x1b]0;owned\x07a[/x]\nb\n"))
        await shown.pilot.pause()
        await shown.pilot.pause()
        assert shown.typed("log_dir") == f"{tmp_path}/a[/x]"


# ---- keys ----


async def test_letters_are_commands_but_in_a_field(show_home):
    async with show_home((80, 24)) as shown:
        assert " q Quit " in shown.footer
        await press(shown, "slash", "i", "q")
        assert shown.typed("filter") == "iq"
        await press(shown, "escape", "tab", "tab")
        assert shown.footer.startswith(" ⏎ Train  tab Next  esc List")
        await press(shown, *"q1")
        assert shown.typed("batch_size") == "q1"
        await press(shown, "escape", "question_mark")
        assert isinstance(shown.app.screen, HelpScreen)
        await press(shown, "escape", "q")
        assert not shown.app.is_running


async def test_tab_goes_through_the_panels_and_enter_does_what_the_footer_says(
    show_home, log_dir, monkeypatch
):
    monkeypatch.setattr("dlmon.remote.host_names.configured_hosts", lambda: ["gpu1", "gpu2"])
    for number in (1, 2, 3):
        begun = BEGIN_WALL + 60 * number
        records = of_this_boot(recorded_session(session_id=f"run-{number}", begin_wall=begun))
        write_log(log_dir, records, f"run-{number}")
    async with show_home((120, 40)) as shown:
        for focused, does in (
            *(("options-first", "Train"), ("hosts", "Hosts"), ("script", "My script")),
            *(("recent", "Open"), ("workloads", "Train")),
        ):
            await press(shown, "tab")
            if focused == "options-first":
                assert shown.focused == "device"
                shown.screen.query_one("#more").focus()
                await shown.pilot.pause()
                assert shown.footer.startswith(" ⏎ More")
                continue
            assert shown.focused == focused
            assert shown.footer.startswith(f" ⏎ {does}")
        await press(shown, "shift+tab", "down", "enter")
        (asked,) = shown.app.asked
        assert asked.log.parent.name == "run-2"
        await press(shown, "shift+tab", "enter")
        assert shown.app.asked[1].script is None


# ---- recent sessions ----


async def test_a_recent_session_has_its_time_its_figure_its_change_and_its_loss(show_home, log_dir):
    for number, step_us in ((1, 20_000), (2, 10_000)):
        begun = BEGIN_WALL + 60 * number
        records = recorded_session(session_id=f"run-{number}", begin_wall=begun, step_us=step_us)
        write_log(log_dir, of_this_boot(records), f"run-{number}")
    async with show_home((120, 40)) as shown:
        heading, newest, older = shown.rows("#recent")
        headings = ["What", "When", "Speed", "vs", "before", "Result", "Loss"]
        assert heading.split() == headings
        # The figure that is compared stands beside the change.
        assert re.search(r"9,\d+ samples/s +2.00× as fast", newest)
        assert "10 min ago" in newest
        assert "2.00× as fast" in newest
        assert "×" not in older.removeprefix("cifar10-cnn")
        spark = newest.split()[-1]
        assert spark[0] == "⣿"
        assert spark[-1] == "⣀"
        await shown.pilot.resize_terminal(80, 24)
        heading, newest, _ = shown.rows("#recent")
        assert heading.split() == ["What", "When", "Result", "vs", "before", "Loss"]
        assert re.search(r"9,\d+ samples/s +2.00× as fast", newest)


def test_a_change_that_may_be_chance_says_so():
    entry = SimpleNamespace()
    assert RecentSession(entry, Ratio(1.01, 0.9, 1.2, 0.4), ()).change_text == "~ 1.010×"
    assert RecentSession(entry, Ratio(1.2, 1.1, 1.3, 0.01), ()).change_text == "1.200× as fast"
    assert RecentSession(entry, None, ()).change_text == ""


async def test_the_highlight_stays_on_its_session_when_a_newer_one_begins(show_home, log_dir):
    def entries(*names):
        for name in names:
            write_log(log_dir, of_this_boot(recorded_session(session_id=name)))
        return list_sessions(log_dir)

    async with show_home() as shown:
        await press(shown, "shift+tab")
        assert shown.focused == "recent"
        shown.screen.show_recent(recent_sessions(entries("run-1", "run-2")))
        await press(shown, "down")
        shown.screen.show_recent(recent_sessions(entries("run-3")))
        await press(shown, "enter")
        (asked,) = shown.app.asked
        assert asked.log.parent.name == "run-1"


# ---- the last script ----


async def test_the_last_script_is_run_by_enter_and_a_log_does_not_tell_it(show_home, log_dir):
    header, *rest = of_this_boot(recorded_session(session_id="from-anybody"))
    header = replace(header, workload="evil.py", command=("evil.py",))
    write_log(log_dir, [header, *rest], "from-anybody")
    async with show_home((80, 24)) as shown:
        assert "⏎  type its command, and run it" in shown.text
        assert "⏎ Run " not in shown.text
        remember_script(("python", "train.py", "--name", "a b"), "/work")
        shown.screen.on_screen_resume()
        await press(shown, "shift+tab", "shift+tab")
        assert "$ python train.py --name 'a b'" in shown.text
        assert "in /work" in shown.text
        await press(shown, "enter")
        (asked,) = shown.app.asked
        assert isinstance(asked, RunScript)
        assert asked.script.command == ("python", "train.py", "--name", "a b")
        assert asked.script.directory == "/work"


@pytest.mark.parametrize(
    ("size", "on_workload"),
    [
        ((80, 24), (True, True, False)),
        ((120, 40), (True, True, False)),
        ((200, 60), (True, True, True)),
    ],
)
async def test_the_workloads_and_their_options_are_in_sight_while_one_is_chosen(
    show_home, size, on_workload
):
    """The machine stands beside them where it fits."""
    async with show_home(size) as shown:

        def in_sight():
            parts = shown.screen._list, shown.screen._form, shown.screen._machine
            return tuple(part.size.height > 0 for part in parts)

        shown.screen.query_one("#script").focus()
        await press(shown)
        assert in_sight() == (False, False, True)
        shown.screen.query_one(WorkloadList).focus()
        await press(shown)
        assert in_sight() == on_workload
        shown.screen.query_one("#script").focus()
        await press(shown)
        assert in_sight() == (False, False, True)
        await shown.pilot.click("#names")
        assert in_sight() == on_workload


async def test_all_options_are_set_to_their_defaults_again(show_home):
    async with show_home(options=RunOptions(batch_size=64, jit="on")) as shown:

        def border():
            return shown.screen.query_one("#options").border_title

        await press(shown, "ctrl+r")
        assert border() == f"Options of {shown.highlighted}"
        await enter(shown, "epochs", "3")
        await enter(shown, "name", "x")
        shown.screen.query_one("#device").focus()
        await press(shown, "right")
        assert "ctrl+r" in border()
        assert "--epochs 3" in shown.text
        await press(shown, "ctrl+r")
        assert border() == f"Options of {shown.highlighted}"
        assert shown.screen._form.typed.options == RunOptions(batch_size=64, jit="on")
        assert shown.focused == "device"


async def burst(shown, *keys):
    """Press keys faster than any of them is handled, as a paste or a slow machine does."""
    for key in keys:
        character = key if len(key) == 1 else None
        shown.app.post_message(Key(key, character))
    for _ in range(6):
        await shown.pilot.pause()


async def test_enter_right_after_other_keys_trains_what_they_chose(show_home):
    async with show_home((80, 24)) as shown:
        await burst(shown, "down", "enter")
        await burst(shown, "slash", *"wide", "enter")
        names = [workload.name for workload, _ in shown.launched]
        assert names == [NAMES[1], "mnist-mlp-wide"]


# ---- the form ----


async def test_tab_goes_through_all_fields_each_in_sight_and_explained(show_home):
    async with show_home((80, 24)) as shown:
        form = shown.screen.query_one("#options")
        form.show_all()
        await press(shown, "escape")
        for field in form.stops:
            option = OPTIONS[field.id]
            await press(shown, "tab")
            assert shown.focused == option.name
            field = shown.screen.query_one(f"#{option.name}")
            assert form.content_region.contains_region(field.region), option.name
            assert f" {option.hint} " in shown.text.splitlines()[form.region.bottom - 1]
        await press(shown, "tab")
        assert shown.focused == "script"
        await press(shown, "tab", "tab")
        assert not form.border_subtitle
        for key in ("shift+tab", "escape", "up"):
            await press(shown, "tab", key)
            assert shown.focused == "workloads", key


async def test_what_is_typed_and_chosen_is_trained_with(show_home, tmp_path):
    async with show_home() as shown:
        await press(shown, "tab", "right")
        for field, text in {
            "batch_size": "64",
            "epochs": "2",
            "steps": "10",
            "threads": "4",
            "cpus": "1",
            "python": "/bin/sh",
            "interval": "0.5",
            "price": "0.5",
            "log_dir": str(tmp_path / "mine"),
        }.items():
            await enter(shown, field, text)
        for field in ("data", "mode", "precision", "jit", "backend"):
            await enter(shown, field, ["right"])
        await enter(shown, "detach", ["space"])
        await press(shown, "enter")
        chosen = RunOptions(
            device="cpu",
            batch_size=64,
            epochs=2,
            steps=10,
            threads=4,
            cpus=1,
            data="synthetic",
            mode="gradients",
            precision="mixed_float16",
            jit="on",
            backend="jax",
            python="/bin/sh",
            interval=0.5,
            price="0.5",
            detach=True,
            log_dir=str(tmp_path / "mine"),
        )
        assert shown.launched == [(WORKLOADS[NAMES[0]], chosen)]


async def test_the_users_own_defaults_are_shown_and_trained_with(show_home):
    configured = RunOptions(device="gpu:3", epochs=3, steps=50, detach=True)
    async with show_home(options=configured) as shown:
        for field, default in (("epochs", "3"), ("steps", "50")):
            assert shown.screen.query_one(f"#{field}").placeholder == default
        assert "gpu:3" in shown.rows("#device")[0]
        shown.screen.query_one(RunForm).show_all()
        await press(shown, "escape")
        assert "yes" in shown.rows("#detach")[0]
        command = "$ dlmon run cifar10-cnn --device gpu:3 --epochs 3 --steps 50 --detach"
        assert shown.command == command
        await press(shown, "enter")
        assert shown.launched == [(WORKLOADS[NAMES[0]], configured)]
        # The word none undoes one; what is typed stays when another workload is highlighted.
        await enter(shown, "steps", "none")
        await press(shown, "escape", "down")
        assert shown.command == command.replace("50", "none").replace(NAMES[0], NAMES[1])
        await press(shown, "enter")
        assert shown.launched[1:] == [(WORKLOADS[NAMES[1]], replace(configured, steps=None))]


async def test_without_keras_it_says_how_to_get_it(show_home, monkeypatch):
    monkeypatch.setattr("dlmon.options.checks.has_keras", lambda: False)
    async with show_home((80, 24)) as shown:
        assert shown.marked == ["Python"]
        said = " ".join(" ".join(shown.rows("#command")).split())
        assert said == (
            "! Keras is not installed here: pip install 'dlmon[tensorflow]', or name an "
            "interpreter that has it with --python PATH"
        )
        await press(shown, "enter")
        assert shown.focused == "python"
        await enter(shown, "python", "/bin/sh")
        assert shown.marked == []
        assert shown.command == "$ dlmon run cifar10-cnn --python /bin/sh"
        await press(shown, "enter")
        assert shown.launched == [(WORKLOADS["cifar10-cnn"], RunOptions(python="/bin/sh"))]


async def test_the_devices_of_the_machine_are_offered_once_they_are_known(show_home):
    async with show_home() as shown:
        await enter(shown, "device", ["right"])
        gpus = (GpuFacts(0, "NVIDIA H200"), GpuFacts(1, "NVIDIA GeForce GTX 1080 Ti"))
        shown.screen.post_message(MachinePanel.FactsRead(MachineFacts(gpus=gpus)))
        await shown.pilot.pause()
        assert shown.typed("device") == "cpu"
        await press(shown, "right")
        assert "gpu:0 H200" in shown.rows("#device")[0]
        await press(shown, "right")
        assert "gpu:1 GTX 1080 Ti" in shown.rows("#device")[0]
        assert shown.command == "$ dlmon run cifar10-cnn --device gpu:1"
        await press(shown, "right")
        assert "gpu:all 2 GPUs" in shown.rows("#device")[0]
        await press(shown, "right")
        assert shown.typed("device") == "auto"


# ---- what can't be ----


async def test_a_wrong_field_is_marked_and_shown_in_place_of_the_command(show_home):
    async with show_home((80, 24), options=RunOptions(batch_size=60_000)) as shown:
        # A default of the user that can't be is one at once.
        assert shown.marked == ["Batch size"]
        await press(shown, "enter")
        assert (shown.launched, shown.focused) == ([], "batch_size")
        await enter(shown, "batch_size", "0")
        sentence = "the batch size must be from 1 to 50,000, the samples of cifar10-cnn, not 0"
        assert shown.command == f"! {sentence}"
        assert sentence in " ".join(" ".join(shown.rows("#command")).split())
        # Of two, the one with the focus is shown.
        await enter(shown, "epochs", "0")
        assert shown.marked == ["Batch size", "Epochs"]
        assert "epochs must be from 1 to" in shown.command
        await press(shown, "escape")
        assert shown.command == f"! {sentence}"
        for field in ("batch_size", "epochs"):
            await enter(shown, field, ["backspace", "8"])
        assert shown.command == "$ dlmon run cifar10-cnn --batch-size 8 --epochs 8"
        assert shown.marked == []


# ---- the command ----


async def test_the_command_is_copied_by_a_key_and_a_click(show_home, monkeypatch):
    async with show_home() as shown:
        copied, notified = [], []
        monkeypatch.setattr(shown.app, "copy_to_clipboard", copied.append)
        monkeypatch.setattr(
            shown.screen,
            "notify",
            lambda text, **options: notified.append((text, options["markup"])),
        )
        await enter(shown, "epochs", "2")
        await press(shown, "ctrl+y")
        await shown.pilot.click("#command", offset=(5, 0))
        await shown.pilot.pause()
        command = "dlmon run cifar10-cnn --epochs 2"
        assert copied == [command] * 2
        assert notified == [(f"copied to the terminal's clipboard: {command}", False)] * 2
        await enter(shown, "steps", "0")
        await press(shown, "ctrl+y")
        assert copied == [command] * 2
        why = "the number of steps must be from 1 to 1,000,000,000, not 0"
        assert notified[2][0] == f"not copied: {why}"


# ---- the machine ----


async def test_while_another_screen_samples_it_samples_nothing_and_nothing_goes_stale(
    home, sensing, clock
):
    shown = home()
    async with shown.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        clock.now_ns = speak(sensing[0])
        # Help over it leaves no hole in its charts.
        await pilot.press("f1")
        await pilot.pause()
        assert isinstance(shown.app.screen, HelpScreen)
        assert [sensors.running for sensors in sensing] == [True]
        await pilot.press("escape")
        shown.app.push_screen(WatchScreen(fake_machine(clock=clock)))
        await pilot.pause()
        assert [sensors.running for sensors in sensing] == [False, True]
        clock.advance(60)
        await pilot.press("q")
        await pilot.pause()
        assert [sensors.running for sensors in sensing] == [False, False, True]
        await paint(pilot)
        assert "stale" not in shown.text
        clock.advance(10)
        sensing[-1].notify("the sensors ended (segmentation fault); they are started again")
        await paint(pilot)
        assert "stale 10 s" in shown.text
        assert "the sensors ended (segmentation fault)" in shown.text


async def test_enter_before_the_form_is_there_trains_once_it_is(home, sensing, monkeypatch):
    async def not_yet(screen):
        """Leave out what comes after the first paint."""

    complete = HomeScreen._complete
    monkeypatch.setattr(HomeScreen, "_complete", not_yet)
    shown = home()
    async with shown.app.run_test() as pilot:
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert shown.launched == []
        await complete(shown.screen)
        await pilot.pause()
        assert [workload.name for workload, _ in shown.launched] == [NAMES[0]]
