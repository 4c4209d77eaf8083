"""The screen of several machines: their cards, what is highlighted, and what its keys do."""

import re
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest
from fakes.hosts import FakeHost, FakeLink, facts, live, sample, session
from fakes.recorded import recorded_session, write_log
from fakes.screens import Clock, Shown, dlmon_app_with, fake_machine, screen_text, until
from fakes.states import LONG_NAME, RIGHT_TO_LEFT_NAME, WIDE_NAME
from rich.cells import cell_len

from dlmon.cli.start import Sources
from dlmon.exit_codes import UNREACHABLE
from dlmon.options.settings import Settings
from dlmon.protocol.job import RemoteStart
from dlmon.records import Gpu, Process, to_json
from tui.drawing.themes import LIGHT
from tui.flows.sessions import session_screen
from tui.hosts.card import HostCard, HostTable
from tui.hosts.hosts_screen import HostScreen, HostsScreen
from tui.hosts.pick import HostPicker
from tui.machine.machine import MachinePanel
from tui.sessions.of_host import HostSessionsScreen
from tui.widgets.lines import CHOSEN, Lines

pytestmark = pytest.mark.usefixtures("utc")

SIZES = [(80, 24), (120, 40), (200, 60)]
MARKUP = "[b]bold[/b] [@click=app.quit]x[/]"


@pytest.fixture
def clock():
    return Clock(1_000_000_000_000)


class ShownHosts(Shown):
    """The screen of hosts that a test speaks for."""

    def __init__(self, clock, count):
        self.clock = clock
        names = [f"gpu{number}" for number in range(1, count + 1)]
        self.hosts = {name: FakeHost(name, clock) for name in names}
        super().__init__(HostsScreen(list(self.hosts.values())))

    async def begin(self):
        await until(
            self.pilot, lambda: all(host.connection.is_started for host in self.hosts.values())
        )
        await self.paint()

    async def paint(self):
        for _ in range(2):
            self.screen.tick()
            await self.pilot.pause()

    @property
    def chosen(self):
        host = self.screen.chosen_host
        return host and host.name

    @property
    def chosen_session(self):
        session = self.screen.chosen_session
        return session and session.session

    def titles(self):
        return re.findall(r"╭─ (\S+) ", self.text)

    def styles_of(self, text):
        """Return the styles of what stands on the cards and holds a text."""
        shown = [*self.screen.query(HostCard), self.screen.query_one(HostTable)]
        rows = [row for lines in shown if lines.region.area for row in lines.draw(*lines.size)]
        return {style for row in rows for run, style in row if text in run}


@pytest.fixture
def show(clock):
    """Return a context in which so many hosts are shown."""

    @asynccontextmanager
    async def shown(count, size=(120, 40)):
        hosts = ShownHosts(clock, count)
        async with hosts.on(size):
            yield hosts

    return shown


def all_live(shown, **options):
    for host in shown.hosts.values():
        live(host, shown.clock, **options)


def a_lab(shown):
    """Let hosts be what they can be, in turn."""
    kinds = (_training, _eight_gpus, _without_gpu, _lost, _needs_person, _late, _connecting)
    for number, host in enumerate(shown.hosts.values()):
        kinds[number % len(kinds)](host, shown.clock)


def _training(host, clock):
    live(host, clock, gpus=2, busy=(0, 1), seconds=120)
    host.run(session(1), session(2, workload="resnet", name="base", gpus=[1], epoch=12, epochs=90))


def _eight_gpus(host, clock):
    live(host, clock, gpus=8, busy=(0, 1, 2, 5), seconds=120)
    host.run()


def _without_gpu(host, clock):
    live(host, clock, gpus=0, seconds=120)
    host.run(session(1, workload=None, phase=None, epoch=None, rates=[], gpus=[]))
    host.connection.differ(12.0)


def _lost(host, clock):
    _training(host, clock)
    host.connection.fail(f"{host.name}: the connection was closed", retry_s=15)


def _needs_person(host, clock):
    step = f"run ssh-add or ssh-copy-id {host.name} first"
    why = "it lets nobody in without a password or passphrase here"
    host.connection.fail(f"{host.name}: {step}; {why}", may_pass=False, retry_s=60)


def _late(host, clock):
    _training(host, clock)
    host._arrived_ns = clock() - 45_000_000_000


