"""The dashboard and the alert rules name metrics and labels that are served."""

import json
import re
from itertools import chain
from pathlib import Path

import pytest
from fakes.exported import exporter_of, training
from fakes.scripts import script_session
from prometheus_client.openmetrics.parser import text_string_to_metric_families

PACKAGING = Path(__file__).parents[2] / "packaging"
RULES = (PACKAGING / "prometheus" / "dlmon.rules.yml").read_text()
DASHBOARD = json.loads((PACKAGING / "grafana" / "dlmon.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = list(chain.from_iterable(panel["targets"] for panel in PANELS))
VARIABLES = [variable["query"]["query"] for variable in DASHBOARD["templating"]["list"][1:]]
EXPRESSIONS = [
    *(target["expr"] for target in TARGETS),
    *VARIABLES,
    *re.findall(r"expr: (.*)", RULES),
]
# What a scraper adds to each series.
OF_TARGET = {"instance", "job"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return the labels of each series of sessions that have all figures, by its name."""
    folder = tmp_path_factory.mktemp("logs")
    exporter = exporter_of(folder, training("one", gpus=2), script_session(samples=None))
    body = exporter.answer("application/openmetrics-text")[0].decode()
    samples = chain.from_iterable(family.samples for family in text_string_to_metric_families(body))
    return {sample.name: set(sample.labels) for sample in samples}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_metric_and_its_labels_are_served(served, expression):
    metrics = re.findall(r"\b(dlmon_\w+)(?:\{([^}]*)\})?", expression)
    assert metrics
    for name, selectors in metrics:
        assert name in served
        assert set(re.findall(r"(\w+)=", selectors)) <= served[name]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target["expr"])
def test_each_legend_names_labels_of_its_metric(served, target):
    (name, *_) = re.findall(r"\bdlmon_\w+", target["expr"])
    assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= served[name]


def test_each_summary_of_an_alert_names_labels_of_its_metric(served):
    rules = re.findall(r"expr: (.*)(?:\n.*)*?\n +summary: (.*)", RULES)
    assert len(rules) == RULES.count("alert:")
    for expression, summary in rules:
        (name, *_) = re.findall(r"\bdlmon_\w+", expression)
        assert set(re.findall(r"\$labels\.(\w+)", summary)) <= served[name] | OF_TARGET


def test_panels_have_names_of_their_own_and_lie_beside_each_other():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
