"""Prints the loss of every step of the optimiser; the argument says how it comes about."""

import json
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

KIND = sys.argv[1]
PARTS = 4 if KIND == "accumulated" else 1

torch.manual_seed(7)
inputs = torch.randn(320, 8)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)
network = torch.nn.Linear(8, 1)
if KIND == "lbfgs":
    optimizer = torch.optim.LBFGS(network.parameters(), max_iter=3)
else:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", enabled=KIND == "scaled")
losses, batches, updates, epochs = [], 0, 0, []
for _ in range(2):
    losses.clear()
    added = 0.0
    for number, (some, wanted) in enumerate(loader):
        time.sleep(0.03)
        batches += 1

        def computed(some=some, wanted=wanted):
            return torch.nn.functional.mse_loss(network(some), wanted) / PARTS

        def closure(computed=computed):
            optimizer.zero_grad()
            loss = computed()
            loss.backward()
            return loss

        if KIND == "lbfgs":
            losses.append(optimizer.step(closure).item())
            updates += 1
            continue
        loss = computed()
        scaler.scale(loss).backward()
        added += loss.item()
        # What a script does with its loss afterwards is its own affair.
        loss.detach().zero_()
        if (number + 1) % PARTS == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            losses.append(added)
            added = 0.0
            updates += 1
    epochs.append(list(losses))
print(json.dumps({"steps": batches, "samples": 640, "epochs": 2, "updates": updates}))
print(json.dumps(epochs))
print(json.dumps([weight.tolist() for weight in network.parameters()]))
