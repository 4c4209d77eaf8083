"""Who may import whom, in interpreters of their own; the contracts are in pyproject.toml."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"textual", "rich", "click", "keras", "tensorflow", "numpy", "jax", "torch"}
CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
}
# Packages, and modules outside of them.
STANDARD_LIBRARY_ONLY = tuple(
    CONTRACTS["What runs in the trained interpreter needs the standard library only"][
        "source_modules"
    ]
)
# What runs in the trained interpreter, or on a remote box, where Python may be 3.10.
FACE = {ROOT / "dlmon" / name for name in ("agents", "cli", "render", "figures", "options")}
ELSEWHERE = [
    path
    for package in ("dlmon", "workloads")
    for path in sorted((ROOT / package).rglob("*.py"))
    if FACE.isdisjoint(path.parents)
]
WITH_KERAS = {"dlmon.keras"}

# Imports each module in a fork of an interpreter that has imported nothing of ours yet, but what
# takes long of the standard library.
IMPORT_EACH = """
import importlib, json, os, sys
import argparse, asyncio, concurrent.futures, csv, ctypes, dataclasses, fractions, hashlib
import http.client, importlib.metadata, inspect, logging, multiprocessing, pathlib, platform
import random, shlex, shutil, socket, ssl, statistics, subprocess, tempfile, typing, urllib.request
for name in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        before = set(sys.modules)
        try:
            importlib.import_module(name)
            outcome = sorted({loaded.partition(".")[0] for loaded in set(sys.modules) - before})
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
        os.write(1, json.dumps([name, outcome]).encode() + b"\\n")
        os._exit(0)
    os.waitpid(child, 0)
"""


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


ENGINE = sorted(
    {module_name(path) for path in ELSEWHERE if path.is_relative_to(ROOT / "dlmon")} - WITH_KERAS
)


def packages_of(names, program=IMPORT_EACH):
    """Return, for each module, the packages that importing it brings in."""
    completed = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    found = dict(json.loads(line) for line in completed.stdout.splitlines())
    assert set(found) == set(names)
    failures = {name: what for name, what in found.items() if isinstance(what, str)}
    assert not failures
    return {name: set(packages) for name, packages in found.items()}


@pytest.mark.slow
def test_a_module_imports_no_more_than_where_it_runs_has():
    """One test, for every process of the tests would import all modules again."""
    imported = packages_of([*ENGINE, "workloads", "workloads.catalog"])
    forbidden = {}
    for name, packages in imported.items():
        too_many = packages & (HEAVY | {"tui"})
        if name in ENGINE:
            too_many |= packages & {"workloads"}
        if f"{name}.".startswith(STANDARD_LIBRARY_ONLY):
            too_many |= packages - {"dlmon", *sys.stdlib_module_names}
        if name.startswith("dlmon.supervisor."):
            too_many |= packages & {"pynvml"}
        if too_many:
            forbidden[name] = too_many
    assert forbidden == {}


@pytest.mark.parametrize(
    ("names", "without"),
    [
        (
            "dlmon.cli.main, dlmon.cli.shared, tui.app, tui.home.home_screen",
            {"click", "jinja2", "dlmon.records.codec", "dlmon.session.session"},
        ),
        # What `dlmon attach` shows while it reads the log.
        (
            "tui.app, dlmon.figures.lists.session_list",
            {"dlmon.session.snapshot", "dlmon.session.loops"},
        ),
    ],
    ids=["home", "attach"],
)
def test_a_first_screen_opens_without_what_it_does_not_show(names, without):
    program = f"import sys, {names}; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    loaded = set(done.stdout.split())
    assert set(names.split(", ")) <= loaded
    assert not without & loaded


def test_where_psutil_is_missing_the_sensors_import_the_standard_library():
    names = [name for name in ENGINE if name.startswith("dlmon.sensors")]
    without_psutil = f"import sys\nsys.modules['psutil'] = None\n{IMPORT_EACH}"
    for packages in packages_of(names, without_psutil).values():
        assert packages - {"dlmon"} <= set(sys.stdlib_module_names)


@pytest.mark.slow
def test_what_runs_elsewhere_is_python_3_10():
    for path in ELSEWHERE:
        ast.parse(path.read_text(), str(path), feature_version=(3, 10))
