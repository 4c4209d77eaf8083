"""Accelerate's loop with gradients that are added up; argument: whether one process hands out."""

import json
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(
    cpu=True,
    gradient_accumulation_steps=4,
    dataloader_config=DataLoaderConfiguration(dispatch_batches=sys.argv[1] == "dispatched"),
)
x, y = torch.randn(203, 8), torch.randn(203, 1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
train = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
check = DataLoader(TensorDataset(x[:50], y[:50]), batch_size=16)
model, optimizer, train, check = accelerator.prepare(model, optimizer, train, check)
samples = steps = updates = 0
losses = []
for _ in range(3):
    model.train()
    for a, b in train:
        with accelerator.accumulate(model):
            error = nn.functional.mse_loss(model(a), b)
            accelerator.backward(error)
            optimizer.step()
            updates += accelerator.sync_gradients
            optimizer.zero_grad()
        samples, steps = samples + len(a), steps + 1
        losses.append(error.item())
    model.eval()
    with torch.no_grad():
        losses.append(sum(nn.functional.mse_loss(model(a), b).item() for a, b in check))
print(json.dumps({"samples": samples, "steps": steps, "updates": updates, "epochs": 3}))
print(losses)
