"""A PyTorch loop that times the parts of its steps itself, for bench/step_parts.py.

Arguments: the way to train, the device, the number of steps, and `parts` to wait for the GPU at the
end of each part.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

PARTS = ("wait", "copy", "forward", "backward", "optimizer", "rest")
WAIT_S = 0.004
WARM_UP = 20


def train(way: str, device: str, steps: int, *, by_parts: bool) -> None:
    """Train, and print the milliseconds of a step, and with `by_parts` those of each part."""
    on_gpu = device != "cpu"
    if not on_gpu:
        torch.set_num_threads(1)
    width, batch = (4096, 4096) if on_gpu else (96, 32)

    class Samples(IterableDataset[Any]):
        def __iter__(self) -> Any:
            samples = torch.randn(batch, width)
            for _ in range(steps):
                time.sleep(WAIT_S)
                yield samples

    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    network = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(network.parameters())
    scaler = torch.amp.GradScaler(device, enabled=way == "autocast" and on_gpu)
    took: dict[str, list[float]] = {part: [] for part in PARTS}
    whole: list[float] = []
    last = step_begin = time.perf_counter()

    def ended(part: str) -> None:
        nonlocal last
        if by_parts:
            if on_gpu:
                torch.cuda.synchronize()
            now = time.perf_counter()
            took[part].append(now - last)
            last = now

    for samples in DataLoader(Samples(), batch_size=None):
        ended("wait")
        inputs = samples.to(device)
        ended("copy")
        with torch.autocast(device, torch.float16 if on_gpu else torch.bfloat16, way == "autocast"):
            loss = network(inputs).square().mean()
        loss = scaler.scale(loss)
        ended("forward")
        loss.backward()
        ended("backward")
        scaler.unscale_(optimizer)
        ended("rest")
        scaler.step(optimizer)
        ended("optimizer")
        scaler.update()
        optimizer.zero_grad()
        if way != "free":
            loss.item()
        ended("rest")
        now = time.perf_counter()
        whole.append(now - step_begin)
        step_begin = now
    if on_gpu:
        torch.cuda.synchronize()
    means_s = {"step": statistics.mean(whole[WARM_UP:])}
    if by_parts:
        for part, times in took.items():
            per_step = len(times) // steps
            means_s[part] = per_step * statistics.mean(times[per_step * WARM_UP :])
    print(json.dumps({part: 1000 * mean_s for part, mean_s in means_s.items()}))


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], int(sys.argv[3]), by_parts=sys.argv[4:] == ["parts"])
