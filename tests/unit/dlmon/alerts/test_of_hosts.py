"""Hosts that are watched: each that is lost is told once, and once more when it is back."""

import pytest
from fakes.hook import Hook
from fakes.sessions import eventually

from dlmon.alerts.alerts import HostAlerts
from dlmon.alerts.settings import AlertSettings


@pytest.fixture
def hook():
    hook = Hook()
    yield hook
    hook.close()


def settings(hook, **changes):
    return AlertSettings(url=(hook.url,), host_lost_s=0, over_s=0, **changes)


def test_a_host_that_is_lost_is_told_once_with_the_reason(hook):
    alerts = HostAlerts(settings(hook))
    alerts.look("gpu1", False, None)
    for _ in range(3):
        alerts.look("gpu1", False, "gpu1 does not answer")
    eventually(lambda: hook.bodies, "the message")
    alerts.look("gpu1", True, None)
    (body,) = hook.bodies
    assert (body["event"], body["host"], body["session"]) == ("host_lost", "gpu1", None)
    assert body["text"].endswith("gpu1 does not answer")
    assert alerts.failures() == []


def test_what_could_not_be_sent_is_said_once(hook):
    hook.answers = [404]
    alerts = HostAlerts(settings(hook))
    alerts.look("gpu1", False, "gpu1 does not answer")
    said = []
    eventually(lambda: said.extend(alerts.failures()) or said, "the failure")
    assert said == ["an alert could not be sent to 127.0.0.1: it refuses it (HTTP 404)"]
    assert alerts.failures() == []


def test_nobody_is_told_of_hosts_who_does_not_ask_for_that(hook):
    alerts = HostAlerts(settings(hook, events=("finished",)))
    alerts.look("gpu1", False, "gpu1 does not answer")
    assert alerts._states == {}
