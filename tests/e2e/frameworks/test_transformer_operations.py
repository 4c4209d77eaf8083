"""The operations of the transformers in the catalog, beside what PyTorch counts of them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from workloads.catalog import WORKLOADS

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).parent / "scripts" / "count_operations.py"
FEW_WORDS = 8


def test_the_operations_of_transformers_are_those_that_pytorch_counts(interpreter):
    environment = {**os.environ, "KERAS_BACKEND": "torch", "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        [interpreter, str(SCRIPT), str(FEW_WORDS)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    ).stdout
    counted = json.loads(printed.splitlines()[-1])
    # GPT-2 was counted with few words, for which its last product is small.
    more = {"gpt2-124m": 2 * 1024 * 768 * (50_257 - FEW_WORDS)}
    for name, ((forward, both), (forward_of_2, both_of_2)) in counted.items():
        logits = more.get(name, 0)
        of_all = [
            forward + 11 * (forward_of_2 - forward) + logits,
            both + 11 * (both_of_2 - both) + 3 * logits,
        ]
        workload = WORKLOADS[name]
        ours = [workload.forward_flops, workload.train_flops]
        assert ours == pytest.approx(of_all, rel=1e-3), name
