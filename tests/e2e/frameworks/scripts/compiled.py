"""A compiled model, and a step of an optimiser within a compiled function.

What makes machine code of the traced graphs is left out: it takes a minute, and calls no hook.
"""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96, 1)), batch_size=16)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


@torch.compile(backend="eager")
def step():
    optimizer.step()


samples = steps = 0
losses = []
for _ in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        error = nn.functional.mse_loss(compiled(a), b)
        error.backward()
        step()
        samples, steps = samples + len(a), steps + 1
        losses.append(error.item())
print(json.dumps({"samples": samples, "steps": steps, "updates": steps, "epochs": 2}))
print(losses)