def _connecting(host, clock):
    pass


# ---- what it shows ----


@pytest.mark.parametrize("count", [7, 32])
async def test_it_looks_right(show, text_snapshot, count):
    pictures = []
    async with show(count, SIZES[0]) as shown:
        a_lab(shown)
        for size in SIZES:
            await shown.pilot.resize_terminal(*size)
            await shown.paint()
            pictures.append(
                f"{f' {count} hosts, {size[0]}×{size[1]} ':═^{size[0]}}\n{shown.text}\n"
            )
    text = "".join(pictures)
    assert text == text_snapshot


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the pictures are of Python 3.11")
def test_a_picture_of_it(clock, snap_compare):
    shown = ShownHosts(clock, 7)

    async def begin(pilot):
        shown.app.theme, shown.pilot = LIGHT, pilot
        await shown.begin()
        a_lab(shown)
        await shown.paint()

    assert snap_compare(shown.app, terminal_size=(120, 40), run_before=begin)


@pytest.mark.parametrize(
    ("count", "size"),
    [(7, (80, 24)), (32, (200, 60))],
)
async def test_no_row_is_wider_than_its_room_whatever_a_host_says(show, size, count):
    foreign = (LONG_NAME, WIDE_NAME, RIGHT_TO_LEFT_NAME, MARKUP)
    async with show(count, size) as shown:
        a_lab(shown)
        for number, host in enumerate(shown.hosts.values()):
            text = foreign[number % len(foreign)]
            if host.connection.is_up:
                foreign_facts = facts(gpus=2, name=text, cpu_model=text, why={"gpus": text})
                rows = (Process(1, text, text, gpus=(0,)),)
                newest = sample(shown.clock() + 1, processes=rows)
                unread = Gpu(1, why={"utilization_pct": text})
                host.connection.report(
                    foreign_facts, replace(newest, gpus=(newest.gpus[0], unread))
                )
                host.run(session(1, name=text, workload=text, phase=text, epoch=10**14))
            else:
                host.connection.fail(text, may_pass=False)
        await shown.paint()
        for widget in shown.screen.query(Lines):
            for y in range(widget.size.height):
                assert widget.render_line(y).cell_length == widget.size.width
        for row in shown.text.splitlines():
            assert cell_len(row) <= size[0]


async def test_losing_a_host_moves_nothing(show):
    async with show(4) as shown:
        all_live(shown)
        shown.hosts["gpu1"].run(session(1))
        await shown.paint()
        before = shown.text.splitlines()
        shown.hosts["gpu1"].connection.fail("gpu1: the connection was closed", retry_s=1)
        await shown.paint()
        after = shown.text.splitlines()
        frame = [re.sub(r"[^╭╮╰╯│]", " ", row).rstrip() for row in before]
        assert [re.sub(r"[^╭╮╰╯│]", " ", row).rstrip() for row in after] == frame
        assert "lost since 21:04:05" in after[1]
        assert "gpu1: the connection was closed" in after[-2]


# ---- its keys ----


async def test_arrows_move_between_cards(show):
    async with show(5) as shown:
        seen = [shown.chosen]
        for key in ("right", "down", "down", "left", "up", "up", "up", "end", "home"):
            await shown.press(key)
            seen.append(shown.chosen)
        assert seen == [
            *("gpu1", "gpu2", "gpu4", "gpu5", "gpu4", "gpu2", "gpu2", "gpu2", "gpu5", "gpu1")
        ]


async def test_below_many_rows_are_the_cards_of_the_highlighted_host_and_of_others(show):
    async with show(20) as shown:
        all_live(shown)
        await shown.paint()
        assert shown.titles() == ["gpu1", "gpu2", "gpu3", "gpu4"]
        await shown.press("end")
        await shown.paint()
        assert shown.titles() == ["gpu20", "gpu1", "gpu2", "gpu3"]


@pytest.mark.parametrize(("count", "key"), [(6, "down"), (32, "pagedown")])
async def test_the_highlight_stays_in_sight(show, count, key):
    async with show(count, (80, 24)) as shown:
        all_live(shown)
        await shown.paint()
        for _ in range(count):
            await shown.press(key)
            assert re.search(rf"{shown.chosen}\b", "\n".join(shown.text.splitlines()[:-3]))
        assert shown.chosen == f"gpu{count}"


