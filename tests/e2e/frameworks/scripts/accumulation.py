"""Gradients are added up over four batches; what is left over makes a step after the loop."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(150, 8), torch.randn(150, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)
model, loss = nn.Linear(8, 1), nn.MSELoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
samples = steps = updates = 0
losses = []
for _ in range(3):
    for number, (a, b) in enumerate(loader):
        error = loss(model(a), b) / 4
        error.backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
            updates += 1
        samples, steps = samples + len(a), steps + 1
        losses.append(error.item())
    optimizer.step()
    optimizer.zero_grad()
    updates += 1
print(json.dumps({"samples": samples, "steps": steps, "updates": updates, "epochs": 3}))
print(losses)
