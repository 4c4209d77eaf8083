"""A process that is spawned and one that is forked train; the one that starts them doesn't."""

import json
import os
import sys

import torch
import torch.multiprocessing as mp
import uncompiled  # noqa: F401
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(number):
    torch.manual_seed(number)
    samples = 50 + 10 * number
    data = TensorDataset(torch.randn(samples, 4), torch.randn(samples, 1))
    loader = DataLoader(data, batch_size=8)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for a, b in loader:
        optimizer.zero_grad()
        error = ((model(a) - b) ** 2).mean()
        error.backward()
        optimizer.step()
        losses.append(error.item())
    counts = {"samples": samples, "steps": len(loader), "updates": len(loader), "epochs": 1}
    line = json.dumps({"rank": number, "losses": losses, "pid": os.getpid(), **counts})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    processes = [
        mp.get_context(how).Process(target=train, args=(number,))
        for number, how in enumerate(("spawn", "fork"))
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))
