"""The page: one file that asks no network for anything, and runs nothing but what is ours."""

import base64
import hashlib
import json
import re
from html import escape

import pytest
from fakes.recorded import BEGIN_NS, BEGIN_WALL, recorded_session, write_log
from fakes.sections import under

from dlmon.figures.report.report import make_report
from dlmon.records import Batches, Cpu, Gpu, Machine, Memory, ProcessTree, Result
from dlmon.render.html import html_of
from dlmon.render.markdown import markdown_of

HOUR_S = 3600
OTHER = "20261121-145600-cifar10-cnn-0001"


@pytest.fixture
def page(tmp_path):
    return html_of(make_report([write_log(tmp_path, recorded_session())], []))


def drawn_in(text):
    return json.loads(re.search(r'id="drawn">(.*?)</script>', text, re.DOTALL)[1])


def test_a_page_says_what_ran_and_what_came_of_it(page):
    for text in (
        "cifar10-cnn", "9.16 s ± 0.01 per epoch.", "NVIDIA GTX 1060", "NVIDIA GTX 1080 Ti",
        "completed", "Epochs", "val_accuracy", "TensorFlow 2.21.0", "dlmon run cifar10-cnn",
    ):  # fmt: skip
        assert text in page


def test_a_page_draws_throughput_cpu_and_gpu_on_one_axis(page):
    drawn = drawn_in(page)
    titles = [chart["title"] for chart in drawn["charts"]]
    assert titles == ["Throughput", "CPU", "GPU utilisation", "Power", "Memory in use"]
    assert [chart["title"] for chart in drawn["metrics"]] == ["Loss", "Accuracy"]
    assert len({chart["width_s"] for chart in drawn["charts"]}) == 1
    assert [mark["text"] for mark in drawn["marks"]] == ["epoch 1", "epoch 2", "epoch 3"]
    throughput = drawn["charts"][0]["lines"][0]["mean"]
    # Before the first batch there is none, and none is never zero.
    assert throughput[0] is None
    assert 5_000 < max(value for value in throughput if value is not None) < 6_000


def test_the_policy_allows_the_scripts_and_the_style_of_the_page_and_nothing_else(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    policy = policy.replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert (len(scripts), len(styles)) == (2, 1)
    for text in (*scripts, *styles):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_a_page_names_no_address_that_a_browser_would_load(page):
    assert not re.search(r"""\b(src|href|action|srcset|data|poster)\s*=\s*["']""", page)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\(", page)


def test_two_sessions_are_compared_as_sides(tmp_path):
    one = write_log(tmp_path, recorded_session())
    later = recorded_session(session_id=OTHER, step_us=25_000, begin_wall=BEGIN_WALL + 86_400)
    report = make_report([one, write_log(tmp_path, later)], [])
    (it,) = report.compared
    heading, verdict, alike, table, *_ = it.sections
    assert "1 run each" in verdict.sentences[0]
    assert alike.sentences == ("Nothing that is known of arguments, code and machine differs.",)
    assert table.rows[0][0] == "samples/s"
    page = html_of(report)
    # The table and the verdict speak of base and new alone.
    beside = f"{OTHER} (new) beside {report.names[0]} (base)"
    assert heading.text == beside
    assert beside in page
    assert f"## {beside}\n" in markdown_of(report).replace("`", "")
    assert escape(verdict.sentences[0]).replace("&#x27;", "&#39;") in page
    assert report.as_json()["comparisons"][0]["figures"]


def long_log(tmp_path, hours, gpus=8):
    """Write a log of noisy readings, seconds apart where it is long, and return its path."""
    header, *_ = recorded_session(gpus=gpus)
    step_ns = 1_000_000_000 * (1 if hours <= 1 else 12)
    records = [header]
    for number in range(int(hours * HOUR_S * 1e9 // step_ns)):
        t = BEGIN_NS + (number + 1) * step_ns
        noise = (number * 7919) % 1009 / 10
        of_gpu = [
            (int(noise + i) % 100, 4_321 + number % 331, 201.2 + noise + i) for i in range(gpus)
        ]
        sample = Machine(
            t,
            BEGIN_WALL + number,
            cpu=Cpu(pct=noise % 100, power_w=61.23 + noise),
            memory=Memory(used_mib=10_000 + number % 977),
            process=ProcessTree(cpu_pct=123.4 + noise),
            gpus=tuple(Gpu(i, *values) for i, values in enumerate(of_gpu)),
        )
        took_us = (step_ns // 4000,) * 4
        trained = Batches(number // 60, number % 60 * 4, 100 + number % 13, t, took_us)
        records += [sample, trained]
    result = Result("completed", header.id, "", header.workload, "gpu:0", {}, hours * HOUR_S)
    return write_log(tmp_path, [*records, result])


@pytest.mark.slow
@pytest.mark.parametrize(("hours", "most"), [(1, 500_000), (24, 3_000_000)])
def test_a_page_is_not_too_large_to_hand_on(tmp_path, hours, most):
    text = html_of(make_report([long_log(tmp_path, hours)], []))
    assert len(text.encode()) < most
    # It would rather be finer than need be.
    assert len(text.encode()) > most / 4


def test_bars_of_where_the_time_went_are_as_long_as_their_shares(tmp_path):
    report = make_report([write_log(tmp_path, recorded_session())], [])
    page = html_of(report)
    section = page[page.index("Where the time went") :]
    lengths = [float(n) for n in re.findall(r'<rect width="([\d.]+)"', section)]
    seconds = [bar.value for bar in under(report.sessions[0], "Where the time went").bars]
    assert max(seconds) > 30 * min(seconds)
    expected = [100 * one / max(seconds) for one in seconds]
    assert lengths[: len(seconds)] == pytest.approx(expected, abs=0.06)
    assert "logarithmic" not in section