async def test_enter_and_a_double_click_ask_for_the_host(show):
    async with show(2) as shown:
        await shown.press("right", "enter")
        await shown.pilot.pause()
        assert type(shown.app.screen).__name__ == "HostScreen"
        shown.app.pop_screen()
        await shown.pilot.pause()
        await shown.pilot.click(HostCard, offset=(5, 1), times=2)
        await shown.pilot.pause()
        assert type(shown.app.screen).__name__ == "HostScreen"


async def test_tab_highlights_a_session_and_enter_asks_for_it(show):
    async with show(1, (80, 24)) as shown:
        assert "tab Session" not in shown.text
        all_live(shown)
        shown.hosts["gpu1"].run(session(1), session(2))
        await shown.paint()
        assert "tab Session" in shown.text
        first, second = session(1)["session"], session(2)["session"]
        seen = []
        for key in ("tab", "tab", "tab", "shift+tab"):
            await shown.press(key)
            seen.append(shown.chosen_session)
        assert seen == [first, second, None, second]
        assert shown.styles_of("cifar10-cnn") >= {CHOSEN}
        await shown.press("enter")
        (asked,) = shown.app.asked
        assert (asked.host, asked.session) == ("gpu1", second)
        # One that has ended is highlighted no more.
        shown.hosts["gpu1"].run(session(1))
        await shown.paint()
        assert shown.chosen_session is None


async def test_hosts_that_change_do_not_change_places_all_the_time(show):
    async with show(2, (80, 40)) as shown:
        live(shown.hosts["gpu1"], shown.clock, gpus=2, busy=())
        live(shown.hosts["gpu2"], shown.clock, gpus=2, busy=(0, 1))
        await shown.paint()
        table = shown.screen.table
        table._times_shown = 0
        await shown.press("o", "o")
        assert shown.titles() == ["gpu1", "gpu2"]
        # A GPU is free once it has been idle for ten seconds.
        shown.clock.advance(11)
        shown.hosts["gpu1"].connection.report(sample(shown.clock(), 2, busy=(0, 1)))
        shown.hosts["gpu2"].connection.report(sample(shown.clock(), 2, busy=()))
        table._times_shown = 1
        await shown.paint()
        assert shown.titles() == ["gpu1", "gpu2"]
        table._times_shown = 9
        await shown.paint()
        assert shown.titles() == ["gpu2", "gpu1"]


async def test_the_filter_shows_only_hosts_that_match(show):
    async with show(3, (80, 40)) as shown:
        await shown.press("slash", *"u2", "enter")
        assert shown.titles() == ["gpu2"]
        assert shown.text.startswith(" 1 of 3 hosts  1 connecting")
        await shown.press("slash", "x", "enter", "enter")
        assert "no host matches" in shown.text
        assert shown.app.asked == []


async def test_retry_tries_all_that_are_not_connected_and_leaving_ends_all(show):
    async with show(3, (80, 24)) as shown:
        shown.hosts["gpu1"].connect()
        shown.hosts["gpu2"].connection.fail("gone")
        await shown.press("R")
        assert [host.connection.retries for host in shown.hosts.values()] == [0, 1, 1]
        await shown.press("ctrl+c")
    assert all(host.connection.is_closed for host in shown.hosts.values())


# ---- a host in full ----


@pytest.fixture
def app_of(clock, tmp_path):
    """Return what makes the app with hosts that a test speaks for."""
    made, links = {}, []

    def link(name):
        links.append(FakeLink(name, clock))
        return links[-1]

    def host(name, interval_s=1.0, pcie=False):
        made[name] = FakeHost(name, clock, interval_s, pcie)
        return made[name]

    def make(*names, **more):
        sources = Sources(hosts=host, connection=link)
        app = dlmon_app_with(sources)(tmp_path, hosts=names, **more)
        app.links = links
        return app, made

    return make


