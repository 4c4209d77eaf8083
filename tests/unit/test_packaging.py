"""The recipes for other installers say what pyproject.toml says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import dlmon

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()


def test_the_conda_recipe_has_the_version():
    assert f'version: "{dlmon.__version__}"' in RECIPE


def test_the_conda_recipe_needs_what_the_package_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run = re.search(r"\n  run:\n((?:    - .+\n)+)", RECIPE)[1]
    needed = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()}
    assert needed == {f"python{project['requires-python']}", *project["dependencies"]}
