"""Sending never waits, never asks too often, and says what it could not send, without secrets."""

import asyncio
import json
import sys
import threading
import time

import pytest
from fakes.hook import A_MEGABYTE, HANGS, NO_HTTP, TRICKLES, Hook
from fakes.sessions import eventually

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.alerts.message import About, message_of
from dlmon.alerts.sender import MOST_WAITING, Destination, Sender, SendQueue, destinations_of
from dlmon.records import Alert, AlertEvent

ABOUT = About("box", 0.0, "a-session", "train.py", None, "dlmon attach a-session")


def message(number=0):
    return message_of(Alert(0, AlertEvent.NAN, f"number {number}", 0, False, ()), ABOUT)


@pytest.fixture
def hook():
    hooks = []

    def make(*answers):
        hooks.append(Hook(*answers))
        return hooks[-1]

    yield make
    for each in hooks:
        each.close()


class Recorder:
    """A destination that notes what it is sent, and how it answers."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.payloads = []
        self.failures = []
        self.go_on = threading.Event()
        self.go_on.set()

    def deliver(self, payload, timeout_s):
        self.payloads.append(payload)
        self.go_on.wait()
        return self.answers.pop(0) if self.answers else None

    def queue(self, every_s=60.0, pauses_s=(0.0, 0.0)):
        destination = Destination("the destination", self.deliver, pauses_s, 5.0)
        return SendQueue(destination, self.failures.append, every_s)


def done(queue):
    queue.close()
    eventually(lambda: queue.is_done, "the end of sending")


# ---- how often, how much ----


def test_the_first_message_goes_at_once_and_what_comes_within_a_minute_in_one_more():
    destination = Recorder()
    queue = destination.queue()
    queue.put(message(0))
    eventually(lambda: destination.payloads, "the first message")
    for number in range(1, 4):
        queue.put(message(number))
    done(queue)
    assert [payload["event"] for payload in destination.payloads] == ["nan", "several"]
    assert [each["text"] for each in destination.payloads[1]["events"]] == [
        "number 1",
        "number 2",
        "number 3",
    ]


def test_of_a_thousand_in_a_minute_the_newest_hundred_are_kept_and_all_are_counted():
    destination = Recorder()
    destination.go_on.clear()
    queue = destination.queue()
    queue.put(message())
    eventually(lambda: destination.payloads, "the first message")
    began = time.monotonic()
    for number in range(1000):
        queue.put(message(number))
    assert time.monotonic() - began < 5  # nothing waited for what hangs
    destination.go_on.set()
    done(queue)
    assert len(destination.payloads) == 2
    assert destination.payloads[1]["count"] == 1000
    assert len(destination.payloads[1]["events"]) == MOST_WAITING
    assert destination.payloads[1]["events"][-1]["text"] == "number 999"


# ---- what goes wrong ----


def test_there_are_three_tries_and_then_a_sentence():
    destination = Recorder("HTTP 500", "HTTP 500", "HTTP 500")
    queue = destination.queue()
    queue.put(message())
    done(queue)
    assert len(destination.payloads) == 3
    assert destination.failures == [
        "an alert could not be sent to the destination: HTTP 500 (3 tries)"
    ]


def test_who_closes_it_waits_for_no_pause():
    destination = Recorder("HTTP 500", "HTTP 500", "HTTP 500")
    queue = destination.queue(pauses_s=(600.0, 600.0))
    queue.put(message())
    eventually(lambda: destination.payloads, "the first try")
    done(queue)
    assert len(destination.payloads) == 3
    assert len(destination.failures) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (500, "HTTP 500"),
        (302, "it redirects elsewhere (HTTP 302)"),
        (307, "it redirects elsewhere (HTTP 307)"),
        (404, "it refuses it (HTTP 404)"),
        (429, "HTTP 429"),
        (HANGS, "it does not answer in time"),
        (TRICKLES, "it does not answer in time"),
        (NO_HTTP, "its answer is not understood (BadStatusLine)"),
        # Nothing is read of it.
        (A_MEGABYTE, None),
    ],
)
def test_a_server_that_misbehaves_is_left_with_a_reason_that_holds_no_secret(hook, answer, why):
    server = hook(answer)
    (destination,) = destinations_of(AlertSettings(url=(server.url,)))
    assert destination.deliver(message(), 0.5) == why
    assert server.paths == ["/s3cret"], "a redirect is not followed"


def test_a_server_that_holds_a_try_open_is_asked_again_once_that_has_ended(hook):
    server = hook(TRICKLES, 200)
    (destination,) = destinations_of(AlertSettings(url=(server.url,)))
    assert destination.deliver(message(), 0.2) == "it does not answer in time"
    assert destination.deliver(message(), 0.2) == "it does not answer in time"
    assert len(server.paths) == 1
    server.released.set()
    eventually(lambda: destination.deliver(message(), 5.0) is None, "a message that arrives")
    assert len(server.paths) == 2


def test_one_place_that_hangs_holds_up_no_other_and_one_that_is_down_is_said(hook):
    slow, quick, down, said = hook(HANGS), hook(), Hook(), []
    down.close()
    sender = Sender(AlertSettings(url=(slow.url, quick.url, down.url)), said.append)
    sender.put(message())
    eventually(lambda: quick.bodies, "the message at the other destination")
    assert quick.bodies[0]["text"] == "number 0"
    slow.released.set()
    assert asyncio.run(sender.finish())
    assert any("127.0.0.1: connection refused" in why for why in said)


# ---- a command ----


def run(*command, timeout_s=20.0):
    (destination,) = destinations_of(AlertSettings(command=command))
    return destination.deliver(message(), timeout_s)


def test_a_command_gets_the_message_as_json_on_its_stdin(tmp_path):
    copy = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    assert run(sys.executable, "-c", copy, str(tmp_path / "it's here")) is None
    assert json.loads((tmp_path / "it's here").read_text()) == message()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("false",), "it ended with exit code 1"),
        (("/no/such/command",), "it ended with exit code 127"),
        (("sleep", "60"), "it did not end within 2 s"),
        # What it leaves running is nobody's to wait for.
        (("sh", "-c", "sleep 30 & exit 0"), None),
    ],
)
def test_a_command_that_fails_hangs_or_is_not_there_is_said(command, why):
    assert run(*command, timeout_s=2.0) == why


# ---- apprise ----


def test_an_address_of_apprise_is_asked_by_it(monkeypatch):
    asked = []

    class Service:
        socket_connect_timeout = socket_read_timeout = 60.0

    class Apprise:
        def __init__(self):
            self._services = [Service()]

        def __iter__(self):
            return iter(self._services)

        def add(self, url):
            return url != "nonsense://x"

        def notify(self, title, body):
            [service] = self._services
            asked.append((title, service.socket_connect_timeout + service.socket_read_timeout))
            return True

    module = type(sys)("apprise")
    module.Apprise = Apprise
    monkeypatch.setitem(sys.modules, "apprise", module)
    destinations = destinations_of(AlertSettings(url=("tgram://s3cret/1", "nonsense://x")))
    assert [destination.deliver(message(), 5.0) for destination in destinations] == [
        None,
        "it refuses it: apprise does not know such an address",
    ]
    assert asked == [("train.py on box", 5.0)]
    monkeypatch.setitem(sys.modules, "apprise", None)
    assert destinations[0].deliver(message(), 5.0) == "it refuses it: apprise is not installed"