async def test_a_host_in_full_says_which_it_is_and_is_left_with_its_connection_up(app_of, clock):
    app, hosts = app_of("gpu1", "lab@gpu2", watch_interval_s=0.5)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: all(host.connection.is_started for host in hosts.values()))
        assert [host.interval_s for host in hosts.values()] == [0.5, 0.5]
        live(hosts["lab@gpu2"], clock)
        app.screen.tick()
        await pilot.press("right", "enter")
        await until(pilot, lambda: app.screen.query(MachinePanel))
        assert isinstance(app.screen, HostScreen)
        app.screen.tick()
        app.screen.query_one(MachinePanel).paint()
        await pilot.pause()
        text = screen_text(app)
        assert text.splitlines()[0].startswith(" lab@gpu2")
        assert "2 × NVIDIA H100" in text
        assert "q Back" in text.splitlines()[-1]
        hosts["lab@gpu2"].connection.fail("lab@gpu2: the connection was closed")
        app.screen.tick()
        await pilot.pause()
        assert "lost since 21:04:05" in screen_text(app).splitlines()[0]
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, HostsScreen)
        assert hosts["lab@gpu2"].is_on
        assert [each.ask for each in hosts["lab@gpu2"].connection.standing] == ["watch", "running"]
        await pilot.press("q")
    assert app.return_code == 0
    assert all(host.connection.is_closed for host in hosts.values())


async def test_nobody_has_to_wait_for_a_session_of_a_host_and_why_it_is_not_shown_is_said(
    app_of, clock
):
    app, hosts = app_of("gpu1")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: hosts["gpu1"].connection.is_started)
        live(hosts["gpu1"], clock)
        hosts["gpu1"].run(session(1))
        app.screen.tick()
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "connecting to gpu1" in screen_text(app))
        await until(pilot, lambda: app.links and app.links[0].is_started)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, HostsScreen))
        assert app.screen_stack == [app.screen]
        assert app.links[0].is_closed
        await pilot.press("enter")
        await until(pilot, lambda: len(app.links) == 2)
        app.links[1].fail("gpu1 refuses connections by ssh")
        await until(pilot, lambda: "gpu1 refuses connections" in screen_text(app))
        assert isinstance(app.screen, HostsScreen)
        assert app.links[1].is_closed


async def test_a_host_that_can_not_be_reached_ends_what_was_to_show_a_session_of_it(
    clock, tmp_path, capsys
):
    links = []

    def link(name):
        links.append(FakeLink(name, clock))
        links[-1].fail("gpu9 is not known: no such host name")
        return links[-1]

    app = dlmon_app_with(Sources(connection=link))(tmp_path, remote=RemoteStart("gpu9"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: links and links[0].is_closed)
    assert app.return_value == UNREACHABLE
    assert app.refused == "gpu9 is not known: no such host name"


async def test_a_run_on_another_machine_is_started_from_the_form(clock, tmp_path):
    links = []

    def link(name):
        links.append(FakeLink(name, clock))
        return links[-1]

    sources = Sources(connection=link, machine=partial(fake_machine, clock=clock))
    app = dlmon_app_with(sources)(tmp_path)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.screen.query("#host"))
        await pilot.press("slash", "escape")
        app.screen.query_one("#options").focus_option("host")
        await until(pilot, lambda: app.focused.id == "host")
        await pilot.press(*"gpu1", "enter")
        await until(pilot, lambda: "connecting to gpu1" in screen_text(app))
        await until(pilot, lambda: links and links[0].is_started)
        assert links[0].host == "gpu1"
        links[0].fail("gpu1 has a host key that is not known yet: run ssh gpu1 once")
        await until(pilot, lambda: "has a host key" in screen_text(app))
        assert app.screen.query("#host")
        assert links[0].is_closed
        app.screen.query_one("#host").value = "-x"
        await until(pilot, lambda: "is not a host" in screen_text(app))


@pytest.fixture
def listed(app_of, clock):
    """Return a context in which the sessions of a host are listed."""

    @asynccontextmanager
    async def begin(*sessions, sweeps=()):
        app, hosts = app_of("gpu1")
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await until(pilot, lambda: hosts["gpu1"].connection.is_started)
            live(hosts["gpu1"], clock)
            hosts["gpu1"].connection.answers["sessions"] = sessions
            hosts["gpu1"].connection.answers["sweeps"] = sweeps
            app.screen.tick()
            await pilot.pause()
            await pilot.press("r")
            await until(pilot, lambda: isinstance(app.screen, HostSessionsScreen))
            yield app, pilot, hosts["gpu1"].connection

    return begin


def recorded_there(session):
    header, *_, result = recorded_session(session_id=session, workload="mnist-mlp-small")
    return {
        "folder": session,
        "file": "session.jsonl",
        "status": "completed",
        "name": "night",
        "note": None,
        "header": to_json(header),
        "result": to_json(result),
    }


