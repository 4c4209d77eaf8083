"""Mixed precision, where the scaler leaves out a step whose gradients are not finite."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(100, 4), torch.randn(100, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=10)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
samples = steps = updates = 0
losses = []
for epoch in range(2):
    for number, (a, b) in enumerate(loader):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            error = ((model(a).float() - b) ** 2).mean()
        scaled = scaler.scale(error)
        if (epoch, number) in ((0, 0), (0, 9), (1, 4)):
            scaled = scaled * float("inf")
        scaled.backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        updates += scaler.get_scale() >= before
        samples, steps = samples + len(a), steps + 1
        losses.append(error.item())
print(json.dumps({"samples": samples, "steps": steps, "updates": updates, "epochs": 2}))
print(losses)
