"""Addresses and settings are checked before anything starts, and no sentence repeats a secret."""

import json
from dataclasses import asdict, replace

import pytest

from dlmon.alerts.alert_settings import (
    AddressError,
    AlertSettings,
    Service,
    address_of,
    check_settings,
)

TELEGRAM = "https://api.telegram.org/bots3cret/sendMessage?chat_id=1"


@pytest.mark.parametrize(
    ("text", "service", "name"),
    [
        ("https://ntfy.sh/s3cret", Service.NTFY, "ntfy.sh"),
        ("https://s3cret.m.example.net/x", Service.JSON, "example.net"),
        ("http://ada:s3cret@localhost:8080/", Service.JSON, "localhost"),
        ("http://127.0.0.1:8080/s3cret", Service.JSON, "127.0.0.1"),
        ("http://[::1]:8080/s3cret", Service.JSON, "::1"),
        ("https://hooks.slack.com/services/s3cret", Service.SLACK, "slack.com"),
        ("slack+https://chat.example.org/hooks/s3cret", Service.SLACK, "example.org"),
        ("https://discord.com/api/webhooks/1/s3cret", Service.DISCORD, "discord.com"),
        (
            "https://api.telegram.org/bots3cret/sendMessage?chat_id=1",
            Service.TELEGRAM,
            "telegram.org",
        ),
        ("tgram://s3cret/1", Service.APPRISE, "tgram://"),
    ],
)
def test_a_service_is_known_by_its_address_and_named_without_its_secret(text, service, name):
    address = address_of(text, here=False)
    assert (address.service, address.name) == (service, name)


@pytest.mark.parametrize(
    "text",
    [
        *("", "s3cret", "https://", "https:///s3cret", "http://s3cret:x/y", "https://[s3cret/"),
        *("file+https://s3cret", "https://a/s3cret\n", "https://ntfy.sh", "https://a/ s3cret"),
        *("https://api.telegram.org/bots3cret/sendMessage", "https://a/" + "s3cret" * 999),
    ],
)
def test_a_wrong_address_is_refused_in_a_sentence_that_does_not_repeat_it(text):
    with pytest.raises(AddressError) as refused:
        address_of(text)
    assert "s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"detail": "all"}, {"events": ("finish",)}, {"stalled_s": -1.0}, {"slower_pct": 101.0}),
        *({"over_s": float("nan")}, {"url": ("https://a/",) * 11}),
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(AddressError):
        check_settings(replace(AlertSettings(), **wrong))


def test_what_the_command_line_says_wins_and_off_is_nothing():
    configured = AlertSettings(url=("https://a/",), command=("x",), stalled_s=5.0)
    assert configured.chosen(None) == configured
    there = configured.chosen("https://b/", "gpu1")
    assert there == replace(configured, url=("https://b/",), host="gpu1")
    assert configured.chosen("off") is AlertSettings().chosen(None) is None
    # A job carries them as JSON.
    assert AlertSettings.from_fields(json.loads(json.dumps(asdict(there)))) == there


def test_an_address_of_apprise_needs_it_here_and_on_another_machine_that_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AddressError, match=r"pip install 'dlmon\[alerts\]'"):
        address_of("tgram://x/1")
    assert address_of("tgram://x/1", here=False).service is Service.APPRISE