async def test_what_was_recorded_on_a_host_is_listed_and_opened(listed):
    async with listed(recorded_there("first"), recorded_there("../etc")) as (app, pilot, _):
        await until(pilot, lambda: "night" in screen_text(app))
        text = screen_text(app)
        assert "Sessions on gpu1" in text
        assert "1 recorded" in text
        # What needs a log of this machine is not offered.
        for label in ("Compare", "Replay", "Report", "Rename", "Delete", "Mark"):
            assert label not in text.splitlines()[-1]
        await pilot.press("c", "v", "u", "x", "space")
        assert isinstance(app.screen, HostSessionsScreen)
        await pilot.press("enter")
        await until(pilot, lambda: "connecting to gpu1" in screen_text(app))
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, HostSessionsScreen))
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, HostsScreen))


async def test_from_a_session_of_a_host_the_sessions_there_are_listed_not_the_copies_here(
    app_of, clock, tmp_path
):
    app, _ = app_of("gpu1")
    link = FakeLink("gpu1", clock)
    there = {**recorded_there("first"), "status": "running", "result": None}
    link.answers |= {"sessions": [there], "sweeps": []}
    # Nobody here holds the lock of the copy.
    copy = write_log(tmp_path / "copies", recorded_session("training", session_id="first"), "first")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = session_screen(app, app.sources.follow(copy), None, link, log_dir="/there")
        app.push_screen(screen)
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("r")
        await until(pilot, lambda: "1 recorded" in screen_text(app))
        text = screen_text(app)
        assert "Sessions on gpu1" in text
        assert "running" in text
        assert "interrupted" not in text
        assert link.asked == [("sessions", "/there"), ("sweeps", "/there")]
        # The session that is shown is not copied once more.
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)


@pytest.fixture
def picker(clock, tmp_path, monkeypatch):
    """Return a context in which the hosts of a config and of groups can be picked."""

    @asynccontextmanager
    async def begin(config, **groups):
        home = tmp_path / "home"
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "config").write_text(config)
        monkeypatch.setenv("HOME", str(home))
        made = []

        def host(name, interval_s=1.0, pcie=False):
            made.append(FakeHost(name, clock, interval_s, pcie))
            return made[-1]

        sources = Sources(hosts=host, machine=partial(fake_machine, clock=clock))
        settings = Settings(hosts={name: tuple(hosts) for name, hosts in groups.items()})
        app = dlmon_app_with(sources)(tmp_path, settings=settings)
        async with app.run_test(size=(80, 24), notifications=True) as pilot:
            await pilot.press("h")
            await until(pilot, lambda: isinstance(app.screen, HostPicker))
            await pilot.pause()
            yield app, pilot, made

    return begin


CONFIG = "Host gpu1 gpu2\n  User lab\nHost *\n  Compression yes\n"


async def test_hosts_and_groups_are_picked_on_the_home_screen(picker):
    async with picker(CONFIG, lab=["gpu2", "lab@gpu3"]) as (app, pilot, made):
        await until(pilot, lambda: "gpu2, lab@gpu3" in screen_text(app))
        rows = screen_text(app).splitlines()
        assert "@lab" in rows[1]
        assert "gpu1" in rows[2]
        assert "gpu2" in rows[3]
        # A group, and a host of it beside it: each host once.
        await pilot.press("space", "down", "space")
        await until(pilot, lambda: "2 marked" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, HostsScreen))
        assert [host.name for host in made] == ["gpu2", "lab@gpu3"]
        await pilot.press("q")
        await until(pilot, lambda: app.screen.query("#options"))
    assert all(host.connection.is_closed for host in made)


async def test_where_no_host_is_known_it_says_where_they_are_named(picker):
    async with picker("") as (app, pilot, made):
        await until(pilot, lambda: "Type below what you would type after ssh" in screen_text(app))
        await pilot.press("enter")
        assert isinstance(app.screen, HostPicker)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.query("#options"))
        assert not made
        await pilot.press("h")
        await until(pilot, lambda: "anna@10.0.0.7" in screen_text(app))
        await pilot.press(*"q1 lab@gpu7", "enter")
        await until(pilot, lambda: isinstance(app.screen, HostsScreen))
        assert [host.name for host in made] == ["q1", "lab@gpu7"]
