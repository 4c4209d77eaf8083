"""Two loaders in one loop; then one that is begun again whenever it ends; then loops left early."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
known = DataLoader(TensorDataset(torch.randn(90, 4), torch.randn(90, 1)), batch_size=10)
unknown = DataLoader(TensorDataset(torch.randn(55, 4)), batch_size=11)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
samples = steps = 0
losses = []


def step(a, b, other):
    global samples, steps
    optimizer.zero_grad()
    error = ((model(a) - b) ** 2).mean() + (model(other) ** 2).mean()
    error.backward()
    optimizer.step()
    samples, steps = samples + len(a), steps + 1
    losses.append(error.item())


for (a, b), (other,) in zip(known, unknown, strict=False):
    step(a, b, other)

others = iter(unknown)
for _ in range(2):
    for a, b in known:
        try:
            (other,) = next(others)
        except StopIteration:
            others = iter(unknown)
            (other,) = next(others)
        step(a, b, other)

for a, b in known:
    step(a, b, a)
    if steps % 4 == 0:
        break
for number, (a, b) in enumerate(known):
    if number == 3:
        break
    step(a, b, a)
# The first loop ended with the shorter loader, which was asked after the longer one.
print(json.dumps({"samples": samples, "steps": steps, "updates": steps, "epochs": 5}))
print(losses)
