"""The home screen: what can be trained, what it took here before, and the machine, live."""

import pytest
from fakes.recorded import BEGIN_WALL, recorded_session, write_log
from fakes.screens import OneScreen, of_this_boot, screen_text

from dlmon.records import Facts, Machine
from dlmon.sessions import list_sessions
from tui.screens.home import HomeScreen
from tui.screens.watch import WatchScreen
from tui.widgets.machine_panel import MachinePanel
from workloads.catalog import WORKLOADS

NAMES = list(WORKLOADS)


class ShownHome:
    """The home screen, and what was asked to be trained on it."""

    def __init__(self, entries):
        self.trained = []
        self.screen = HomeScreen(entries, lambda workload: self.trained.append(workload.name))
        self.app = OneScreen(self.screen)

    @property
    def text(self):
        return screen_text(self.app)

    @property
    def about(self):
        """What is said of the highlighted workload, as one line."""
        return " ".join(str(self.screen.query_one("#about").content).split())


@pytest.fixture
def home(log_dir, sensing):
    return lambda: ShownHome(list_sessions(log_dir))


def speak(sensors, gpus=1, cores=8, samples=20):
    """Have sensors tell what a machine is, and some samples of it."""
    records = recorded_session(gpus=gpus, cores=cores)
    header = records[0]
    sensors.say(Facts(header.t, header.wall, header.host, header.machine))
    told = [record for record in records if isinstance(record, Machine)][:samples]
    sensors.say(*told)
    return told[-1].t


async def paint(pilot):
    pilot.app.screen.query_one(MachinePanel).paint()
    await pilot.pause()
    await pilot.pause()


# ---- workloads ----


async def test_every_workload_can_be_picked_and_the_first_one_is_described(home):
    shown = home()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert all(name in shown.text for name in NAMES)
        first = WORKLOADS[NAMES[0]]
        assert first.title in shown.about
        assert "1,337,002 parameters, 236 MFLOP a sample" in shown.about
        assert "batch 100, 10 epochs of 50,000 samples" in shown.about
        assert f"dlmon run {NAMES[0]}" in shown.about
        assert first.source in shown.about


async def test_the_arrows_describe_another_and_enter_trains_it(home):
    shown = home()
    async with shown.app.run_test() as pilot:
        await pilot.press("down")
        await pilot.pause()
        assert WORKLOADS[NAMES[1]].title in shown.about
        await pilot.press("enter")
        await pilot.pause()
        assert shown.trained == [NAMES[1]]


async def test_a_click_trains_what_was_clicked(home):
    shown = home()
    async with shown.app.run_test() as pilot:
        await pilot.pause()
        await pilot.click("#workloads", offset=(4, 3))
        await pilot.pause()
        assert shown.trained == [NAMES[2]]


async def test_the_footer_offers_to_train_to_watch_and_to_quit(home):
    shown = home()
    async with shown.app.run_test(size=(80, 24)):
        footer = shown.text.splitlines()[-1].split()
        assert footer == ["⏎", "Train", "it", "w", "Watch", "the", "machine", "q", "Quit"]


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_quit_closes_dlmon(home, key):
    shown = home()
    async with shown.app.run_test() as pilot:
        await pilot.press(key)
        await pilot.pause()
        assert not shown.app.is_running


# ---- what it took here before ----


async def test_a_workload_never_trained_says_so(home):
    shown = home()
    async with shown.app.run_test() as pilot:
        await pilot.pause()
        assert "not trained here yet" in shown.about


async def test_the_last_result_of_this_machine_is_told(home, log_dir, utc):
    for day in range(2):
        records = recorded_session(
            session_id=f"day-{day}", begin_wall=BEGIN_WALL + day * 86_400, epochs=3 - day
        )
        write_log(log_dir, of_this_boot(records))
    write_log(log_dir, recorded_session(session_id="elsewhere", begin_wall=BEGIN_WALL + 9e5))
    cut = recorded_session("training", session_id="cut", begin_wall=BEGIN_WALL + 1e6)
    write_log(log_dir, of_this_boot(cut))
    shown = home()
    async with shown.app.run_test() as pilot:
        await pilot.pause()
        assert "last here: 9.91 s ± 0.75 an epoch, 2026-11-21 14:56" in shown.about


