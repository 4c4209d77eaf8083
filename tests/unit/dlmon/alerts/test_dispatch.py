"""Watched hosts and sweeps: what becomes of them is told once."""

import asyncio

import pytest
from fakes.hook import Hook
from fakes.sessions import eventually

from dlmon.alerts.alert_settings import EVENTS, AlertSettings
from dlmon.alerts.dispatch import HostAlerts, send_sweep_alert, settings_of_runs
from dlmon.alerts.rules import RuleState, advance, host_cause


@pytest.fixture
def hook():
    hook = Hook()
    yield hook
    hook.close()


def settings(hook, **changes):
    return AlertSettings(url=(hook.url,), host_lost_s=0, over_s=0, **changes)


def test_a_host_that_is_lost_is_told_once_with_the_reason(hook):
    alerts = HostAlerts(settings(hook))
    alerts.update("gpu1", False, None)
    for _ in range(3):
        alerts.update("gpu1", False, "gpu1 does not answer")
    eventually(lambda: hook.bodies, "the message")
    alerts.update("gpu1", True, None)
    (body,) = hook.bodies
    assert (body["event"], body["host"], body["session"]) == ("host_lost", "gpu1", None)
    assert body["text"].endswith("gpu1 does not answer")
    assert alerts.failures() == []


def test_a_failure_to_send_is_reported_once(hook):
    alerts = HostAlerts(settings(hook))
    hook.answers, said = [404], []
    alerts.update("gpu2", False, "gpu2 does not answer")
    eventually(lambda: said.extend(alerts.failures()) or said, "the failure")
    assert said == ["an alert could not be sent to 127.0.0.1: it refuses it (HTTP 404)"]
    assert alerts.failures() == []


def test_a_host_is_lost_after_a_minute_without_an_answer():
    state, told = RuleState(), []
    for second, why in enumerate([*["gpu1 does not answer"] * 70, *[None] * 40]):
        cause = host_cause("gpu1", why, AlertSettings())
        state, alert = advance(state, cause, second * 10**9, AlertSettings())
        told += [alert.text] if alert else []
    assert told == [
        "gpu1 has been lost for 60 s: gpu1 does not answer",
        "gpu1 answers again, after 70 s",
    ]


# ---- a sweep ----


def test_the_end_of_a_sweep_is_told_with_what_its_runs_came_to(hook):
    def tell(told_of):
        runs = "3 completed, 1 failed"
        return asyncio.run(send_sweep_alert(told_of, "20261120-sweep", "mine", 7500, runs))

    assert tell(AlertSettings(url=(hook.url,))) is None
    (body,) = hook.bodies
    assert (body["event"], body["name"]) == ("finished", "mine")
    assert body["text"] == "The sweep has finished after 2 h 5 min"
    assert body["figures"] == ["3 completed, 1 failed"]
    hook.answers = [404]
    assert "HTTP 404" in tell(AlertSettings(url=(hook.url,)))
    assert tell(AlertSettings(url=(hook.url,), events=("failed",))) is None
    # Its runs tell all but their end.
    assert set(settings_of_runs(AlertSettings(url=(hook.url,))).events) == set(EVENTS) - {
        "finished"
    }


def test_nobody_is_told_of_hosts_who_does_not_ask_for_that(hook):
    alerts = HostAlerts(settings(hook, events=("finished",)))
    alerts.update("gpu1", False, "gpu1 does not answer")
    assert alerts._states == {}
