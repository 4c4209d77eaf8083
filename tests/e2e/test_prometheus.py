"""Prometheus scrapes `dlmon watch --serve` and evaluates our rules; a session serves itself."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import psutil
import pytest
from fakes.sessions import DEADLINE_S, Printing, eventually

from dlmon.exit_codes import WRONG_ARGUMENTS
from dlmon.records import Notice

RULES = Path(__file__).parents[2] / "packaging" / "prometheus" / "dlmon.rules.yml"
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Prometheus is not installed here",
)
SESSION = 'host="gpu1", session="one", name=""'
GPU = 'host="gpu1", gpu="GPU-1"'
# By alert: the input series, their values a minute apart, the minute, and the alert's summary.
FIRING = {
    "DlmonStalled": (
        {
            f"dlmon_step_overdue_seconds{{{SESSION}}}": "0 320",
            f"dlmon_suspended{{{SESSION}}}": "0 0",
        },
        1,
        "one on gpu1: no step for 5m 20s",
    ),
    "DlmonSessionFailed": (
        {'dlmon_sessions_ended_total{instance="gpu1:9817", status="failed"}': "0 0 1"},
        2,
        "A session of gpu1:9817 has failed: dlmon sessions lists it",
    ),
    "DlmonSlower": (
        {f"dlmon_samples_per_second{{{SESSION}}}": "100+0x39 50+0x15"},
        52,
        "one on gpu1 trains at less than 70 % of its mean of an hour",
    ),
    "DlmonWaitsForData": (
        {f"dlmon_data_wait_ratio{{{SESSION}}}": "0.75+0x16"},
        16,
        "one on gpu1 waits for data 75% of the time",
    ),
    "DlmonGpuIdle": (
        {
            f"dlmon_gpu_utilization_ratio{{{GPU}}}": "0+0x16",
            f'dlmon_session_gpu_info{{{SESSION}, gpu="GPU-1"}}': "1+0x16",
        },
        16,
        "GPU-1 of gpu1 is idle, though a session trains on it",
    ),
    "DlmonGpuLost": (
        {f"dlmon_gpu_lost{{{GPU}}}": "0 1 1"},
        2,
        "GPU-1 of gpu1 does not answer any more",
    ),
    "DlmonGpuError": (
        {f"dlmon_gpu_xid_errors_total{{{GPU}}}": "0 0 1"},
        2,
        "The driver reports an error of GPU-1 of gpu1",
    ),
    "DlmonGpuHot": (
        {f'dlmon_gpu_throttled{{{GPU}, reason="hardware thermal slowdown"}}': "1+0x2"},
        2,
        "GPU-1 of gpu1 is slowed by heat",
    ),
    "DlmonMemoryFull": (
        {
            'dlmon_memory_used_bytes{host="gpu1"}': "96+0x5",
            'dlmon_memory_bytes{host="gpu1"}': "100+0x5",
        },
        5,
        "The memory of gpu1 is 96% full",
    ),
    "DlmonSeriesDropped": (
        {'dlmon_dropped_series_total{session="one"}': "0 8"},
        1,
        "one has more series than are served",
    ),
}


class Serving(Printing):
    """`dlmon watch --serve` without a screen."""

    @property
    def url(self):
        return eventually(lambda: re.findall(r"http://\S+", self.stdout), "the address")[0]


@pytest.fixture
def serve(dlmon_command, log_dir, files, ended_with_test):
    """Return a function that serves this machine and the sessions of the log directory."""

    def begin(*arguments):
        options = ["--plain", "--interval", "0.25", "--log-dir", str(log_dir)]
        command = [dlmon_command, "watch", *options]
        return ended_with_test(Serving(files(), [*command, *arguments]))

    return begin


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def text_at(url):
    """Return what is answered at a URL; empty before somebody answers there."""
    try:
        with urlopen(url, timeout=DEADLINE_S) as answer:
            return answer.read().decode()
    except URLError:
        return ""


@pytest.fixture
def prometheus(tmp_path, ended_with_test, files):
    """Return a function that starts Prometheus for a target and returns what asks it."""

    def begin(target):
        config, port = tmp_path / "prometheus.yml", free_port()
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
                    "rule_files": [str(RULES)],
                    "scrape_configs": [
                        {"job_name": "dlmon", "static_configs": [{"targets": [target]}]}
                    ],
                }
            )
        )
        arguments = (
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        )
        ended_with_test(Printing(files(), ["prometheus", *arguments]))

        def ask(path):
            text = text_at(f"http://127.0.0.1:{port}/api/v1/{path}")
            return json.loads(text)["data"] if text.startswith("{") else {}

        return ask

    return begin


@needs_prometheus
def test_prometheus_scrapes_a_gpu_and_a_session_and_an_alert_fires(
    serve, prometheus, own_driver, start, files
):
    own_driver.says("gpus 1")
    serving, end = serve("--serve", "0"), files()
    session = start(script={"end of epoch 1": [["wait_for", end]]}, steps=20, step_s=0.01)
    ask = prometheus(serving.url.removeprefix("http://").removesuffix("/metrics"))

    def scraped(query):
        result = ask(f"query?query={quote(query)}").get("result")
        return result and result[0]["metric"], result and float(result[0]["value"][1])

    def is_scraped(query):
        return scraped(query)[0]

    gpu = eventually(lambda: is_scraped("dlmon_gpu_xid_errors_total == 0"), "a reading of the GPU")
    assert gpu["gpu"].startswith("GPU-")
    steps = f'dlmon_steps_total{{session="{session.header.id}"}} > 0'
    eventually(lambda: is_scraped(steps), "the steps of the session")
    own_driver.says("gpus 1", "xid 0 94")

    def firing():
        alerts = ask("alerts").get("alerts", ())
        return [alert for alert in alerts if alert["state"] == "firing"]

    (alert,) = eventually(firing, "an alert")
    assert alert["labels"]["alertname"] == "DlmonGpuError"
    assert alert["labels"]["gpu"] == gpu["gpu"]
    took_s = scraped("max_over_time(scrape_duration_seconds[5m])")[1]
    assert took_s < 2
    Path(end).touch()
    session.wait_for_end()


@needs_prometheus
def test_each_rule_fires_for_what_it_says_and_for_nothing_else(tmp_path):
    severities = dict(re.findall(r"alert: (\w+)[\s\S]*?severity: (\w+)", RULES.read_text()))
    assert list(severities) == list(FIRING)
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": [
                {
                    "eval_time": f"{minute}m",
                    "alertname": name,
                    "exp_alerts": [alert_of(series, severities[name], summary)]
                    if name == alert
                    else [],
                }
                for name in FIRING
            ],
        }
        for alert, (series, minute, summary) in FIRING.items()
    ]
    path = tmp_path / "tests.yml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
    subprocess.run(["promtool", "test", "rules", str(path)], check=True, timeout=DEADLINE_S)


def alert_of(series, severity, summary):
    """Return the alert with the labels of the first of these series."""
    labels = dict(re.findall(r'(\w+)="(.+?)"', next(iter(series))))
    return {
        "exp_labels": {**labels, "severity": severity},
        "exp_annotations": {"summary": summary},
    }


def exporters_of(log_dir):
    """Return the processes that serve the sessions of a log directory."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if {"dlmon.exporter", str(log_dir)} <= set(process.info["cmdline"] or ())
    ]