async def test_a_workload_that_is_compared_whole_tells_the_time_of_a_run(home, log_dir, utc):
    records = recorded_session(workload="mnist-mlp-small", step_us=700)
    write_log(log_dir, of_this_boot(records))
    shown = home()
    async with shown.app.run_test() as pilot:
        await pilot.press("down")
        await pilot.pause()
        assert "last here: 5.66 s a run, 2026-11-20 14:56" in shown.about


async def test_results_that_came_meanwhile_are_taken(home, log_dir):
    shown = home()
    async with shown.app.run_test() as pilot:
        await pilot.pause()
        write_log(log_dir, of_this_boot(recorded_session()))
        shown.screen.show_entries(list_sessions(log_dir))
        await pilot.pause()
        assert "last here: 9.16 s ± 2.15 an epoch" in shown.about


# ---- the machine ----


async def test_until_the_sensors_answer_it_says_that_they_are_waited_for(home, sensing):
    shown = home()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await paint(pilot)
        assert [sensors.running for sensors in sensing] == [True]
        assert "waiting for the sensors" in shown.text
        assert "waiting for the first sample" in shown.text


async def test_the_machine_stands_beside_live(home, sensing, clock):
    shown = home()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        clock.now_ns = speak(sensing[0])
        await paint(pilot)
        assert "Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz" in shown.text
        assert "8 cores  32.0 GiB  5.1 GiB used" in shown.text
        assert "41 %  3.3 of 8 cores  4.6 GHz ─╮" in shown.text
        assert " 97 %  61 °C  118 of 120 W ─╮" in shown.text


@pytest.mark.parametrize(("cores", "rows"), [(8, 4), (32, 1), (64, 2), (200, 6)])
async def test_every_core_has_a_place(home, sensing, clock, cores, rows):
    shown = home()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        clock.now_ns = speak(sensing[0], cores=cores)
        await paint(pilot)
        widget = shown.screen.query_one("CoreRows")
        told = [widget.render_line(y).text.rstrip() for y in range(widget.size.height)][2:]
        assert len(told) == rows
        if cores == 8:
            assert [row.split()[0] for row in told] == ["0", "2", "4", "6"]
            assert "".join(told).count("%") == 8
        else:
            assert sum(len(row.split()[1]) for row in told) == cores


async def test_sensors_that_fall_silent_are_told_with_their_reason(home, sensing, clock):
    shown = home()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        clock.now_ns = speak(sensing[0])
        clock.advance(7)
        sensing[0].tell("the sensors ended (segmentation fault); they are started again")
        await paint(pilot)
        assert "stale 7 s" in shown.text
        assert "the sensors ended (segmentation fault)" in shown.text


async def test_while_another_screen_is_on_top_nothing_is_sampled_and_nothing_goes_stale(
    home, sensing, clock
):
    shown = home()
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        clock.now_ns = speak(sensing[0])
        shown.app.push_screen(WatchScreen(shown.app.pop_screen))
        await pilot.pause()
        assert [sensors.running for sensors in sensing] == [False, True]
        clock.advance(60)
        await pilot.press("q")
        await pilot.pause()
        assert [sensors.running for sensors in sensing] == [False, False, True]
        await paint(pilot)
        assert "stale" not in shown.text
        clock.advance(10)
        await paint(pilot)
        assert "stale 10 s" in shown.text


async def test_leaving_ends_the_sensors(home, sensing):
    shown = home()
    async with shown.app.run_test() as pilot:
        await pilot.pause()
        assert [sensors.running for sensors in sensing] == [True]
    assert [sensors.running for sensors in sensing] == [False]


async def test_a_terminal_that_is_too_small_says_what_is_needed(home):
    shown = home()
    async with shown.app.run_test(size=(59, 24)) as pilot:
        await pilot.pause()
        assert shown.text.strip() == "dlmon needs 60 × 16, this is 59 × 24"
        await pilot.resize_terminal(60, 16)
        await pilot.pause()
        assert "Workloads" in shown.text
        assert NAMES[0] in shown.text
