"""Validation every few steps, within the loop; argument: where gradients are switched off."""

import json
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(120, 8), torch.randn(120, 1)
train = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)
check = DataLoader(TensorDataset(x[:40], y[:40]), batch_size=10)
model, loss = nn.Linear(8, 1), nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def validate():
    total = 0.0
    for a, b in check:
        # Longer than all the steps of training together.
        time.sleep(0.1)
        with torch.no_grad():
            total += loss(model(a), b).item()
    return total


samples = steps = 0
losses = []
for _ in range(2):
    for a, b in train:
        optimizer.zero_grad()
        loss(model(a), b).backward()
        optimizer.step()
        samples, steps = samples + len(a), steps + 1
        if steps % 5 == 0:
            if sys.argv[1] == "around":
                with torch.no_grad():
                    losses.append(validate())
            else:
                losses.append(validate())
print(json.dumps({"samples": samples, "steps": steps, "updates": steps, "epochs": 2}))
print(losses)
