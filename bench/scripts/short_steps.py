"""Train a small network on one thread of the CPU, about 1.3 ms a step, until it is stopped.

With SLEEP_MS in the environment, its loader sleeps so long before each fourth batch.
"""

from __future__ import annotations

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCHES, BATCH_SIZE, WIDTH = 500, 32, 256

torch.set_num_threads(1)
network = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(3)])
optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)
SLEEP_S = float(os.environ.get("SLEEP_MS", "0")) / 1000


class Samples(TensorDataset):
    """Random samples, fetched a batch at a time."""

    def __getitems__(self, indices: list[int]) -> list[tuple[torch.Tensor, ...]]:
        if SLEEP_S and indices[0] // BATCH_SIZE % 4 == 0:
            time.sleep(SLEEP_S)
        return [self[index] for index in indices]


loader = DataLoader(Samples(torch.randn(BATCH_SIZE * BATCHES, WIDTH)), batch_size=BATCH_SIZE)
while True:
    for (batch,) in loader:
        optimizer.zero_grad()
        network(batch).square().mean().backward()
        optimizer.step()
