"""Two optimisers, each with a step of its own for every batch."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(130, 4)), batch_size=20, shuffle=True, drop_last=True)
generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
makes = torch.optim.Adam(generator.parameters(), lr=0.01)
judges = torch.optim.Adam(critic.parameters(), lr=0.01)
judge = nn.BCEWithLogitsLoss()
samples = steps = updates = 0
losses = []
for _ in range(2):
    for (real,) in loader:
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        made = generator(torch.randn(len(real), 2))
        judges.zero_grad()
        error = judge(critic(real), ones) + judge(critic(made.detach()), zeros)
        error.backward()
        judges.step()
        makes.zero_grad()
        judge(critic(made), ones).backward()
        makes.step()
        samples, steps, updates = samples + len(real), steps + 1, updates + 2
        losses.append(error.item())
print(json.dumps({"samples": samples, "steps": steps, "updates": updates, "epochs": 2}))
print(losses)