def test_sessions_are_served_by_one_process_that_outlives_them(start, log_dir, files):
    port, end = free_port(), files()
    script = {"end of epoch 1": [["wait_for", end]]}
    first, second = (start(serve=str(port), script=script) for _ in range(2))
    url = f"http://127.0.0.1:{port}/metrics"
    ids = {first.header.id, second.header.id}
    shown = r'dlmon_session_info\{.*session="(.*?)"'
    eventually(lambda: set(re.findall(shown, text_at(url))) == ids, "both sessions")
    (exporter,) = exporters_of(log_dir)
    Path(end).touch()
    assert [session.wait_for_end().status for session in (first, second)] == ["completed"] * 2
    ended = 'dlmon_sessions_ended_total{status="completed"} 2.0'
    eventually(lambda: ended in text_at(url), "the ends of both")
    exporter.kill()
    exporter.wait()


def test_a_busy_port_is_one_sentence_and_ends_no_run(start, refused):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        session = start(serve=str(port))
        assert session.wait_for_end().status == "completed"
        (notice,) = session.records(Notice)
        sentence = f"metrics can't be served at 127.0.0.1:{port}: another program uses the port"
        assert notice.text.startswith(sentence)
        answer = refused("watch", "--serve", str(port))
    assert answer.returncode == WRONG_ARGUMENTS
    assert answer.stderr.startswith(f"dlmon: {sentence}")


def test_another_address_than_loopback_is_taken_if_asked_for_and_said(serve):
    serving = serve("--serve", "0.0.0.0:0")
    port = serving.url.rpartition(":")[2].removesuffix("/metrics")
    assert "; other machines can read them, without a password" in serving.stdout
    eventually(lambda: "dlmon_cpu_" in text_at(f"http://127.0.0.2:{port}/metrics"), "a reading")
