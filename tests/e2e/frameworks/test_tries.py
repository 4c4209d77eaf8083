"""`dlmon try` finds what slows a real script down; about 15 s on a quiet machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPTS = Path(__file__).parent / "scripts"
SCRIPT = f"""
import sys, time, torch
sys.path.append({str(SCRIPTS)!r})
import uncompiled
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.ones(4)
network = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for batch in torch.utils.data.DataLoader(Slow(), batch_size=4):
    optimizer.zero_grad()
    network(batch).sum().backward()
    optimizer.step()
"""


def test_workers_are_tried_in_a_script_that_waits_for_a_slow_dataset(interpreter, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TERM": "dumb"}
    command = [sys.executable, "-P", "-c", "from tui.start import main; main()", "try"]
    options = ["--window", "1s", "--for", "10m", "--log-dir", str(tmp_path / "logs")]
    with subprocess.Popen(
        [*command, *options, "--", interpreter, "train.py"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            lines = []
            for line in process.stdout:
                lines.append(line.rstrip())
                if "num_workers" in line and "(warm-up): completed" in line:
                    break
            process.send_signal(signal.SIGINT)
            outcome = process.stdout.read().splitlines()
        finally:
            process.kill()
    told = "\n".join([*lines, *outcome])
    chosen = [line for line in lines if "to try: " in line]
    assert len(chosen) == 1, told
    assert re.search(r"num_workers \d \(waits for data \d+ % of a step, and no worker", chosen[0])
    # The setting was applied, or its run would be impossible. Ctrl-C says what there is.
    assert re.search(r"num_workers \d \(warm-up\): completed", told)
    assert "Not decided" in outcome, told
    assert any("stopped before a pair was complete" in line for line in outcome), told
    assert process.returncode == 130
