"""A sweep tells that it is over; its runs tell what goes wrong."""

import asyncio
from dataclasses import replace

import pytest
from fakes.hook import Hook

from dlmon.alerts.alerts import of_runs, tell_end
from dlmon.alerts.settings import EVENTS, AlertSettings


@pytest.fixture
def hook():
    hook = Hook()
    yield hook
    hook.close()


def tell(settings):
    return asyncio.run(tell_end(settings, "20261120-sweep", "mine", 7500, "3 completed, 1 failed"))


def test_its_end_is_told_with_what_its_runs_came_to(hook):
    assert tell(AlertSettings(url=(hook.url,))) is None
    (body,) = hook.bodies
    assert (body["event"], body["name"]) == ("finished", "mine")
    assert body["text"] == "The sweep has finished after 2 h 5 min"
    assert body["figures"] == ["3 completed, 1 failed"]


def test_what_can_not_be_sent_is_returned(hook):
    hook.answers = [404]
    assert "HTTP 404" in (tell(AlertSettings(url=(hook.url,))) or "")


def test_its_runs_tell_all_but_their_end():
    settings = AlertSettings(url=("https://a/",))
    assert set(of_runs(settings).events) == set(EVENTS) - {"finished"}
    assert asyncio.run(tell_end(replace(settings, events=("failed",)), "x", None, 1, "")) is None
