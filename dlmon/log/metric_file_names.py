"""Tell by its name whether another program may have recorded metrics in a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

EVENTS = "tfevents"
# A folder may hold many tables that are no metrics.
TABLES = ("metrics.csv", "progress.csv", "history.csv", "log.csv", "metrics.jsonl")
DATABASES = (".wandb", ".db", ".sqlite")
FRAGMENT = re.compile(r"\d{8}\.jsonl")
"""The files of trackio on a network file system, whose writers have a folder each."""
MLFLOW_RUN, MLFLOW_METRICS = "meta.yaml", "metrics"
MOST_FILES = 100_000


def metric_files_in(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder whose names say that they hold metrics, by path."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        count += len(names) + 1
        if count > MOST_FILES:
            return
        is_of_mlflow = MLFLOW_METRICS in Path(place).relative_to(folder).parts
        for name in sorted(names):
            is_metric = EVENTS in name or name in (*TABLES, MLFLOW_RUN) or name.endswith(DATABASES)
            if is_metric or is_of_mlflow or FRAGMENT.fullmatch(name):
                yield Path(place, name)
