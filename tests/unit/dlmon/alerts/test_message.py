"""A message says what it has to, in the body that its service wants, and no more."""

import base64
import json
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session

from dlmon.alerts.alert_settings import EVENTS, address_of
from dlmon.alerts.message import (
    LONGEST_BODY,
    MOST_LINES,
    About,
    message_of,
    payload_of,
    request_of,
    text_of,
    title_of,
    without_paths,
)
from dlmon.records import Alert, AlertEvent
from dlmon.render.alert_test import samples

ABOUT = About("box", 1.7e9, "20261120-145600-train-py-7f3a", "train.py", None, "dlmon attach 7f3a")
ALERT = Alert(
    5, AlertEvent.FAILED, "Failed: no file /home/ada/data/x.bin", 5, False, ("3 epochs", "9 s")
)


def sent_to(address, *messages):
    url, body, headers = request_of(address_of(address), payload_of(messages))
    return url, json.loads(body), headers


def message(alert=ALERT, detail="brief", details=None):
    return message_of(alert, ABOUT, detail, details)


@pytest.mark.parametrize(
    ("log_dir", "host", "attach"),
    [
        ("state/dlmon/sessions", None, "dlmon attach 7f3a"),
        ("state/dlmon/sessions", "box", "dlmon attach --host box 7f3a"),
        ("home/my runs", None, "dlmon attach --log-dir '~/my runs' 7f3a"),
        ("scratch", "box", "dlmon attach --host box --log-dir {}/scratch 7f3a"),
    ],
)
def test_how_to_attach_names_where_the_log_is_if_that_is_not_the_usual_folder(
    log_dir, host, attach, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    header = replace(recorded_session()[0], id="7f3a")
    log = tmp_path / log_dir / "7f3a" / "session.jsonl"
    assert About.of(header, log, None, host).attach == attach.format(tmp_path)


def test_a_message_holds_which_run_where_what_since_when_two_figures_and_how_to_attach():
    text = f"{title_of(message())}\n{text_of(message())}"
    assert text == ("train.py on box\nFailed: no file x.bin: 3 epochs; 9 s\ndlmon attach 7f3a")
    assert message()["since"].startswith("2023-11-")


def test_paths_output_and_argv_are_left_out_unless_all_is_asked_for():
    details = {"command": ["python", "--token", "s3cret"], "output": ["private"]}
    assert "s3cret" not in json.dumps(message(details=details))
    full = message(detail="full", details=details)
    assert full["details"] == details
    assert "/home/ada/data/x.bin" in full["text"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("no file '/home/ada/a b.csv'", "no file 'a b.csv'"),
        ("~/runs/1/model.pt is gone", "model.pt is gone"),
        ("../data/x, ./y/z", "x, z"),
        ("1,024 samples/s, 3/4 done", "1,024 samples/s, 3/4 done"),
        ("see https://pytorch.org/docs/x", "see https://pytorch.org/docs/x"),
    ],
)
def test_of_a_path_only_the_last_name_is_left(text, left):
    assert without_paths(text) == left


def test_a_plain_address_gets_the_fields_and_a_user_and_a_password_become_a_header():
    url, body, headers = sent_to("https://ada:s3%2Fcret@example.org/hook?key=1", message())
    assert url == "https://example.org/hook?key=1"
    assert (body["event"], body["session"], body["host"]) == ("failed", ABOUT.session, "box")
    assert headers["Content-Type"].startswith("application/json")
    assert headers["Authorization"] == f"Basic {base64.b64encode(b'ada:s3/cret').decode()}"


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://ntfy.sh/my-topic", "https://ntfy.sh/"),
        ("https://ntfy.example.org/my-topic?auth=x", "https://ntfy.example.org/?auth=x"),
        ("ntfy+http://10.0.0.2:8080/push/my-topic", "http://10.0.0.2:8080/push"),
    ],
)
def test_ntfy_gets_its_topic_a_title_and_a_priority(address, url):
    asked, body, _ = sent_to(address, message())
    assert asked == url
    assert (body["topic"], body["title"], body["priority"]) == ("my-topic", "train.py on box", 4)
    assert body["message"].startswith("Failed: no file x.bin")


def test_slack_discord_and_telegram_get_their_text():
    odd = message(Alert(5, AlertEvent.FAILED, "<!channel> & @everyone", 5, False, ()))
    _, slack, _ = sent_to("https://hooks.slack.com/services/T/B/x", odd)
    assert "&lt;!channel&gt; &amp; @everyone" in slack["text"]
    _, discord, _ = sent_to("https://discord.com/api/webhooks/1/x", odd)
    assert discord["allowed_mentions"] == {"parse": []}
    assert "@everyone" in discord["content"]
    telegram = "https://api.telegram.org/bot1:x/sendMessage?chat_id=42"
    url, body, _ = sent_to(telegram, odd)
    assert (url, body["chat_id"]) == ("https://api.telegram.org/bot1:x/sendMessage", "42")


def test_several_are_summed_up_in_one_that_names_the_last_and_counts_all():
    many = [message() for _ in range(100)]
    payload = payload_of(many, left_out=900)
    assert (payload["event"], payload["count"], len(payload["events"])) == ("several", 1000, 100)
    lines = text_of(payload).splitlines()
    assert lines[0] == f"({1000 - MOST_LINES:,} more before these)"
    assert len(lines) == MOST_LINES + 2


def test_no_text_is_longer_than_a_service_takes():
    long = message(Alert(5, AlertEvent.FAILED, "x" * 9999, 5, False, ()))
    _, body, _ = sent_to("https://discord.com/api/webhooks/1/x", *[long] * 20)
    assert len(body["content"]) == LONGEST_BODY


def test_there_is_a_sample_of_each_event():
    about, alerts = samples()
    assert {alert.event.value for alert in alerts} == set(EVENTS)
    assert all(text_of(message_of(alert, about)) for alert in alerts)
